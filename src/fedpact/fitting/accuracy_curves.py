"""The shape of an accuracy curve: g(y) from 0 to 1 as the weighted data y grows, with its derivatives.

    accuracy = floor + (ceiling - floor) g(y),        y = sum_j w_ij s_j

The weights carry the scale of the data, so a family is fitted in its unit form: the rate of the exponential and the
half of Michaelis are 1, and only the power law has a shape of its own, beta. The logarithm has no ceiling and is not
offered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Exponential, Federation, Michaelis, Payoff, PowerLaw
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput

CURVE_FAMILIES: Mapping[str, type[Payoff]] = {kind.family: kind for kind in (PowerLaw, Exponential, Michaelis)}


def has_shape(family: str) -> bool:
    """Whether the parameter of a family is fitted; otherwise it is 1."""
    return family == PowerLaw.family


def curve_derivatives(
    family: str, y: FloatArray, log_shape: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray | float]:
    """The curve g, dg/dy and dg/dlog(shape) at y and log(shape)."""
    if family == Exponential.family:
        return -np.expm1(-y), np.exp(-y), 0.0
    if family == Michaelis.family:
        return y / (1.0 + y), (1.0 + y) ** -2, 0.0
    beta, log_reach = np.exp(log_shape), np.log1p(y)
    short = np.exp(-beta * log_reach)
    return -np.expm1(-beta * log_reach), beta * short / (1.0 + y), beta * log_reach * short


def checked_range(
    floors: ArrayLike, ceilings: ArrayLike, federation: Federation, *, labels: tuple[str, str] = ("floors", "ceilings")
) -> tuple[FloatArray, FloatArray]:
    """One floor and one ceiling per agent, the former below the latter; `labels` are what the caller calls them."""
    checked = []
    for label, given in zip(labels, (floors, ceilings), strict=True):
        numbers = checked_numbers(
            label, given, lambda x: (x >= 0) & (x <= 1), "an accuracy from 0 to 1", names=federation.names
        )
        checked.append(read_only_copy(np.broadcast_to(numbers, federation.n_agents)))
    for agent in np.flatnonzero(checked[0] >= checked[1])[:1]:
        raise InvalidInput(
            f"{labels[0]}[{agent}] must be below the ceiling {checked[1][agent]:g}, got {checked[0][agent]:g} "
            f'(member "{federation.names[agent]}")'
        )
    return checked[0], checked[1]

"""The shape of an accuracy curve: g(y) from 0 to 1 as the weighted data y grows, with its derivatives.

    accuracy = floor + (ceiling - floor) g(y),        y = sum_j w_ij s_j

The weights carry the scale of the data, so a family is fitted in its unit form: the rate of the exponential and the
half of Michaelis are 1, and only the power law has a shape of its own, beta. The logarithm has no ceiling and is not
offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Exponential, Federation, Michaelis, Payoff, PowerLaw
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput

Derivatives = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True)
class CurveFamily:
    """A family of curves."""

    payoff: type[Payoff]  # The payoff family it becomes in a federation
    parameter: str  # The name of that family's parameter
    has_shape: bool  # Whether the parameter is fitted; otherwise it is 1
    lowest: float
    evaluate: Callable[[FloatArray, FloatArray], Derivatives]  # g, dg/dy and dg/dlog(shape) at y and log(shape)

    def payoff_with(self, shape: Any) -> Payoff:
        """The payoff family with its parameter."""
        return self.payoff(**{self.parameter: shape})


def _power_law(y: FloatArray, log_shape: FloatArray) -> Derivatives:
    beta, log_reach = np.exp(log_shape), np.log1p(y)
    short = np.exp(-beta * log_reach)
    return -np.expm1(-beta * log_reach), beta * short / (1.0 + y), beta * log_reach * short


def _exponential(y: FloatArray, log_shape: FloatArray) -> Derivatives:
    short = np.exp(-y)
    return -np.expm1(-y), short, np.zeros_like(y)


def _michaelis(y: FloatArray, log_shape: FloatArray) -> Derivatives:
    return y / (1.0 + y), (1.0 + y) ** -2, np.zeros_like(y)


CURVE_FAMILIES: Mapping[str, CurveFamily] = {
    PowerLaw.family: CurveFamily(payoff=PowerLaw, parameter="beta", has_shape=True, lowest=-1.0, evaluate=_power_law),
    Exponential.family: CurveFamily(
        payoff=Exponential, parameter="rate", has_shape=False, lowest=-np.inf, evaluate=_exponential
    ),
    Michaelis.family: CurveFamily(
        payoff=Michaelis, parameter="half", has_shape=False, lowest=-1.0, evaluate=_michaelis
    ),
}


def curve_family(family: str) -> CurveFamily:
    """The curve of a payoff family."""
    if family not in CURVE_FAMILIES:
        raise InvalidInput(
            f"family must be one of {', '.join(CURVE_FAMILIES)}, got {family!r:.60}; a curve needs a ceiling to be "
            "fitted"
        )
    return CURVE_FAMILIES[family]


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

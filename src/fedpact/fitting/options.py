"""The options of a fit, checked, as the rules it follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.accuracy_curves import curve_named
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import CURVE_PARTS, LEAST_RANGE, Setting
from fedpact.fitting.starting_points import typical_scale
from fedpact.utils.arrays import FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput

__all__ = ["checked_noise", "setting_of"]

SIGNS = ("positive", "any")

Accepts = Callable[[FloatArray], NDArray[np.bool_]]
ENDS: Mapping[str, tuple[Accepts, str]] = {
    "floor": (lambda numbers: (numbers >= 0) & (numbers < 1), "at least 0 and below 1"),
    "ceiling": (lambda numbers: (numbers > 0) & (numbers <= 1), "above 0 and at most 1"),
}


def setting_of(
    observations: Observations,
    *,
    family: str,
    signs: str,
    shared: Sequence[str],
    ends: Mapping[str, ArrayLike | None],
    prior: float,
) -> tuple[Setting, FloatArray]:
    """The rules of the fit, and the known parts of the curves, (n, 3), NaN where they are fitted."""
    if not isinstance(observations, Observations):
        raise InvalidInput(
            f"observations must be Observations; make them with Observations.of or Observations.from_csv, "
            f"got {observations!r:.80}"
        )
    if signs not in SIGNS:
        raise InvalidInput(f"signs must be one of {', '.join(SIGNS)}, got {signs!r:.40}")
    curve, parts = curve_named(family), (shared,) if isinstance(shared, str) else tuple(shared)
    for part in parts:
        if part not in CURVE_PARTS:
            raise InvalidInput(f"shared must be among {', '.join(CURVE_PARTS)}, got {part!r:.40}")
    known = _known(observations, ends)
    if not curve.has_shape:
        known[:, 0] = 0.0
    setting = Setting(
        curve=curve,
        shared=np.array([part in parts for part in CURVE_PARTS]),
        known=~np.isnan(known[0]),
        free_ratios=~np.eye(observations.n_agents, dtype=bool),
        signed=signs == "any",
        prior=_one_number("prior", prior, non_negative, "at least zero and finite"),
        scale_mean=typical_scale(observations.contributions),
    )
    return setting, known


def checked_noise(given: float | None) -> float | None:
    """The training noise if it is known."""
    if given is None:
        return None
    return _one_number("training_noise", given, *ENDS["floor"])


def _known(observations: Observations, ends: Mapping[str, ArrayLike | None]) -> FloatArray:
    known = np.full((observations.n_agents, 3), np.nan)
    for label, numbers in ends.items():
        if numbers is not None:
            known[:, CURVE_PARTS.index(label)] = checked_numbers(label, numbers, *ENDS[label], names=observations.names)
    for agent in np.flatnonzero(known[:, 2] - known[:, 1] < LEAST_RANGE)[:1]:
        raise InvalidInput(
            f"ceiling must exceed floor by at least {LEAST_RANGE}, got {known[agent, 2]:g} and {known[agent, 1]:g} "
            f'(agent "{observations.names[agent]}")'
        )
    return known


def _one_number(label: str, given: Any, accepts: Accepts, rule: str) -> float:
    checked = checked_numbers(label, given, accepts, rule)
    if checked.ndim:
        raise InvalidInput(f"{label} must be one number, got {given!r:.60}")
    return float(checked)

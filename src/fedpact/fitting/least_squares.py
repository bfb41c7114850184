"""Least squares within bounds, and the noise that residuals are weighed by.

An accuracy measured on m samples has variance a (1 - a) / m. Training the same data twice gives two models, which adds
a variance of its own, the same for all measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.utils.arrays import FloatArray

Problem = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
ASSUMED_NOISE = 0.02  # standard deviation, where nothing else is known
MIN_VARIANCE = 1e-4**2


def sampling_variances(accuracies: FloatArray, test_sizes: FloatArray | None) -> FloatArray:
    """a (1 - a) / m with a moved towards one half by one success and one failure; zero where sizes are unknown."""
    if test_sizes is None:
        return np.zeros_like(accuracies)
    moved = (np.clip(accuracies, 0.0, 1.0) * test_sizes + 1.0) / (test_sizes + 2.0)
    return np.asarray(moved * (1.0 - moved) / test_sizes)


def excess_variance(residuals: FloatArray, variances: FloatArray, degrees: float) -> float:
    """The variance to add so that sum(r^2 / (v + added)) equals the degrees of freedom; zero if it is less already."""

    def excess(added: float) -> float:
        return float((residuals**2 / (variances + added)).sum()) - degrees

    least = 1e-12
    if not (residuals != 0).any() or excess(least) <= 0:
        return 0.0
    from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

    return float(brentq(excess, least, residuals.size, xtol=1e-12, rtol=1e-6))


def minimise_squares(
    problem: Problem, start: FloatArray, lower: FloatArray, upper: FloatArray, *, max_steps: int
) -> Any:
    """SciPy's result, with numbers at a bound set to it; `status` is 0 if `max_steps` were not enough.

    The solver needs residuals r and Jacobian J only up to a rotation. So it is given the triangular factor of (J, r):
    as many rows as numbers and one more, however many residuals there are.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 - takes a while to import

    last: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    def known(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        key = numbers.tobytes()
        if key not in last:
            last.clear()
            residuals, jacobian = problem(numbers)
            factor = np.asarray(np.linalg.qr(np.column_stack([jacobian, residuals]), mode="r"))
            last[key] = factor[:, -1], factor[:, :-1]
        return last[key]

    margin = 1e-9 * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    found = least_squares(
        lambda numbers: known(numbers)[0],
        np.clip(start, lower + margin, upper - margin),
        jac=lambda numbers: known(numbers)[1],
        bounds=(lower, upper),
        x_scale="jac",
        max_nfev=max_steps,
    )
    found.x = np.where(found.active_mask < 0, lower, np.where(found.active_mask > 0, upper, found.x))
    return found

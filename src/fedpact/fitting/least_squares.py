"""Least squares within bounds, by `scipy.optimize.least_squares`, of a function that gives residuals and Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.utils.arrays import FloatArray

Problem = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


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

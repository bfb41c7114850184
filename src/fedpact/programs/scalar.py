"""Concave maximisation in one variable, by the root of a falling slope."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["falling_root"]

LARGEST = 1e300


def falling_root(slope: Callable[[float], float], upper: float, *, guess: float = 1.0) -> float:
    """Where a falling function changes sign on [0, upper]: 0 if it starts at or below zero, `upper` if it stays above.

    `upper` may be infinite; then the bracket grows from `guess`. The root is exact to a few units in the last place.
    """
    if upper <= 0 or slope(0.0) <= 0:
        return 0.0
    low, high = 0.0, min(upper, max(guess, np.finfo(float).tiny))
    while slope(high) > 0:
        if high >= upper:
            return upper
        low, high = high, min(upper, 4.0 * high)
        if high > LARGEST:
            return upper
    from scipy.optimize import brentq  # noqa: PLC0415 - half the start-up time, and often not needed

    return float(brentq(slope, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))

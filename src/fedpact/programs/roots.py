"""Where a falling slope changes its sign: the maximum of a concave function of one variable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.utils.arrays import FloatArray

MAX_ROOT = 1e300
MAX_ROOT_HALVINGS = 2200  # halvings from the largest number to the smallest


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
        if high > MAX_ROOT:
            return upper
    from scipy.optimize import brentq  # noqa: PLC0415 - half the start-up time, and often not needed

    return float(brentq(slope, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))


def falling_roots(slope: Callable[[FloatArray], FloatArray], upper: FloatArray) -> FloatArray:
    """The same for many functions at once, each on its own [0, upper]; `slope` maps arrays to arrays.

    Brackets are halved, in proportion while they span more than a factor of two, until neighbouring numbers are left.
    SciPy's root finders for arrays need finite values at both ends of a bracket.
    """
    low, high = np.zeros_like(upper), np.minimum(upper, 1.0)
    idle = (upper <= 0) | (slope(low) <= 0)
    while (rising := ~idle & (slope(high) > 0) & (high < upper) & (high < MAX_ROOT)).any():
        low, high = np.where(rising, high, low), np.where(rising, np.minimum(upper, 4.0 * high), high)
    full = ~idle & (slope(high) > 0)
    for _ in range(MAX_ROOT_HALVINGS):
        wide = (low < 0.5 * high) & (high > 1e-300)
        middle = np.where(wide, np.sqrt(np.maximum(low, 1e-12 * high)) * np.sqrt(high), 0.5 * (low + high))
        if ((middle <= low) | (middle >= high) | idle | full).all():
            break
        above = slope(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(idle, 0.0, np.where(full, upper, high))

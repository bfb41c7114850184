"""Concave maximisation over [0, upper] for many agents at once, by bisection on their slopes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.utils.arrays import FloatArray

MAX_CONTRIBUTION = 1e300
HALVINGS = 64  # of the 2^63 numbers from zero up


def best_contributions(slope: Callable[[FloatArray], FloatArray], upper: FloatArray) -> FloatArray:
    """The last number in [0, upper] at which a falling slope is still positive; 0 where it never is.

    Numbers from zero up are in the order of their bits: halving these finds roots of any size to the last digit.
    """
    low = np.zeros(upper.shape, dtype=np.int64)
    high = np.ascontiguousarray(np.minimum(upper, MAX_CONTRIBUTION)).view(np.int64)
    with np.errstate(all="ignore"):
        for _ in range(HALVINGS):
            middle = low + (high - low + 1) // 2
            rises = slope(middle.view(np.float64)) > 0
            low, high = np.where(rises, middle, low), np.where(rises, high, np.maximum(middle - 1, low))
    return low.view(np.float64)


def tangent_gains(contributions: FloatArray, slopes: FloatArray, upper: FloatArray) -> FloatArray:
    """What each agent can gain at most on [0, upper], its utility being concave with this slope where it is."""
    with np.errstate(invalid="ignore"):
        return np.where(slopes > 0, slopes * (upper - contributions), -slopes * contributions)

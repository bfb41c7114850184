"""How far measured accuracies stray from the truth: by the size of the test set, and by training.

An accuracy measured on m samples has variance a (1 - a) / m. Training the same data twice gives two models, which adds
a variance of its own, the same for all measurements.
"""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

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

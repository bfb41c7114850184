"""How far measured accuracies stray: the finite test set, and what is left, the noise of training.

An accuracy measured on m samples has variance a (1 - a) / m. Training the same data twice gives two models, which adds
a variance of its own, the same for all measurements; it is estimated so that the sum of squared residuals over their
variances equals its expectation, the number of measurements minus the number of parameters they paid for. Where no test
size is known, all noise is estimated that way.
"""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

ASSUMED_NOISE = 0.02  # standard deviation, where nothing else is known
MAX_VARIANCE = 1.0
MIN_PAIRS = 30
MIN_CORRELATION_ERRORS = 2.0  # standard errors from which a correlation within runs counts


def sampling_variances(accuracies: FloatArray, test_sizes: FloatArray | None) -> FloatArray:
    """a (1 - a) / m with a moved towards one half by one success and one failure; zero where sizes are unknown."""
    if test_sizes is None:
        return np.zeros_like(accuracies)
    moved = (np.clip(accuracies, 0.0, 1.0) * test_sizes + 1.0) / (test_sizes + 2.0)
    return np.asarray(moved * (1.0 - moved) / test_sizes)


def training_variance(residuals: FloatArray, sampling: FloatArray, degrees: float) -> float:
    """The variance to add so that the residuals are as large as they should be; zero if they are not too large.

    Parameters
    ----------
    residuals, sampling
        Of the measurements, flat.
    degrees
        Measurements minus parameters.
    """

    def excess(variance: float) -> float:
        return float((residuals**2 / (sampling + variance)).sum()) - degrees

    least = 1e-12
    if not (residuals != 0).any() or excess(least) <= 0:
        return 0.0
    from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

    return float(brentq(excess, least, MAX_VARIANCE * residuals.size, xtol=1e-12, rtol=1e-6))


def within_run_correlation(scaled: FloatArray) -> float:
    """How much the residuals of different agents in one run resemble each other; zero unless that is clear.

    `scaled` are residuals over their standard deviations, (runs, n), NaN where nothing was measured. A run trains one
    model that all agents test, so a lucky training is lucky for several.
    """
    sums, squares = np.nansum(scaled, axis=1), np.nansum(scaled**2, axis=1)
    counts = (~np.isnan(scaled)).sum(axis=1)
    pairs = float((counts * (counts - 1)).sum()) / 2.0
    if pairs < MIN_PAIRS:
        return 0.0
    mean_square = float(squares.sum() / counts.sum())
    if not mean_square > 0:
        return 0.0
    found = float((sums**2 - squares).sum()) / 2.0 / pairs / mean_square
    return found if found > MIN_CORRELATION_ERRORS / np.sqrt(pairs) else 0.0

"""How far measured accuracies stray from the curves, and why: the test sets, training, or curves that do not fit.

An accuracy measured on m samples has variance a (1 - a) / m. Training the same data twice gives two models, which adds
a variance of its own, the same for all measurements. What is left is misfit: the true accuracy is not on the curve.

The misfit is the same for all runs with the same contributions, and much the same for those with similar ones. So
repeats tell it from noise: they stray from their mean by noise alone, and their means stray from the curve by the
misfit on top of it. Without repeats, the part of the residuals that neighbouring runs have in common is misfit
(`fedpact.fitting.neighbours`); that counts as much as `NEIGHBOUR_DEGREES` repeats. Every variance is estimated so that
the sum of squares over the variances equals its expectation, the degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.neighbours import SmoothPart, smooth_part
from fedpact.utils.arrays import FloatArray

ASSUMED_NOISE = 0.02  # standard deviation, where nothing else is known
NEIGHBOUR_DEGREES = 4.0
MIN_VARIANCE = 1e-4**2
MAX_VARIANCE = 1.0
MIN_PAIRS = 30
MIN_CORRELATION_ERRORS = 2.0  # standard errors from which a correlation within runs counts


@dataclass(frozen=True, kw_only=True)
class NoiseEstimate:
    """Variances beyond those of the test sets: between trainings on the same data, and of the misfit."""

    training: float
    misfit: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Measurements of one agent under the same contributions, taken together; arrays run over the cells.

    Attributes
    ----------
    place
        (runs, n): the cell of each measurement, -1 where nothing was measured.
    counts, means, precisions
        How many measurements there are, their weighted mean, and its precision as far as noise is concerned.
    """

    place: NDArray[np.intp]
    counts: FloatArray
    means: FloatArray
    precisions: FloatArray

    @classmethod
    def of(cls, numbers: FloatArray, variances: FloatArray, groups: NDArray[np.intp]) -> Cells:
        """Of numbers (runs, n), NaN where nothing was measured, with their variances; `groups` says which repeat."""
        n_agents, measured = numbers.shape[1], ~np.isnan(numbers)
        _, place = np.unique((groups[:, None] * n_agents + np.arange(n_agents))[measured], return_inverse=True)
        precisions = 1.0 / np.maximum(variances[measured], MIN_VARIANCE)
        total = np.asarray(np.bincount(place, precisions), dtype=np.float64)
        every = np.full(numbers.shape, -1, dtype=np.intp)
        every[measured] = place
        return cls(
            place=every,
            counts=np.bincount(place).astype(np.float64),
            means=np.bincount(place, precisions * numbers[measured]) / total,
            precisions=total,
        )

    @property
    def pure_degrees(self) -> int:
        """Degrees of freedom of the noise between repeats."""
        return int((self.counts - 1.0).sum())

    def deviations(self, numbers: FloatArray) -> FloatArray:
        """(runs, n): how far the numbers are from the mean of their cell; NaN where there is none or it is alone."""
        alone = (self.place < 0) | (self.counts[self.place] < 2)
        return np.where(alone, np.nan, numbers - self.means[self.place])


def sampling_variances(accuracies: FloatArray, test_sizes: FloatArray | None) -> FloatArray:
    """a (1 - a) / m with a moved towards one half by one success and one failure; zero where sizes are unknown."""
    if test_sizes is None:
        return np.zeros_like(accuracies)
    moved = (np.clip(accuracies, 0.0, 1.0) * test_sizes + 1.0) / (test_sizes + 2.0)
    return np.asarray(moved * (1.0 - moved) / test_sizes)


def excess_variance(residuals: FloatArray, variances: FloatArray, degrees: float) -> float:
    """The variance to add so that the residuals are as large as they should be; zero if they are not too large.

    Parameters
    ----------
    residuals, variances
        Flat.
    degrees
        Of freedom.
    """

    def excess(variance: float) -> float:
        return float((residuals**2 / (variances + variance)).sum()) - degrees

    least = 1e-12
    if not (residuals != 0).any() or excess(least) <= 0:
        return 0.0
    from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

    return float(brentq(excess, least, MAX_VARIANCE * residuals.size, xtol=1e-12, rtol=1e-6))


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """What the curves miss, and what is known about noise.

    Attributes
    ----------
    values
        (runs, n): measured less fitted, NaN where nothing was measured.
    sampling
        (runs, n): variances of the test sets; zero where their sizes are unknown.
    contributions, repeats
        (runs, n) and (runs,): of the runs, and the same number for those that are alike.
    n_parameters
        That the measurements paid for.
    known
        The variance of training if it is known.
    """

    values: FloatArray
    sampling: FloatArray
    contributions: FloatArray
    repeats: NDArray[np.intp]
    n_parameters: float
    known: float | None

    @property
    def measured(self) -> NDArray[np.bool_]:
        """(runs, n): where there is one."""
        return ~np.isnan(self.values)

    @property
    def degrees(self) -> float:
        """Measurements minus parameters."""
        return float(self.measured.sum()) - self.n_parameters

    @cached_property
    def excess(self) -> float:
        """The variance beyond the test sets', whatever its reason; zero where nothing is left to judge it by."""
        if self.degrees < 1:
            return 0.0
        return excess_variance(self.values[self.measured], self.sampling[self.measured], self.degrees)

    @cached_property
    def pure(self) -> tuple[float, int]:
        """The variance between trainings on the same data that repeats show, and its degrees of freedom."""
        cells = self.cells(0.0)
        apart = cells.deviations(self.values)
        repeated = ~np.isnan(apart)
        if not cells.pure_degrees:
            return 0.0, 0
        return excess_variance(apart[repeated], self.sampling[repeated], cells.pure_degrees), cells.pure_degrees

    @cached_property
    def smooth(self) -> SmoothPart:
        """The part that neighbouring runs have in common."""
        variances = self.sampling + self.excess
        return smooth_part(self.values / np.sqrt(np.maximum(variances, MIN_VARIANCE)), self.contributions)

    def cells(self, variance: float) -> Cells:
        """Repeats taken together, with a variance beyond the test sets'."""
        return Cells.of(self.values, self.sampling + variance, self.repeats)


def estimate_noise(left: Residuals) -> NoiseEstimate:
    """Training noise and misfit behind residuals."""
    training = left.known
    if training is None:
        if left.degrees < 1:
            return NoiseEstimate(training=0.0 if left.sampling.any() else ASSUMED_NOISE**2)
        smooth = left.smooth.share * (float(left.sampling[left.measured].mean()) + left.excess)
        shown, count = left.pure
        rough = max(left.excess - smooth, 0.0)
        training = min(left.excess, (count * shown + NEIGHBOUR_DEGREES * rough) / (count + NEIGHBOUR_DEGREES))
    cells = left.cells(training)
    degrees = cells.means.size - left.n_parameters
    misfit = excess_variance(cells.means, 1.0 / cells.precisions, degrees) if degrees >= 1 else 0.0
    return NoiseEstimate(training=training, misfit=misfit if misfit > MIN_VARIANCE else 0.0)


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

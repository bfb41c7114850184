"""Whether the curves fit, as far as a log can tell, and what follows if they do not.

Curves that fit are missed by noise alone. Three tests may show that they are missed by more:

* Where runs repeat, the mean square of the means' residuals is held against that between repeats (an F test).
* Where the noise of training is known, against that noise (a chi-square test).
* Runs with similar contributions miss curves that do not fit alike (`fedpact.fitting.neighbours`).

One that is clear is enough; p-values are multiplied by the number of tests. Agents that test one run's model are not
independent: with a correlation r between the m of them, squares count as 1 / (1 + (m - 1) r^2) of their number.

Where none of this shows anything, residuals can still be larger than the error of the test sets. Then training is
noisy, or the curves miss each run in its own way, and nobody can tell which.

Curves that do not fit are not fitted better by more runs. The misfit is the same next time and, unlike noise, does not
average out. So the doubt it casts is put into the parameters, whose covariance is enlarged until the curves are as
unsure at the measured runs as they are wrong there (embedded model error; Pernot and Cailliez 2017, "A critical review
of statistical calibration/prediction models handling data inconsistency and model inadequacy"). The log then counts as
about as many measurements as there are parameters, each as far off as the misfit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.special import chdtrc, fdtrc

from fedpact.fitting.noise import MIN_VARIANCE, NoiseEstimate, Residuals, within_run_correlation
from fedpact.utils.arrays import FloatArray

CLEAR_P_VALUE = 0.01


class Evidence(Enum):
    """What speaks against the curves."""

    REPEATS = "repeats"
    KNOWN_NOISE = "known noise"
    NEIGHBOURS = "neighbours"


REASONS = {
    Evidence.REPEATS: "repeats of the same runs agree with each other, not with the curves",
    Evidence.KNOWN_NOISE: "the noise of training that is known does not explain it",
    Evidence.NEIGHBOURS: "runs with similar contributions miss the curves alike, as noise would not",
}


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """How far the curves are from the accuracies, beyond noise.

    Attributes
    ----------
    misfit
        Standard deviation, in accuracy, of what the curves miss beyond noise, as far as it can be told from noise.
    p_value, evidence
        How likely the residuals are if the curves fit, and what speaks against them most.
    times_sampling
        Root mean square of the residuals over the error of the test sets; NaN where no test size is known.
    sampling_p_value
        How likely residuals so large are if there is no noise but that of the test sets; NaN where that is not known.
    pure_degrees
        Degrees of freedom of the noise between repeats.
    """

    misfit: float
    p_value: float
    evidence: Evidence
    times_sampling: float
    sampling_p_value: float
    pure_degrees: int

    @property
    def is_clear(self) -> bool:
        """Whether the curves do not fit, beyond doubt."""
        return self.p_value < CLEAR_P_VALUE

    @property
    def is_unknown(self) -> bool:
        """Whether there is more than the test sets explain, or may be, and no repeat to tell noise from misfit."""
        explained = self.sampling_p_value >= CLEAR_P_VALUE
        return not (self.is_clear or explained or self.pure_degrees or self.evidence is Evidence.KNOWN_NOISE)

    @property
    def text(self) -> str | None:
        """What a reader has to know, if anything."""
        has_sizes = bool(np.isfinite(self.times_sampling))
        times = f"residuals are {self.times_sampling:.1f} times the error of the test sets"
        if self.is_clear:
            p_value = f"{self.p_value:.2g}" if self.p_value >= 0.001 else "below 0.001"
            return (
                f"the curves do not fit: they miss the accuracies by {self.misfit:.3f} (standard deviation) beyond "
                f"noise{f', and {times}' if has_sizes else ''}; {REASONS[self.evidence]} (p {p_value}). The estimates "
                f"are those of the nearest curves, and intervals and probabilities are widened by as much"
            )
        if not (self.is_unknown and has_sizes):
            return None
        return (
            f"{times}: training is noisy, or the curves do not fit. Without repeats nobody can tell, and the intervals "
            f"take it for noise; runs trained again with the same contributions would tell"
        )


def lack_of_fit(left: Residuals, noise: NoiseEstimate) -> LackOfFit:
    """Judge what the curves miss."""
    shown, pure_degrees = left.pure
    has_sizes = bool(left.sampling.any())
    by_sampling = _Squares.of(left, 0.0)
    p_values: dict[Evidence, float] = {}
    if left.known is not None:
        p_values[Evidence.KNOWN_NOISE] = _Squares.of(left, left.known).chi_square_p()
    elif pure_degrees:
        p_values[Evidence.REPEATS] = _Squares.of(left, shown).f_p(pure_degrees)
    p_values[Evidence.NEIGHBOURS] = left.smooth.p_value(by_sampling.crowding)
    p_values = {evidence: min(1.0, len(p_values) * p_value) for evidence, p_value in p_values.items()}
    clear = [evidence for evidence, p_value in p_values.items() if p_value < CLEAR_P_VALUE]
    evidence = clear[0] if clear else min(p_values, key=p_values.__getitem__)
    rms = float(np.sqrt((left.values[left.measured] ** 2).mean()))
    return LackOfFit(
        misfit=float(np.sqrt(noise.misfit)),
        p_value=p_values[evidence],
        evidence=evidence,
        times_sampling=rms / float(np.sqrt(left.sampling[left.measured].mean())) if has_sizes else np.nan,
        sampling_p_value=by_sampling.chi_square_p() if has_sizes else np.nan,
        pure_degrees=pure_degrees,
    )


@dataclass(frozen=True, kw_only=True)
class _Squares:
    """The sum of squares of the cells' residuals over their variances, and how many of them count as one."""

    total: float
    degrees: float
    crowding: float

    @classmethod
    def of(cls, left: Residuals, variance: float) -> _Squares:
        """With a variance beyond the test sets'."""
        cells = left.cells(variance)
        noise = cells.deviations(left.values) if cells.pure_degrees else left.values
        scaled = noise / np.sqrt(np.maximum(left.sampling + variance, MIN_VARIANCE))
        together = max(float(left.measured.sum(axis=1).mean()) - 1.0, 0.0)
        return cls(
            total=float((cells.means**2 * cells.precisions).sum()),
            degrees=cells.means.size - left.n_parameters,
            crowding=1.0 + together * within_run_correlation(scaled) ** 2,
        )

    def chi_square_p(self) -> float:
        if self.degrees < 1:
            return 1.0
        return float(chdtrc(self.degrees / self.crowding, self.total / self.crowding))

    def f_p(self, pure_degrees: int) -> float:
        if self.degrees < 1:
            return 1.0
        return float(fdtrc(self.degrees / self.crowding, pure_degrees / self.crowding, self.total / self.degrees))


def doubt_factor(errors: FloatArray, found: LackOfFit) -> float:
    """How many times less the log says than it would if the curves fitted: its information is divided by that.

    The curves' variance at the measured runs, whose square roots are the `errors`, is to grow by that of the misfit, in
    the middle of the runs. As far as the misfit may be chance, by its p-value, it counts less.
    """
    sure = float(np.median(errors))
    if found.misfit == 0.0 or sure == 0.0:
        return 1.0
    weight = 1.0 - float(np.sqrt(min(1.0, 2.0 * found.p_value)))
    return 1.0 + weight * (found.misfit / sure) ** 2

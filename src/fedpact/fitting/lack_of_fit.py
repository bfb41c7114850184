"""Whether the curves fit: by their error on runs left out, beside two plain rules, and by what neighbouring runs miss.

The runs are shared out into folds, repeats of the same contributions into the same one. Curves fitted to all folds but
one predict that one. Beside them stand two rules that anybody could use: the accuracy of the nearest run, and a
regression on logarithms of the contributions. Curves that do not beat both are not to be relied on.

Curves may beat them and still miss something. Noise is new in every run; what curves miss is much the same for runs
with similar contributions, and the same for repeats. So residuals of neighbouring runs are multiplied: noise gives
products around zero, misfit gives positive ones. Where their mean is clearly above zero, what noise (of test sets, and
of training as far as repeats show it) does not explain is misfit. It does not average out, so the covariance of the
parameters is enlarged until the curves are as unsure at the measured runs as they are wrong there.

**Noise.** An accuracy a measured on m samples has variance a (1 - a) / m. Training the same data twice gives two
models, which adds a variance of its own, the same for all measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from fedpact.fitting.observations import Observations
from fedpact.utils.arrays import FloatArray

Problem = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
ASSUMED_NOISE = 0.02  # standard deviation, where nothing else is known
MIN_VARIANCE = 1e-4**2
FOLDS = 5
CLEAR_ERRORS = 2.33  # standard errors from zero: one in a hundred by chance
MIN_PAIRS = 8
LINEAR_BELOW = 1.0 / 3.0  # of the median contribution: smaller ones differ by their difference, not their ratio


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


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """How far the curves are from the accuracies."""

    #: Root mean square of the errors on runs left out: of the curves, of the accuracy of the nearest run, and of a
    #: regression on logarithms of contributions. NaN where there are no two different runs
    error: float
    nearest_run: float
    log_linear: float
    misfit: float  #: Standard deviation, in accuracy, of what the curves miss beyond noise; zero where it is not clear

    @property
    def is_clear(self) -> bool:
        """Whether the curves are no better than a plain rule."""
        return self.error > 0 and self.error >= min(self.nearest_run, self.log_linear)

    @property
    def text(self) -> str:
        """What a reader has to know if they are not."""
        rules = {"the accuracy of the nearest run": self.nearest_run, "a log-linear regression": self.log_linear}
        rule = min(rules, key=rules.__getitem__)
        return (
            f"the curves do not fit: on runs left out they miss the accuracies by {self.error:.3f}, {rule} by "
            f"{rules[rule]:.3f}; this fit is not recommended"
        )


@dataclass(frozen=True, kw_only=True)
class FamilyComparison:
    """How well each family predicts runs it has not seen."""

    #: By family: root mean square of the errors, in accuracy; families whose fit did not converge are left out
    errors: Mapping[str, float]
    chosen: str  #: The family with the smallest
    #: Families that the log cannot tell from it: their squared errors are larger by less than one standard error
    as_good: tuple[str, ...]

    @classmethod
    def of(cls, residuals: Mapping[str, FloatArray], repeats: NDArray[np.intp]) -> FamilyComparison:
        """From residuals on runs left out, by family; runs with the same contributions count as one."""
        squares = {family: np.bincount(repeats, np.nansum(each**2, axis=1)) for family, each in residuals.items()}
        chosen = min(squares, key=lambda family: float(squares[family].sum()))
        more = {family: squares[family] - squares[chosen] for family in squares if family != chosen}
        return cls(
            errors={family: rms(each) for family, each in residuals.items()},
            chosen=chosen,
            as_good=tuple(
                family for family, each in more.items() if each.mean() <= each.std(ddof=1) / np.sqrt(each.size)
            ),
        )


def rms(residuals: FloatArray) -> float:
    """Root mean square of those that are numbers; NaN if none is."""
    known = residuals[~np.isnan(residuals)]
    return float(np.sqrt((known**2).mean())) if known.size else float("nan")


def folds(repeats: NDArray[np.intp]) -> NDArray[np.intp]:
    """(runs,): the fold of each run, repeats in the same one."""
    n_groups = int(repeats.max()) + 1
    order = np.random.default_rng(0).permutation(n_groups)
    return np.asarray(order[repeats] % min(FOLDS, n_groups), dtype=np.intp)


def baseline_residuals(
    near: FloatArray, features: FloatArray, values: FloatArray, fold_of: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """Like `values` (runs, columns), each on runs left out: of the nearest run, and of a regression on `features`."""
    design = np.column_stack([np.ones(len(features)), features])
    nearest, linear = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    for fold in range(int(fold_of.max()) + 1):
        for index, column in enumerate(values.T):
            known, asked = (fold_of != fold) & ~np.isnan(column), (fold_of == fold) & ~np.isnan(column)
            if not known.any() or not asked.any():
                continue
            closest = KDTree(near[known]).query(near[asked])[1]
            nearest[asked, index] = column[asked] - column[known][closest]
            solution = np.linalg.lstsq(design[known], column[known], rcond=1e-8)[0]
            linear[asked, index] = column[asked] - design[asked] @ solution
    return nearest, linear


def log_contributions(contributions: FloatArray) -> FloatArray:
    """Logarithms, linear where contributions are small."""
    return np.asarray(np.log1p(contributions / (LINEAR_BELOW * np.median(contributions[contributions > 0]))))


def misfit_variance(seen: Observations, residuals: FloatArray, sampling: FloatArray, excess: float) -> float:
    """Of residuals (runs, tasks) whose variance exceeds that of the test sets by `excess`: the part that is misfit."""
    if not excess or not _neighbours_agree(residuals / np.sqrt(sampling + excess), seen.contributions):
        return 0.0
    return max(excess - _repeat_variance(seen, residuals, sampling), 0.0)


def _neighbours_agree(scaled: FloatArray, contributions: FloatArray) -> bool:
    """Whether neighbouring runs clearly miss the curves alike; a pair's members test two models, and count once."""
    n_runs = len(scaled)
    if n_runs < MIN_PAIRS:
        return False
    indices = log_contributions(contributions)
    indices = indices + 1e-9 * np.random.default_rng(0).random(indices.shape)  # any of several repeats, not always one
    near = KDTree(indices).query(indices, k=2)[1][:, 1]
    pairs = np.unique(np.sort(np.column_stack([np.arange(n_runs), near]), axis=1), axis=0)
    products = scaled[pairs[:, 0]] * scaled[pairs[:, 1]]
    sums = np.nansum(products, axis=1)[(~np.isnan(products)).any(axis=1)]
    if len(sums) < MIN_PAIRS or not sums.any():
        return False
    return bool(sums.mean() > CLEAR_ERRORS * sums.std(ddof=1) / np.sqrt(len(sums)))


def _repeat_variance(seen: Observations, residuals: FloatArray, sampling: FloatArray) -> float:
    """Between trainings on the same data, beyond the test sets'; zero where no run repeats."""
    squares, variances = [], []
    degrees, groups = 0, seen.repeats
    for group in range(int(groups.max()) + 1):
        for alike, sizes in zip(residuals[groups == group].T, sampling[groups == group].T, strict=True):
            known = ~np.isnan(alike)
            if known.sum() > 1:
                squares.append(alike[known] - alike[known].mean())
                variances.append(sizes[known])
                degrees += int(known.sum()) - 1
    return excess_variance(np.concatenate(squares), np.concatenate(variances), float(degrees)) if degrees else 0.0

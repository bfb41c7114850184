"""`fit`: from observations to estimates.

Penalised least squares with the measurements weighted by their noise. The noise depends on the fitted accuracies and on
a training noise that depends on the residuals, so the two are fitted in turn until the training noise settles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.fitting.gauss_newton import Data, Evaluation, information, minimise
from fedpact.fitting.intervals import Spread
from fedpact.fitting.noise import FIRST_GUESS, sampling_variances, training_variance, within_run_correlation
from fedpact.fitting.observations import Observations
from fedpact.fitting.options import checked_noise, setting_of
from fedpact.fitting.parameters import CURVE_PARTS, Parameters, Setting
from fedpact.fitting.result import Fit
from fedpact.fitting.starting_points import first_point
from fedpact.utils.arrays import FloatArray

__all__ = ["fit"]

Progress = Callable[[str], None]
MOST_PASSES = 6
SETTLED = 0.02  # relative change of the training variance
NEGLIGIBLE = 1e-4**2  # a variance
KEPT = 1.645  # standard errors from zero that keep a weight in a sparse fit
MOST_PRUNINGS = 10


def fit(
    observations: Observations,
    *,
    family: str = "power-law",
    signs: str = "positive",
    sparse: bool = False,
    shared: Sequence[str] = CURVE_PARTS,
    floor: ArrayLike | None = None,
    ceiling: ArrayLike | None = None,
    prior: float = 1.0,
    training_noise: float | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Estimate the accuracy curves and the weights behind measured accuracies.

    The model is accuracy_i = floor_i + (ceiling_i - floor_i) g(sum_j w_ij s_j), g the payoff family, 1 - (1 + y)^-beta
    by default.

    Parameters
    ----------
    observations
        Runs: contributions and accuracies.
    family
        "power-law", "exponential" or "michaelis".
    signs
        "positive" for weights of at least zero, "any" if data may harm.
    sparse
        Set to zero every weight less than 1.645 standard errors from it, and fit the others again, until none is left
        to drop. Intervals of the others are as if the choice had been known beforehand.
    shared
        Which of "beta", "floor" and "ceiling" all agents have in common.
    floor, ceiling
        Known values, such as the accuracy of guessing; a number or one per agent. Fitted if not given.
    prior
        How many pseudo-observations say that everybody's data is like one's own: each as good as a measurement of
        w_ij / w_ii = 1 with standard error 1. Zero switches that off.
    training_noise
        Standard deviation between trainings on the same data, beyond the test set's; fitted if not given.
    progress
        Called with what is being done, now and then.

    Raises
    ------
    InvalidInput
        If an option breaks a rule.
    NotConverged
        If the estimate did not settle.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> weights = np.array([[0.03, 0.01], [0.02, 0.03]])
    >>> given = rng.uniform(0.0, 500.0, (40, 2)) * (rng.random((40, 2)) < 0.7)
    >>> accuracies = rng.binomial(1000, 0.1 + 0.85 * (1.0 - (1.0 + given @ weights.T) ** -0.6)) / 1000
    >>> found = fit(Observations.of(given, accuracies, test_sizes=1000))
    >>> low, high = found.intervals()["beta"]
    >>> bool(low < 0.6 < high)
    True
    """
    ends = {"floor": floor, "ceiling": ceiling}
    setting, known = setting_of(observations, family=family, signs=signs, shared=shared, ends=ends, prior=prior)
    task = _Task(observations=observations, known=known, noise=checked_noise(training_noise), progress=progress)
    found = _settle(task, setting)
    errors = found.spread.weight_errors
    if sparse:
        found, errors = _pruned(task, found)
    return Fit(
        observations=observations,
        family=family,
        signs=signs,
        training_noise=float(np.sqrt(found.variance)),
        noise_fitted=task.noise is None,
        degrees=found.degrees,
        chi_square=found.chi_square,
        residuals=found.residuals,
        scaled_residuals=found.scaled,
        spread=found.spread,
        weight_errors=errors,
        has_test_sizes=observations.known_test_sizes() is not None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """What is fitted: `known` parts of the curves, NaN elsewhere, and the training noise if it is known."""

    observations: Observations
    known: FloatArray
    noise: float | None
    progress: Progress | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Settled:
    spread: Spread
    variance: float
    degrees: float
    chi_square: float
    residuals: FloatArray
    scaled: FloatArray


def _settle(task: _Task, setting: Setting, start: Parameters | None = None) -> _Settled:
    """Estimates and noise in turn, until the training noise changes no more."""
    observations = task.observations
    measured, sizes = observations.measured, observations.known_test_sizes()
    contributions = np.array(observations.contributions)  # writable like its samples: compiled code knows one kind
    accuracies = np.where(measured, observations.accuracies, 0.0)
    variance = task.noise**2 if task.noise is not None else FIRST_GUESS**2 if sizes is None else 0.0
    variances = sampling_variances(accuracies, sizes) + max(variance, NEGLIGIBLE)
    point = start
    for turn in range(MOST_PASSES):
        data = Data(
            contributions=contributions,
            accuracies=accuracies,
            precisions=np.where(measured, 1.0 / variances, 0.0),
        )
        if point is None:
            point = first_point(data, setting, task.known)
        found = minimise(data, setting, point, progress=_steps(task.progress, turn))
        point, spread = found.point, Spread(point=found.point, setting=setting, gathered=information(data, found))
        degrees = _degrees(spread, observations.n_measured)
        sampling = sampling_variances(found.predicted, sizes)
        before, variance = variance, _next_variance(task, found, sampling, degrees)
        variances = sampling + max(variance, NEGLIGIBLE)
        if abs(variance - before) <= SETTLED * max(variance, before) + NEGLIGIBLE:
            break
    residuals = np.where(measured, observations.accuracies - found.predicted, np.nan)
    scaled = residuals / np.sqrt(variances)
    design = 1.0 + max(measured.sum(axis=1).mean() - 1.0, 0.0) * within_run_correlation(scaled)
    return _Settled(
        spread=replace(spread, design=design),
        variance=variance,
        degrees=degrees,
        chi_square=float(np.nansum(scaled**2)),
        residuals=residuals,
        scaled=scaled,
    )


def _next_variance(task: _Task, found: Evaluation, sampling: FloatArray, degrees: float) -> float:
    """The training noise that the residuals call for; where nothing is left to judge it by, a guess."""
    if task.noise is not None:
        return task.noise**2
    measured = task.observations.measured
    if degrees < 1:
        return FIRST_GUESS**2 if task.observations.known_test_sizes() is None else 0.0
    residuals = (task.observations.accuracies - found.predicted)[measured]
    return training_variance(residuals, sampling[measured], degrees)


def _degrees(spread: Spread, n_measured: int) -> float:
    """Measurements minus the parameters they paid for; the prior paid for the others."""
    free = int(spread.setting.free_local.sum() + spread.setting.free_shared.sum())
    return n_measured - (free - spread.prior_traces())


def _pruned(task: _Task, found: _Settled) -> tuple[_Settled, FloatArray]:
    """Fits with fewer and fewer weights, and the standard errors of those dropped from when they were dropped."""
    errors = found.spread.weight_errors
    for _ in range(MOST_PRUNINGS):
        spread = found.spread
        free = spread.setting.free_ratios
        errors = np.where(free | np.eye(free.shape[0], dtype=bool), spread.weight_errors, errors)
        weak = free & (np.abs(np.arcsinh(spread.point.ratios)) < KEPT * errors)
        if not weak.any():
            break
        setting = replace(spread.setting, free_ratios=free & ~weak)
        start = replace(spread.point, ratios=np.where(weak, 0.0, spread.point.ratios))
        found = _settle(task, setting, start)
    return found, errors


def _steps(progress: Progress | None, turn: int) -> Any:
    """A call per step of the solver, said in words."""
    if progress is None:
        return None
    count = 0

    def report() -> None:
        nonlocal count
        count += 1
        progress(f"pass {turn + 1}, step {count}")

    return report

"""`fit`: from observations to estimates.

Penalised least squares with the measurements weighted by their noise. The noise of the test sets depends on the fitted
accuracies, and that of training and the misfit on the residuals, so parameters and noise are fitted in turn until the
noise settles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.accuracy_curves import curve_family
from fedpact.fitting.cross_validation import AUTO_FAMILY, compare_families
from fedpact.fitting.gauss_newton import WeightedRuns, information, minimise
from fedpact.fitting.lack_of_fit import LackOfFit, doubt_factor, lack_of_fit
from fedpact.fitting.noise import (
    ASSUMED_NOISE,
    MIN_VARIANCE,
    Cells,
    NoiseEstimate,
    Residuals,
    estimate_noise,
    sampling_variances,
    within_run_correlation,
)
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import CURVE_PARTS, MIN_RANGE, FitRules, Parameters
from fedpact.fitting.posterior import Posterior
from fedpact.fitting.result import Fit
from fedpact.fitting.starting_points import first_point, typical_scale
from fedpact.fitting.structure import WeightStructure
from fedpact.scenario.uncertainty import WEIGHT_SIGNS
from fedpact.utils.arrays import FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput

Progress = Callable[[str], None]
MAX_PASSES, MAX_PASSES_OF_LOTS = 6, 15
VARIANCE_CHANGE = 0.02  # relative
PART_CHANGE = 0.05  # of what lots have in common, in logarithms
MIN_KEPT_ERRORS = 1.645  # standard errors from zero that keep a weight in a sparse fit
MAX_PRUNINGS = 10


Accepts = Callable[[FloatArray], NDArray[np.bool_]]
END_RULES: Mapping[str, tuple[Accepts, str]] = {
    "floor": (lambda numbers: (numbers >= 0) & (numbers < 1), "at least 0 and below 1"),
    "ceiling": (lambda numbers: (numbers > 0) & (numbers <= 1), "above 0 and at most 1"),
}


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
    by default. Where members have several lots or tasks, i counts the tasks and j the lots, and weights are drawn
    towards what a lot is worth to all tasks (`fedpact.fitting.structure`).

    Parameters
    ----------
    observations
        Runs: contributions and accuracies.
    family
        "power-law", "exponential" or "michaelis"; "auto" for the one that predicts unseen runs best, by
        cross-validation.
    signs
        "positive" for weights of at least zero, "any" if data may harm.
    sparse
        Set to zero every weight less than 1.645 standard errors from it, and fit the others again, until none is left
        to drop. Intervals of the others are as if the choice had been known beforehand.
    shared
        Which of "beta", "floor" and "ceiling" all agents (tasks) have in common.
    floor, ceiling
        Known values, such as the accuracy of guessing; a number or one per agent. Fitted if not given.
    prior
        How many pseudo-observations say that everybody's data is like one's own: each as good as a measurement of
        w_ij / w_ii = 1 with standard error 1. Zero switches that off. Of lots, how much is held to be known, before
        the runs speak, of how alike lots are.
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
    task = _Task(
        signs=signs,
        sparse=sparse,
        shared=shared,
        ends={"floor": floor, "ceiling": ceiling},
        prior=prior,
        noise=_checked_noise(training_noise),
        progress=progress,
    )
    if family != AUTO_FAMILY:
        return task.fit(observations, family)
    families = compare_families(observations, task.fit, progress=progress)
    return replace(task.fit(observations, families.chosen), families=families)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Task:
    """How observations are fitted."""

    signs: str
    sparse: bool
    shared: Sequence[str]
    ends: Mapping[str, ArrayLike | None]
    prior: float
    noise: float | None
    progress: Progress | None

    def fit(self, observations: Observations, family: str, start: Fit | None = None) -> Fit:
        """The fit of a family, from scratch or from another fit of it."""
        rules, ends = _fit_rules(
            observations, family=family, signs=self.signs, shared=self.shared, ends=self.ends, prior=self.prior
        )
        data = _Data(observations, ends, None if self.noise is None else self.noise**2, self.progress)
        found = _estimate(data, rules, None if start is None else start.posterior.point)
        errors = found.posterior.weight_errors
        if self.sparse:
            found, errors = _prune(data, found)
        return Fit(
            observations=observations,
            family=family,
            signs=self.signs,
            training_noise=float(np.sqrt(found.noise.training)),
            noise_fitted=self.noise is None,
            degrees=found.degrees,
            chi_square=found.chi_square,
            residuals=found.residuals,
            scaled_residuals=found.scaled_residuals,
            lack_of_fit=found.lack_of_fit,
            posterior=found.posterior,
            weight_errors=errors,
            has_test_sizes=data.test_sizes is not None,
        )


class _Data:
    """Observations in the form in which they are fitted.

    `known_ends` are the known parts of the curves, NaN elsewhere; `known_variance` that of training, if it is known.
    """

    def __init__(
        self, seen: Observations, known_ends: FloatArray, known_variance: float | None, progress: Progress | None
    ) -> None:
        self.known_ends, self.known_variance, self.progress = known_ends, known_variance, progress
        self.measured, self.test_sizes, self.repeats = seen.measured, seen.known_test_sizes(), seen.repeats
        self.seen = np.array(seen.accuracies)
        self.contributions = np.array(seen.contributions)  # writable like its samples: compiled code knows one kind
        self.accuracies = np.where(self.measured, self.seen, 0.0)

    def first_noise(self) -> NoiseEstimate:
        """Before there are residuals."""
        if self.known_variance is not None:
            return NoiseEstimate(training=self.known_variance)
        return NoiseEstimate(training=ASSUMED_NOISE**2 if self.test_sizes is None else 0.0)

    def weighted(self, sampling: FloatArray, noise: NoiseEstimate, doubt: float = 1.0) -> WeightedRuns:
        """With precisions: what repeats have in common, the misfit, does not become surer by repeating."""
        variances = sampling + max(noise.training, MIN_VARIANCE)
        cells = Cells.of(self.seen, variances, self.repeats)
        common = np.where(self.measured, 1.0 + noise.misfit * cells.precisions[cells.place], 1.0)
        return WeightedRuns(
            contributions=self.contributions,
            accuracies=self.accuracies,
            precisions=np.where(self.measured, 1.0 / (variances * common * doubt), 0.0),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Estimate:
    posterior: Posterior
    noise: NoiseEstimate
    lack_of_fit: LackOfFit
    degrees: float
    chi_square: float
    residuals: FloatArray
    scaled_residuals: FloatArray


def _estimate(data: _Data, rules: FitRules, start: Parameters | None = None) -> _Estimate:
    """Parameters and noise in turn, until the noise changes no more."""
    noise, sampling = data.first_noise(), sampling_variances(data.accuracies, data.test_sizes)
    point = start
    for turn in range(MAX_PASSES if rules.structure is None else MAX_PASSES_OF_LOTS):
        runs = data.weighted(sampling, noise)
        if point is None:
            point = first_point(runs, rules, data.known_ends)
        found = minimise(runs, rules, point, progress=_step_counter(data.progress, turn))
        point, posterior = found.point, Posterior(point=found.point, rules=rules, gathered=information(runs, found))
        sampling = sampling_variances(found.predicted, data.test_sizes)
        left = Residuals(
            values=data.seen - found.predicted,
            sampling=sampling,
            contributions=data.contributions,
            repeats=data.repeats,
            n_parameters=_parameters_paid(posterior),
            known=data.known_variance,
        )
        before, noise = noise, estimate_noise(left)
        settled = _has_settled(before, noise)
        if rules.structure is not None:
            rules, alike = _with_spreads(rules, posterior)
            settled = settled and alike
        if settled:
            break
    judged = lack_of_fit(left, noise)
    if judged.misfit > 0.0:
        doubt = doubt_factor(posterior.prediction_errors(data.contributions)[data.measured], judged)
        posterior = replace(posterior, gathered=information(data.weighted(sampling, noise, doubt), found))
    variances = sampling + max(noise.training, MIN_VARIANCE)
    scaled = left.values / np.sqrt(variances + noise.misfit)
    design = 1.0 + max(data.measured.sum(axis=1).mean() - 1.0, 0.0) * within_run_correlation(scaled)
    return _Estimate(
        posterior=replace(posterior, design=design),
        noise=noise,
        lack_of_fit=judged,
        degrees=left.degrees,
        chi_square=float(np.nansum(left.values**2 / variances)),
        residuals=left.values,
        scaled_residuals=scaled,
    )


def _with_spreads(rules: FitRules, posterior: Posterior) -> tuple[FitRules, bool]:
    """The rules with the spreads of what lots have in common, as they now appear, and whether these have settled."""
    assert rules.structure is not None
    structure, difference, settled = rules.structure.with_spreads(*posterior.expected_squares(), rules.prior)
    parts = posterior.point.parts
    near = bool((np.abs(parts - structure.origin) <= PART_CHANGE).all())
    return replace(rules, structure=structure.around(parts), prior=difference), settled and near


def _has_settled(before: NoiseEstimate, now: NoiseEstimate) -> bool:
    pairs = ((before.training, now.training), (before.misfit, now.misfit))
    return all(abs(old - new) <= VARIANCE_CHANGE * max(old, new) + MIN_VARIANCE for old, new in pairs)


def _parameters_paid(posterior: Posterior) -> float:
    """How many parameters the measurements paid for; the prior paid for the others."""
    free = int(posterior.rules.free_local.sum() + posterior.rules.free_shared.sum())
    return free - posterior.prior_traces()


def _prune(data: _Data, found: _Estimate) -> tuple[_Estimate, FloatArray]:
    """Fits with fewer and fewer weights, and the standard errors of those dropped from when they were dropped."""
    errors = found.posterior.weight_errors
    for _ in range(MAX_PRUNINGS):
        posterior = found.posterior
        free = posterior.rules.free_ratios
        errors = np.where(free | posterior.rules.anchors, posterior.weight_errors, errors)
        if posterior.rules.structure is None:
            relative = posterior.point.ratios
        else:
            relative = posterior.point.weights / posterior.units
        weak = free & (np.abs(np.arcsinh(relative)) < MIN_KEPT_ERRORS * errors)
        if posterior.rules.structure is not None:  # a task that no data is good for has no curve
            weak[np.arange(len(weak)), np.abs(relative).argmax(axis=1)] = False
        if not weak.any():
            break
        rules = replace(posterior.rules, free_ratios=free & ~weak)
        start = replace(posterior.point, ratios=np.where(weak, 0.0, posterior.point.ratios))
        found = _estimate(data, rules, start)
    return found, errors


def _step_counter(progress: Progress | None, turn: int) -> Callable[[], None] | None:
    """A call per step of the solver, said in words."""
    if progress is None:
        return None
    count = 0

    def report() -> None:
        nonlocal count
        count += 1
        progress(f"pass {turn + 1}, step {count}")

    return report


# Options


def _fit_rules(
    observations: Observations,
    *,
    family: str,
    signs: str,
    shared: Sequence[str],
    ends: Mapping[str, ArrayLike | None],
    prior: float,
) -> tuple[FitRules, FloatArray]:
    """The rules of the fit, and the known parts of the curves, (n, 3), NaN where they are fitted."""
    if not isinstance(observations, Observations):
        raise InvalidInput(
            f"observations must be Observations; make them with Observations.of or Observations.from_csv, "
            f"got {observations!r:.80}"
        )
    if signs not in WEIGHT_SIGNS:
        raise InvalidInput(f"signs must be one of {', '.join(WEIGHT_SIGNS)}, got {signs!r:.40}")
    curve, parts = curve_family(family), (shared,) if isinstance(shared, str) else tuple(shared)
    for part in parts:
        if part not in CURVE_PARTS:
            raise InvalidInput(f"shared must be among {', '.join(CURVE_PARTS)}, got {part!r:.40}")
    known = _known(observations, ends)
    if not curve.has_shape:
        known[:, 0] = 0.0
    rules = FitRules(
        curve=curve,
        shared=np.array([part in parts for part in CURVE_PARTS]),
        known=~np.isnan(known[0]),
        free_ratios=~np.eye(observations.n_tasks, observations.n_lots, dtype=bool),
        signed=signs == "any",
        prior=_one_number("prior", prior, non_negative, "at least zero and finite"),
        scale_mean=typical_scale(observations.contributions),
    )
    if observations.ownership is not None:
        structure = WeightStructure.of(observations.ownership, rules.prior)
        rules = replace(rules, structure=structure, free_ratios=np.ones_like(rules.free_ratios))
    return rules, known


def _checked_noise(given: float | None) -> float | None:
    """The training noise if it is known."""
    if given is None:
        return None
    return _one_number("training_noise", given, *END_RULES["floor"])


def _known(observations: Observations, ends: Mapping[str, ArrayLike | None]) -> FloatArray:
    known = np.full((observations.n_tasks, 3), np.nan)
    for label, numbers in ends.items():
        if numbers is not None:
            known[:, CURVE_PARTS.index(label)] = checked_numbers(
                label, numbers, *END_RULES[label], names=observations.task_labels
            )
    for agent in np.flatnonzero(known[:, 2] - known[:, 1] < MIN_RANGE)[:1]:
        raise InvalidInput(
            f"ceiling must exceed floor by at least {MIN_RANGE}, got {known[agent, 2]:g} and {known[agent, 1]:g} "
            f'({"member" if observations.ownership is None else "task"} "{observations.task_labels[agent]}")'
        )
    return known


def _one_number(label: str, given: Any, accepts: Accepts, rule: str) -> float:
    checked = checked_numbers(label, given, accepts, rule)
    if checked.ndim:
        raise InvalidInput(f"{label} must be one number, got {given!r:.60}")
    return float(checked)

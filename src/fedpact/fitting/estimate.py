"""`fit`: from observations to estimates.

Penalised least squares with the measurements weighted by their noise. The noise depends on the fitted accuracies and on
a training noise that depends on the residuals, so the two are fitted in turn until the training noise settles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.accuracy_curves import curve_family
from fedpact.fitting.gauss_newton import Prediction, WeightedRuns, information, minimise
from fedpact.fitting.intervals import Posterior
from fedpact.fitting.noise import ASSUMED_NOISE, sampling_variances, training_variance, within_run_correlation
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import CURVE_PARTS, MIN_RANGE, FitRules, Parameters
from fedpact.fitting.result import Fit
from fedpact.fitting.starting_points import first_point, typical_scale
from fedpact.scenario.uncertainty import WEIGHT_SIGNS
from fedpact.utils.arrays import FloatArray, checked_numbers, non_negative
from fedpact.utils.errors import InvalidInput

Progress = Callable[[str], None]
MAX_PASSES = 6
VARIANCE_CHANGE = 0.02  # relative, of the training variance
MIN_VARIANCE = 1e-4**2
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
    rules, known = _fit_rules(observations, family=family, signs=signs, shared=shared, ends=ends, prior=prior)
    task = _Task(observations=observations, known=known, noise=_checked_noise(training_noise), progress=progress)
    found = _settle(task, rules)
    errors = found.posterior.weight_errors
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
        posterior=found.posterior,
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
    posterior: Posterior
    variance: float
    degrees: float
    chi_square: float
    residuals: FloatArray
    scaled: FloatArray


def _settle(task: _Task, rules: FitRules, start: Parameters | None = None) -> _Settled:
    """Estimates and noise in turn, until the training noise changes no more."""
    observations = task.observations
    measured, sizes = observations.measured, observations.known_test_sizes()
    contributions = np.array(observations.contributions)  # writable like its samples: compiled code knows one kind
    accuracies = np.where(measured, observations.accuracies, 0.0)
    variance = task.noise**2 if task.noise is not None else ASSUMED_NOISE**2 if sizes is None else 0.0
    variances = sampling_variances(accuracies, sizes) + max(variance, MIN_VARIANCE)
    point = start
    for turn in range(MAX_PASSES):
        data = WeightedRuns(
            contributions=contributions,
            accuracies=accuracies,
            precisions=np.where(measured, 1.0 / variances, 0.0),
        )
        if point is None:
            point = first_point(data, rules, task.known)
        found = minimise(data, rules, point, progress=_steps(task.progress, turn))
        point, posterior = found.point, Posterior(point=found.point, rules=rules, gathered=information(data, found))
        degrees = _degrees(posterior, observations.n_measured)
        sampling = sampling_variances(found.predicted, sizes)
        before, variance = variance, _next_variance(task, found, sampling, degrees)
        variances = sampling + max(variance, MIN_VARIANCE)
        if abs(variance - before) <= VARIANCE_CHANGE * max(variance, before) + MIN_VARIANCE:
            break
    residuals = np.where(measured, observations.accuracies - found.predicted, np.nan)
    scaled = residuals / np.sqrt(variances)
    design = 1.0 + max(measured.sum(axis=1).mean() - 1.0, 0.0) * within_run_correlation(scaled)
    return _Settled(
        posterior=replace(posterior, design=design),
        variance=variance,
        degrees=degrees,
        chi_square=float(np.nansum(scaled**2)),
        residuals=residuals,
        scaled=scaled,
    )


def _next_variance(task: _Task, found: Prediction, sampling: FloatArray, degrees: float) -> float:
    """The training noise that the residuals call for; where nothing is left to judge it by, a guess."""
    if task.noise is not None:
        return task.noise**2
    measured = task.observations.measured
    if degrees < 1:
        return ASSUMED_NOISE**2 if task.observations.known_test_sizes() is None else 0.0
    residuals = (task.observations.accuracies - found.predicted)[measured]
    return training_variance(residuals, sampling[measured], degrees)


def _degrees(posterior: Posterior, n_measured: int) -> float:
    """Measurements minus the parameters they paid for; the prior paid for the others."""
    free = int(posterior.rules.free_local.sum() + posterior.rules.free_shared.sum())
    return n_measured - (free - posterior.prior_traces())


def _pruned(task: _Task, found: _Settled) -> tuple[_Settled, FloatArray]:
    """Fits with fewer and fewer weights, and the standard errors of those dropped from when they were dropped."""
    errors = found.posterior.weight_errors
    for _ in range(MAX_PRUNINGS):
        posterior = found.posterior
        free = posterior.rules.free_ratios
        errors = np.where(free | np.eye(free.shape[0], dtype=bool), posterior.weight_errors, errors)
        weak = free & (np.abs(np.arcsinh(posterior.point.ratios)) < MIN_KEPT_ERRORS * errors)
        if not weak.any():
            break
        rules = replace(posterior.rules, free_ratios=free & ~weak)
        start = replace(posterior.point, ratios=np.where(weak, 0.0, posterior.point.ratios))
        found = _settle(task, rules, start)
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
        free_ratios=~np.eye(observations.n_agents, dtype=bool),
        signed=signs == "any",
        prior=_one_number("prior", prior, non_negative, "at least zero and finite"),
        scale_mean=typical_scale(observations.contributions),
    )
    return rules, known


def _checked_noise(given: float | None) -> float | None:
    """The training noise if it is known."""
    if given is None:
        return None
    return _one_number("training_noise", given, *END_RULES["floor"])


def _known(observations: Observations, ends: Mapping[str, ArrayLike | None]) -> FloatArray:
    known = np.full((observations.n_agents, 3), np.nan)
    for label, numbers in ends.items():
        if numbers is not None:
            known[:, CURVE_PARTS.index(label)] = checked_numbers(
                label, numbers, *END_RULES[label], names=observations.names
            )
    for agent in np.flatnonzero(known[:, 2] - known[:, 1] < MIN_RANGE)[:1]:
        raise InvalidInput(
            f"ceiling must exceed floor by at least {MIN_RANGE}, got {known[agent, 2]:g} and {known[agent, 1]:g} "
            f'(agent "{observations.names[agent]}")'
        )
    return known


def _one_number(label: str, given: Any, accepts: Accepts, rule: str) -> float:
    checked = checked_numbers(label, given, accepts, rule)
    if checked.ndim:
        raise InvalidInput(f"{label} must be one number, got {given!r:.60}")
    return float(checked)

"""`fit`: from observations to estimates.

Least squares with a prior, by `scipy.optimize.least_squares` within bounds and from several starts, each measurement
weighted by its noise. The noise of the test sets depends on the fitted accuracies, and that beyond them on the
residuals, so parameters and noise are fitted in turn until the noise changes no more. The inverse of the information
matrix at the estimate is the covariance (Laplace); it is enlarged where residuals of one run go together, since the
members test one model, and where the curves miss something (`fedpact.fitting.lack_of_fit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.lack_of_fit import (
    ASSUMED_NOISE,
    MIN_VARIANCE,
    FamilyComparison,
    LackOfFit,
    baseline_residuals,
    excess_variance,
    folds,
    log_contributions,
    minimise_squares,
    misfit_variance,
    rms,
    sampling_variances,
)
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import CURVE_FAMILIES, CURVE_PARTS, EQUAL, MIN_RANGE, CurveModel, has_shape
from fedpact.fitting.result import Fit, inverse
from fedpact.scenario.uncertainty import WEIGHT_SIGNS
from fedpact.utils.arrays import FloatArray, checked_numbers, one_number
from fedpact.utils.errors import InvalidInput, NotConverged

Progress = Callable[[str], None]
MAX_PRIOR = 1e6  # pseudo-observations: more of them leave nothing to the data
AUTO_FAMILY = "auto"
START_BETAS = (0.05, 0.2, 0.6, 2.0)
START_SCALES = np.linspace(-7.0, 7.0, 15)  # logarithms, around the typical one
TYPICAL_DATA = 5.0  # weighted data of a run in the middle of its curve
START_STEPS, MAX_STEPS = 15, 1000
MAX_PASSES = 8
VARIANCE_CHANGE = 0.02  # relative
MIN_RUN_PAIRS = 30

END_RULES: Mapping[str, tuple[Callable[[FloatArray], NDArray[np.bool_]], str]] = {
    "floor": (lambda numbers: (numbers >= 0) & (numbers < 1), "at least 0 and below 1"),
    "ceiling": (lambda numbers: (numbers > 0) & (numbers <= 1), "above 0 and at most 1"),
}


def fit(
    observations: Observations,
    *,
    family: str = "power-law",
    signs: str = "positive",
    shared: Sequence[str] = CURVE_PARTS,
    floor: ArrayLike | None = None,
    ceiling: ArrayLike | None = None,
    prior: float = 1.0,
    progress: Progress | None = None,
) -> Fit:
    """Estimate the accuracy curves and the weights behind measured accuracies.

    The model is accuracy_i = floor_i + (ceiling_i - floor_i) g(sum_j w_ij s_j), g the payoff family, 1 - (1 + y)^-beta
    by default. Where members have several lots or tasks, i counts the tasks and j the lots, and a lot has a quality
    that all tasks share.

    `family` is "power-law", "exponential" or "michaelis", or "auto" for the one that predicts runs left out best;
    `signs` "positive" for weights of at least zero, "any" if data may harm. `shared` says which of "beta", "floor" and
    "ceiling" all agents (tasks) have in common. `floor` and `ceiling` are known values, such as the accuracy of
    guessing, a number or one per agent; fitted if not given. `prior` is how many pseudo-observations say that
    everybody's data is like one's own, each as good as a measurement of w_ij / w_ii = 1 with standard error 1; of lots,
    that a lot is as good for all tasks. Zero switches that off. `progress` is told what is being done.

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
    if not isinstance(observations, Observations):
        raise InvalidInput(
            f"observations must be Observations; make them with Observations.of or Observations.from_csv, "
            f"got {observations!r:.80}"
        )
    if signs not in WEIGHT_SIGNS:
        raise InvalidInput(f"signs must be one of {', '.join(WEIGHT_SIGNS)}, got {signs!r:.40}")
    parts = (shared,) if isinstance(shared, str) else tuple(shared)
    for part in parts:
        if part not in CURVE_PARTS:
            raise InvalidInput(f"shared must be among {', '.join(CURVE_PARTS)}, got {part!r:.40}")
    ends = _known_ends(observations, {"floor": floor, "ceiling": ceiling})
    weight = one_number(
        "prior", prior, lambda given: (given >= 0.0) & (given <= MAX_PRIOR), f"from 0 to {MAX_PRIOR:,.0f}"
    )
    totals = observations.contributions.sum(axis=1)

    def fit_family(name: str) -> Fit:
        known = ends.copy()
        if not has_shape(name):
            known[:, 0] = 0.0
        model = CurveModel.of(
            name,
            known,
            np.array([part in parts for part in CURVE_PARTS]),
            (observations.n_tasks, observations.n_lots),
            has_lots=observations.has_lots,
            signed=signs == "any",
            prior=weight,
            typical_scale=float(np.log(TYPICAL_DATA / np.median(totals[totals > 0]))),
        )
        return _Problem(observations, model, progress or (lambda what: None)).fit(name, signs, parts)

    if family in CURVE_FAMILIES:
        return fit_family(family)
    if family != AUTO_FAMILY:
        raise InvalidInput(
            f"family must be one of {', '.join(CURVE_FAMILIES)}, got {family!r:.60}; a curve needs a ceiling to be "
            f"fitted"
        )
    if observations.repeats.max() < 1:
        raise InvalidInput(
            "family auto needs runs with different contributions to compare families by; name a family instead"
        )
    found: dict[str, Fit] = {}
    for name in CURVE_FAMILIES:
        if progress is not None:
            progress(f"comparing families: {name}")
        with suppress(NotConverged):
            found[name] = fit_family(name)
    if not found:
        raise NotConverged("no family of curves could be fitted to the runs")
    left_out = {name: each.left_out_residuals for name, each in found.items()}
    compared = FamilyComparison.of(left_out, observations.repeats)
    return replace(found[compared.chosen], families=compared)


class _Problem:
    """The least-squares problem of some observations and a model."""

    def __init__(self, seen: Observations, model: CurveModel, progress: Progress) -> None:
        self.seen, self.model, self.progress = seen, model, progress
        self.sizes = seen.known_test_sizes()
        self.sampling = sampling_variances(np.nan_to_num(seen.accuracies), self.sizes)
        self.excess = 0.0 if self.sizes is not None else ASSUMED_NOISE**2  # the variance beyond the test sets'

    def fit(self, family: str, signs: str, shared: Sequence[str]) -> Fit:
        """Estimates, their covariance, and how well they predict runs left out."""
        found = self._best_start()
        for turn in range(MAX_PASSES):  # parameters and noise in turn, until the noise changes no more
            self.progress(f"pass {turn + 1}")
            found = self._minimise(found).x
            self.sampling = sampling_variances(self.model.predict(found, self.seen.contributions), self.sizes)
            before, self.excess = self.excess, self._excess(found)
            if abs(self.excess - before) <= VARIANCE_CHANGE * max(self.excess, before) + MIN_VARIANCE:
                break
        return self._judge(found, family=family, signs=signs, shared=shared)

    def _degrees(self, found: FloatArray) -> float:
        """Measurements minus the parameters they paid for; the prior paid for the others."""
        prior = self.model.prior_information(found)
        paid = found.size - float((prior * np.diag(inverse(self._information(found) + np.diag(prior)))).sum())
        return self.seen.n_measured - paid

    def _excess(self, found: FloatArray) -> float:
        degrees = self._degrees(found)
        if degrees < 1:
            return 0.0 if self.sizes is not None else ASSUMED_NOISE**2
        left, measured = self.seen.accuracies - self.model.predict(found, self.seen.contributions), self.seen.measured
        return excess_variance(left[measured], self.sampling[measured], degrees)

    @property
    def _precisions(self) -> FloatArray:
        return np.where(self.seen.measured, 1.0 / np.sqrt(self.sampling + max(self.excess, MIN_VARIANCE)), 0.0)

    def _information(self, found: FloatArray) -> FloatArray:
        """(parameters, parameters): that of the measurements."""
        jacobian = self._problem(found, slice(None))[1][: -found.size]
        return np.asarray(jacobian.T @ jacobian)

    def _problem(self, numbers: FloatArray, runs: Any) -> tuple[FloatArray, FloatArray]:
        """Residuals of the measurements of some runs, over their standard errors, and of the prior; their Jacobian."""
        model, given, scales = self.model, self.seen.contributions[runs], self._precisions[runs].T
        left = scales * (model.predict(numbers, given) - np.nan_to_num(self.seen.accuracies[runs])).T
        jacobian = model.gradients(numbers, given) * scales[:, :, None]
        measured = scales > 0.0
        return (
            np.concatenate([left[measured], model.prior_residuals(numbers)]),
            np.vstack([jacobian[measured], np.diag(model.prior_gradients(numbers))]),
        )

    def _minimise(self, start: FloatArray, runs: Any = slice(None), steps: int = MAX_STEPS) -> Any:
        """Least squares from a start, over all runs or some."""
        model = self.model
        found = minimise_squares(
            lambda numbers: self._problem(numbers, runs), start, model.lower, model.upper, max_steps=steps
        )
        if found.status == 0 and steps == MAX_STEPS:
            raise NotConverged(
                f"the estimate did not settle in {MAX_STEPS} steps; try another family, known ends (floor, ceiling), "
                f"or more of the prior"
            )
        return found

    def _best_start(self) -> FloatArray:
        """The best of several: one per beta, each with the scale that suits it if everybody's data is alike."""
        model, seen, scales = self.model, self.seen, self._precisions

        def misfit(start: FloatArray) -> float:
            return float(np.nansum((scales * (seen.accuracies - model.predict(start, seen.contributions))) ** 2))

        tried = []
        for beta in START_BETAS if has_shape(model.family) else (1.0,):
            self.progress(f"starting from beta {beta:g}" if has_shape(model.family) else "starting")
            start = min((self._start(beta, scale) for scale in START_SCALES), key=misfit)
            tried.append(self._minimise(start, steps=START_STEPS))
        return np.asarray(min(tried, key=lambda each: float(each.cost)).x)

    def _start(self, beta: float, scale: float) -> FloatArray:
        """Data alike, and floor and ceiling around the accuracies that were measured."""
        model, measured = self.model, self.seen.accuracies[self.seen.measured]
        start = np.where(model.is_ratio, EQUAL, model.means)
        low, high = float(measured.min()), float(measured.max())
        start[model.index[:, 0]] += scale
        for part, number in enumerate((np.log(beta), max(low - 0.05, 0.0), min(high + 0.05, 1.0))):
            free = model.index[:, part - 3]
            start[free[free >= 0]] = number
        return np.clip(start, model.lower, model.upper)

    def _judge(self, found: FloatArray, *, family: str, signs: str, shared: Sequence[str]) -> Fit:
        seen, information = self.seen, self._information(found)
        left = seen.accuracies - self.model.predict(found, seen.contributions)
        variances = self.sampling + max(self.excess, MIN_VARIANCE)
        beyond = self._excess(found)
        misfit = misfit_variance(seen, left, self.sampling, beyond)
        left_out, nearest, linear = self._left_out(found)
        doubt = run_effect(left / np.sqrt(variances))
        if misfit:
            covariance = inverse(information + np.diag(self.model.prior_information(found)))
            gradients = self.model.gradients(found, seen.contributions)[seen.measured.T]
            unsure = float(((gradients @ covariance) * gradients).sum(axis=1).mean())
            doubt *= 1.0 + misfit / max(doubt * unsure, MIN_VARIANCE)
        return Fit(
            observations=seen,
            family=family,
            signs=signs,
            shared=tuple(shared),
            model=self.model,
            parameters=found,
            information=information,
            doubt=doubt,
            training_noise=float(np.sqrt(max(beyond - misfit, 0.0))),
            degrees=self._degrees(found),
            residuals=left,
            scaled_residuals=left / np.sqrt(variances),
            sampling=self.sampling,
            left_out_residuals=left_out,
            lack_of_fit=LackOfFit(
                error=rms(left_out), nearest_run=rms(nearest), log_linear=rms(linear), misfit=float(np.sqrt(misfit))
            ),
        )

    def _left_out(self, found: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(runs, tasks) each: residuals of curves fitted without the run, and of two plain rules."""
        seen = self.seen
        left_out = np.full(seen.accuracies.shape, np.nan)
        if seen.repeats.max() < 1:
            return left_out, left_out, left_out
        fold_of = folds(seen.repeats)
        for fold in range(int(fold_of.max()) + 1):
            self.progress(f"leaving out runs, part {fold + 1}")
            asked = fold_of == fold
            if not seen.contributions[~asked].any() or not seen.measured[~asked].any():
                continue
            without = self._minimise(found, ~asked).x
            predicted = np.clip(self.model.predict(without, seen.contributions[asked]), 0.0, 1.0)
            left_out[asked] = seen.accuracies[asked] - predicted
        features = log_contributions(seen.contributions)
        nearest, linear = baseline_residuals(features, features, seen.accuracies, fold_of)
        measured = seen.accuracies
        return left_out, nearest, measured - np.clip(measured - linear, 0.0, 1.0)


def run_effect(scaled: FloatArray) -> float:
    """By how much variances grow since members test one model whose luck they share; 1 unless that is clear.

    `scaled` are residuals over their standard deviations, (runs, tasks). With m measurements a run and a correlation r
    between them, a mean over all is 1 + (m - 1) r times as unsure.
    """
    counts = (~np.isnan(scaled)).sum(axis=1)
    pairs = float((counts * (counts - 1)).sum()) / 2.0
    squares = np.nansum(scaled**2)
    if pairs < MIN_RUN_PAIRS or not squares:
        return 1.0
    products = (np.nansum(scaled, axis=1) ** 2 - np.nansum(scaled**2, axis=1)).sum() / 2.0
    correlation = float(products / pairs / (squares / counts.sum()))
    return 1.0 + max(float(counts.mean()) - 1.0, 0.0) * correlation if correlation > 2.0 / np.sqrt(pairs) else 1.0


def _known_ends(observations: Observations, ends: Mapping[str, ArrayLike | None]) -> FloatArray:
    """(tasks, 3): the known parts of the curves, NaN where they are fitted."""
    known = np.full((observations.n_tasks, 3), np.nan)
    for label, numbers in ends.items():
        if numbers is not None:
            known[:, CURVE_PARTS.index(label)] = checked_numbers(
                label, numbers, *END_RULES[label], names=observations.task_labels
            )
    for agent in np.flatnonzero(known[:, 2] - known[:, 1] < MIN_RANGE)[:1]:
        raise InvalidInput(
            f"ceiling must exceed floor by at least {MIN_RANGE}, got {known[agent, 2]:g} and {known[agent, 1]:g} "
            f'({"task" if observations.has_lots else "member"} "{observations.task_labels[agent]}")'
        )
    return known

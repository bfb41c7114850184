"""What a fit found: estimates, how sure they are, how well they fit, and the federation they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from fedpact.federation import Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.accuracy_curves import CURVE_FAMILIES
from fedpact.fitting.cross_validation import FamilyComparison
from fedpact.fitting.identifiability import indistinguishable
from fedpact.fitting.intervals import intervals, standard_errors
from fedpact.fitting.lack_of_fit import LackOfFit
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import MAX_CURVE, MIN_CURVE, MIN_RANGE
from fedpact.fitting.posterior import Posterior
from fedpact.fitting.scenario_uncertainty import scenario_uncertainty
from fedpact.scenario import Money, Scenario, Uncertainty
from fedpact.utils.arrays import (
    POSITIVE,
    FloatArray,
    align,
    align_columns,
    checked_numbers,
    positive,
    read_only_copy,
)
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

OUTLIER_ERRORS = 4.0  # standard deviations from which a measurement is an outlier
MIN_DEGREES = 3.0  # below this, Student's t has no finite variance


@dataclass(frozen=True, kw_only=True)
class FitQuality:
    """How well the curves fit.

    Attributes
    ----------
    r_squared
        The part of the variance between measurements that the fit explains; NaN if they are all alike.
    chi_square_per_degree
        Mean squared residual over the variance of the noise: near 1 if the curves fit. Without repeats, and where no
        training noise is given, the noise is estimated from the same residuals, and this is 1 whatever the curves.
    rms
        Root mean square of the residuals, in accuracy.
    degrees
        Measurements minus the parameters they paid for.
    """

    r_squared: float
    chi_square_per_degree: float
    rms: float
    degrees: float


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """A measurement far from the fit: the row of its run, the agent, what was measured and what was expected.

    `source` is the file where there are several.
    """

    row: int
    agent: str
    accuracy: float
    expected: float
    source: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """Parameters that the data leaves possible: weights (count, n, n); beta, floors and ceilings (count, n).

    Of lots, weights are (count, tasks, lots) and the others (count, tasks).
    """

    weights: FloatArray
    beta: FloatArray
    floors: FloatArray
    ceilings: FloatArray

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    @property
    def values(self) -> FloatArray:
        """(count, n): ceilings minus floors."""
        return np.asarray(self.ceilings - self.floors)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """Estimates from observations; made by `fit`.

    Where members have several lots or tasks, arrays over receivers run over the tasks and those over givers over lots.

    The floor is what a model knows without data. It adds the same to every outcome of an agent, so it does not move the
    deal; the ceiling minus the floor is what a federation calls the agent's value.

    Attributes
    ----------
    observations, family, signs
        What was fitted, and how.
    training_noise
        Standard deviation between trainings on the same data, beyond the test set's.
    degrees, chi_square
        Measurements minus parameters, and the sum of squared residuals over their variances.
    residuals, scaled_residuals
        (runs, n): measured minus fitted, as they are and over their standard deviations; NaN where there is none.
    posterior
        The Gaussian around the estimates.
    weight_errors
        (n, n): standard errors in the coordinates of `fedpact.fitting.posterior`.
    lack_of_fit
        Whether the curves fit, as far as the log can tell.
    families
        How the families were compared, if the family was "auto".
    """

    observations: Observations
    family: str
    signs: str
    training_noise: float
    noise_fitted: bool
    degrees: float
    chi_square: float
    residuals: FloatArray
    scaled_residuals: FloatArray
    posterior: Posterior
    weight_errors: FloatArray
    lack_of_fit: LackOfFit
    has_test_sizes: bool
    families: FamilyComparison | None = None

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self.observations.names

    @cached_property
    def weights(self) -> FloatArray:
        """(n, n): how useful the column's data is to the row."""
        return read_only_copy(self.posterior.point.weights)

    @cached_property
    def beta(self) -> Any:
        """The power law's exponent: a number, or one per agent if it is not shared; None for other families."""
        if not CURVE_FAMILIES[self.family].has_shape:
            return None
        numbers = np.exp(self.posterior.point.curves[:, 0])
        return float(numbers[0]) if self.posterior.rules.shared[0] else read_only_copy(numbers)

    @cached_property
    def floors(self) -> FloatArray:
        """(n,): accuracy without data."""
        return read_only_copy(self.posterior.point.curves[:, 1])

    @cached_property
    def ceilings(self) -> FloatArray:
        """(n,): accuracy with all the data in the world."""
        return read_only_copy(self.posterior.point.curves[:, 2])

    @property
    def values(self) -> FloatArray:
        """(n,): ceilings minus floors."""
        return read_only_copy(self.ceilings - self.floors)

    @cached_property
    def standard_errors(self) -> Mapping[str, Any]:
        """By name, in the shape of the estimate."""
        return standard_errors(self.posterior, self.weight_errors)

    def intervals(self, level: float = 0.9) -> Mapping[str, FloatArray]:
        """Intervals that hold the truth with probability `level`, by name; the last axis is (lower, upper)."""
        if not 0 < level < 1:
            raise InvalidInput(field="level", rule="must lie between 0 and 1", value=level)
        return intervals(self.posterior, self.weight_errors, self.quantile(0.5 + level / 2.0))

    def quantile(self, probability: float) -> float:
        """Of the standardised error: Student's t where the noise was estimated from the residuals, else normal."""
        if self._noise_estimated:
            return float(stdtrit(max(self.degrees, 1.0), probability))
        return float(ndtri(probability))

    @cached_property
    def quality(self) -> FitQuality:
        """How well the curves fit."""
        seen = self.observations.accuracies[self.observations.measured]
        squares = float(np.nansum(self.residuals**2))
        spread_of_seen = float(((seen - seen.mean()) ** 2).sum())
        return FitQuality(
            r_squared=1.0 - squares / spread_of_seen if spread_of_seen > 0 else float("nan"),
            chi_square_per_degree=self.chi_square / self.degrees if self.degrees >= 1 else float("nan"),
            rms=float(np.sqrt(squares / seen.size)),
            degrees=float(self.degrees),
        )

    @cached_property
    def indistinguishable(self) -> tuple[str, ...]:
        """Parameters the data cannot tell apart, a group in a line; what is said of them comes from the prior."""
        seen = self.observations
        return indistinguishable(self.posterior, seen.lot_labels, seen.task_labels, self._tested)

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        """Measurements more than four standard deviations from the fit, the farthest first."""
        sizes = np.nan_to_num(np.abs(self.scaled_residuals))
        places = np.argwhere(sizes > OUTLIER_ERRORS)
        order = np.argsort(-sizes[tuple(places.T)], kind="stable")
        seen = self.observations
        return tuple(
            Outlier(
                row=seen.rows[run],
                agent=seen.task_labels[agent],
                accuracy=float(seen.accuracies[run, agent]),
                expected=float(seen.accuracies[run, agent] - self.residuals[run, agent]),
                source=seen.sources[run] if seen.sources else "",
            )
            for run, agent in places[order]
        )

    @property
    def unexplained(self) -> float:
        """Standard deviation of accuracies around the curves beyond the test sets': noise of training, and misfit."""
        return float(np.hypot(self.training_noise, self.lack_of_fit.misfit))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What forbids to take the numbers at their word: that the curves do not fit, and what to try."""
        text = self.lack_of_fit.text
        if text is None or not self.lack_of_fit.is_clear:
            return ()
        ways = [] if self.families is not None else ["another family (auto chooses one)"]
        ways += ["curves that members do not share (shared none)"] if self.posterior.rules.shared.any() else []
        advice = f". {' or '.join(ways).capitalize()} may fit better" if ways else ""
        return (text + advice,)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before trusting the numbers, in words."""
        seen, notes = self.observations, []
        rules = self.posterior.rules
        aside = rules.n_parts + int(rules.free_local[~self._tested].sum())
        free = int(rules.free_local.sum() + rules.free_shared.sum()) - aside
        if (decided := self.posterior.prior_traces() - aside) >= 1.0:
            told = "1 accuracy" if seen.n_measured == 1 else f"{seen.n_measured} accuracies"
            alike = "everybody's data is alike" if rules.structure is None else "what lots and members have in common"
            notes.append(
                f"{told} for {free} parameters: about {decided:.0f} of them rest on the prior "
                f"({alike}), not on the data"
            )
        if seen.left_out:
            rows = ", ".join(map(str, seen.left_out[:5])) + (", ..." if len(seen.left_out) > 5 else "")
            notes.append(f"runs left out since a contribution is missing (write 0 for none): {rows}")
        if not self.has_test_sizes:
            untold = ", and without repeats nobody can tell it from curves that do not fit"
            notes.append(
                f"no test sizes given: all noise is estimated from the residuals"
                f"{untold if self.lack_of_fit.is_unknown else ''}"
            )
        if not self.lack_of_fit.is_clear and (text := self.lack_of_fit.text):
            notes.append(text)
        if self.families is not None and self.families.as_good:
            notes.append(
                f"the log cannot tell {self.family} from {' and '.join(self.families.as_good)}, which predict unseen "
                f"runs as well: see what the deal is under these too"
            )
        if self.degrees < 1 and self.noise_fitted:
            notes.append(
                "too few accuracies to judge the noise of training; only that of the test sets is counted"
                if self.has_test_sizes
                else "too few accuracies to judge the noise; a standard deviation of 0.02 was assumed"
            )
        return tuple(notes)

    def predict(self, contributions: ArrayLike) -> FloatArray:
        """Fitted accuracies at contributions (n,) or (runs, n); of lots, (lots,) or (runs, lots)."""
        given = self._profiles(contributions)
        curve, _, _ = CURVE_FAMILIES[self.family].evaluate(given @ self.weights.T, self.posterior.point.curves[:, 0])
        return np.asarray(self.floors + self.values * curve)

    def prediction_errors(self, contributions: ArrayLike) -> FloatArray:
        """Standard errors of the fitted accuracies at contributions (n,) or (runs, n), with doubt about the model."""
        given = self._profiles(contributions)
        errors = self.posterior.prediction_errors(np.atleast_2d(given))
        return errors[0] if given.ndim == 1 else errors

    def _profiles(self, contributions: Any) -> FloatArray:
        """Contributions as an array, in the order of the lots where they are labelled."""
        put = align_columns if hasattr(contributions, "columns") else align
        return np.asarray(put("contributions", contributions, self.observations.lot_labels), dtype=np.float64)

    def draws(self, count: int = 400, rng: np.random.Generator | int | None = None) -> Draws:
        """Parameters that the data leaves possible, `count` times over; `rng` is a Generator, an int or None."""
        generator, point, rules = np.random.default_rng(rng), self.posterior.point, self.posterior.rules
        noise = generator.standard_normal((count, rules.n_noise))
        if self._noise_estimated:
            degrees = max(self.degrees, MIN_DEGREES)
            noise *= np.sqrt(degrees / generator.chisquare(degrees, (count, 1)))
        local, shared = self.posterior.steps(noise)
        curves = point.curves + local[:, :, -3:] + shared[:, None, -3:]
        curves = np.where(rules.known, point.curves, np.clip(curves, MIN_CURVE, MAX_CURVE))
        floors = np.minimum(curves[:, :, 1], curves[:, :, 2] - MIN_RANGE)
        return Draws(
            weights=self._drawn_weights(local),
            beta=np.exp(curves[:, :, 0]),
            floors=floors,
            ceilings=curves[:, :, 2],
        )

    def _drawn_weights(self, local: FloatArray) -> FloatArray:
        """(count, n, n) or (count, tasks, lots): the weights after steps in the slots."""
        posterior, point, signed = self.posterior, self.posterior.point, self.posterior.rules.signed
        if posterior.rules.structure is not None:
            strayed = np.arcsinh(point.weights / posterior.units) + posterior.weight_deviations(local)
            drawn = posterior.units * np.sinh(strayed)
            return np.asarray(drawn if signed else np.maximum(drawn, 0.0))
        steps = local[:, :, 1 : 1 + point.scales.size] / np.hypot(1.0, point.ratios)
        ratios = np.sinh(np.arcsinh(point.ratios) + steps)
        ratios = ratios if signed else np.maximum(ratios, 0.0)
        return np.asarray(np.exp(point.scales + local[:, :, 0])[:, :, None] * ratios)

    def federation(self, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> Federation:
        """The federation of the estimates.

        Parameters
        ----------
        costs, caps
            As `Federation` takes them; they are not in the data.
        worth
            What a unit of accuracy (from 0 to 1) is worth, a number or one per agent (task).
        """
        rates = checked_numbers("worth", worth, positive, POSITIVE, names=self.observations.task_labels)
        curve = CURVE_FAMILIES[self.family]
        shape = self.beta if curve.has_shape else 1.0
        return Federation(
            self.weights,
            costs=costs,
            caps=caps,
            payoff=curve.payoff_with(shape),
            names=self.names,
            values=rates * self.values,
            **self.observations.owners,
        )

    def uncertainty(self, *, worth: ArrayLike = 1.0) -> Uncertainty:
        """The uncertainty of that federation, as a scenario carries it."""
        rates = checked_numbers("worth", worth, positive, POSITIVE, names=self.observations.task_labels)
        degrees = max(self.degrees, MIN_DEGREES)
        wider = float(np.sqrt(degrees / (degrees - 2.0))) if self._noise_estimated else 1.0
        return scenario_uncertainty(self.posterior, rates, signs=self.signs, wider=wider)

    def scenario(
        self,
        *,
        costs: Costs,
        caps: ArrayLike = np.inf,
        worth: ArrayLike = 1.0,
        title: str = "",
        description: str = "",
        money: Money | None = None,
        unit: str = "",
    ) -> Scenario:
        """The federation with its uncertainty, to save with `save_scenario`."""
        return Scenario(
            federation=self.federation(costs=costs, caps=caps, worth=worth),
            title=title,
            description=description,
            money=money,
            unit=unit,
            uncertainty=self.uncertainty(worth=worth),
        )

    def plot(self, *, figure: Any = None) -> Any:
        """Measured against fitted, and the curves with their bands, on `figure` or a new one; needs matplotlib."""
        from fedpact.report.plots import plot_fit  # noqa: PLC0415 - optional dependency

        return plot_fit(self, figure=figure)

    @property
    def _tested(self) -> NDArray[np.bool_]:
        """Tasks of which there is an accuracy: in the fit of one member, its own."""
        return np.asarray(self.observations.measured.any(axis=0))

    @property
    def _noise_estimated(self) -> bool:
        return self.noise_fitted and self.training_noise > 0

    def __repr__(self) -> str:
        seen = self.observations
        return (
            f"Fit({self.family}, {count_text(seen.n_agents, 'agent')}, {seen.n_measured} accuracies of "
            f"{count_text(seen.n_runs, 'run')}, "
            f"rms {self.quality.rms:.3g})"
        )

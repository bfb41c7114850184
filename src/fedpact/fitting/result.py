"""What a fit found: estimates, how sure they are, how well they fit, and the federation they make.

The estimates are the centre of a Gaussian in the coordinates of `fedpact.fitting.parameters`. What people ask for
(weights, beta, floors, ceilings) follows from these: standard errors to first order, draws exactly. Intervals are taken
in asinh(weight / own weight) and log(beta), where a Gaussian suits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from fedpact.federation import Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.lack_of_fit import FamilyComparison, LackOfFit, rms
from fedpact.fitting.observations import Observations
from fedpact.fitting.parameters import CURVE_ERRORS, CURVE_FAMILIES, CURVE_PARTS, CurveModel, has_shape
from fedpact.scenario import Money, Scenario, Uncertainty
from fedpact.scenario.uncertainty import weight_units
from fedpact.utils.arrays import POSITIVE, FloatArray, align, align_columns, checked_numbers, positive, read_only_copy
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text, join_names

OUTLIER_ERRORS = 4.0  # standard deviations from which a measurement is an outlier
MIN_DEGREES = 3.0  # below this, Student's t has no finite variance
MAX_INLINE = 64  # numbers whose correlations stand in the scenario's file itself
FACTOR_DRAWS = 400  # that stand for the correlations of more
WEAK_ERROR = 0.5  # standard error, by the data alone, from which the prior decides
MIN_SHARE = 0.3  # share of the largest part of a weak direction from which a number belongs to it


@dataclass(frozen=True, kw_only=True)
class FitQuality:
    """How well the curves fit the accuracies they were fitted to."""

    r_squared: float  # The part of the variance between measurements that the fit explains; NaN if they are all alike
    # Mean squared residual over the variance of the test sets: near 1 if these explain all; NaN if no test size is
    # known. Noise of training and misfit make it larger
    chi_square_per_degree: float
    rms: float  # Root mean square of the residuals, in accuracy
    degrees: float  # Measurements minus the parameters they paid for


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
class Fit:
    """Estimates from observations; made by `fit`.

    Where members have several lots or tasks, arrays over receivers run over the tasks and those over givers over lots.

    The floor is what a model knows without data. It adds the same to every outcome of an agent, so it does not move the
    deal; the ceiling minus the floor is what a federation calls the agent's value.
    """

    #: What was fitted, and how
    observations: Observations
    family: str
    signs: str
    shared: tuple[str, ...]
    #: The coordinates, and the estimates in them
    model: CurveModel
    parameters: FloatArray
    #: (parameters, parameters): what the data says of them, and the factor by which variances are larger than that
    information: FloatArray
    doubt: float
    training_noise: float  #: Standard deviation between trainings on the same data, beyond the test set's
    degrees: float  #: Measurements minus the parameters they paid for
    #: (runs, n): measured minus fitted, as they are, over their standard deviations, and by curves fitted without the
    #: run; NaN where there is none
    residuals: FloatArray
    scaled_residuals: FloatArray
    left_out_residuals: FloatArray
    sampling: FloatArray  #: (runs, n): variances of the test sets
    lack_of_fit: LackOfFit  #: Whether the curves fit, as far as the log can tell
    families: FamilyComparison | None = None  #: How the families were compared, if the family was "auto"

    @property
    def names(self) -> Sequence[str]:
        """The agents' names."""
        return self.observations.names

    @cached_property
    def weights(self) -> FloatArray:
        """(n, n): how useful the column's data is to the row."""
        return read_only_copy(self.model.weights(self.parameters))

    @cached_property
    def units(self) -> FloatArray:
        """(n, 1): the weight of one's own data; of lots, the largest that the task's owner has for it."""
        return weight_units(self.weights, self.observations.owned)

    @cached_property
    def _curves(self) -> FloatArray:
        return self.model.curves(self.parameters)

    @cached_property
    def beta(self) -> Any:
        """The power law's exponent: a number, or one per agent if it is not shared; None for other families."""
        if not has_shape(self.family):
            return None
        numbers = np.exp(self._curves[:, 0])
        return float(numbers[0]) if "beta" in self.shared else read_only_copy(numbers)

    @cached_property
    def floors(self) -> FloatArray:
        """(n,): accuracy without data."""
        return read_only_copy(self._curves[:, 1])

    @cached_property
    def ceilings(self) -> FloatArray:
        """(n,): accuracy with all the data in the world."""
        return read_only_copy(self._curves[:, 2])

    @property
    def values(self) -> FloatArray:
        """(n,): ceilings minus floors."""
        return read_only_copy(self.ceilings - self.floors)

    @cached_property
    def _covariance(self) -> FloatArray:
        """(parameters, parameters): that of the estimates."""
        return self.doubt * inverse(self.information + np.diag(self.model.prior_information(self.parameters)))

    @cached_property
    def _root(self) -> FloatArray:
        """A matrix R with R R' the covariance."""
        values, vectors = np.linalg.eigh(self._covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def _gradients(self) -> tuple[FloatArray, FloatArray]:
        return self.model.output_gradients(self.parameters, self.units)

    @cached_property
    def _errors(self) -> dict[str, FloatArray]:
        """Standard errors: of asinh(weight / unit), log(beta), floors, ceilings and values."""
        weights, curves = self._gradients
        rows = {"weights": weights, "beta": curves[:, 0], "floors": curves[:, 1], "ceilings": curves[:, 2]}
        rows["values"] = curves[:, 2] - curves[:, 1]
        return {name: np.linalg.norm(each @ self._root, axis=-1) for name, each in rows.items()}

    @cached_property
    def standard_errors(self) -> Mapping[str, Any]:
        """By name, in the shape of the estimate."""
        found = self._errors | {"weights": self._errors["weights"] * np.hypot(self.units, self.weights)}
        errors = found.pop("beta")
        if self.beta is not None:
            found["beta"] = self.beta * (errors[0] if "beta" in self.shared else errors)
        return {name: float(each) if np.ndim(each) == 0 else read_only_copy(each) for name, each in found.items()}

    def intervals(self, level: float = 0.9) -> Mapping[str, FloatArray]:
        """Intervals that hold the truth with probability `level`, by name; the last axis is (lower, upper)."""
        if not 0 < level < 1:
            raise InvalidInput(field="level", rule="must lie between 0 and 1", value=level)
        reach = self.quantile(0.5 + level / 2.0) * np.array([-1.0, 1.0])
        weights, units = self.weights[..., None], self.units[..., None]
        ends = units * np.sinh(np.arcsinh(weights / units) + self._errors["weights"][..., None] * reach)
        if not self.observations.has_lots:  # one's own weight is positive: its logarithm is Gaussian
            own = self.weights.diagonal()[:, None]
            errors = self.standard_errors["weights"].diagonal()[:, None] / own
            every = np.arange(len(own))
            ends[every, every] = own * np.exp(errors * reach)
        found = {"weights": ends if self.signs == "any" else np.maximum(ends, 0.0)}
        for name in ("floors", "ceilings"):
            found[name] = np.clip(getattr(self, name)[:, None] + self._errors[name][:, None] * reach, 0.0, 1.0)
        values = self.values[:, None]
        found["values"] = np.minimum(values * np.exp(self._errors["values"][:, None] / values * reach), 1.0)
        if self.beta is not None:
            shapes = np.atleast_1d(self.beta)[:, None]
            betas = shapes * np.exp(self._errors["beta"][: len(shapes), None] * reach)
            found["beta"] = betas[0] if "beta" in self.shared else betas
        return found

    def quantile(self, probability: float) -> float:
        """Of the standardised error: Student's t where the noise was estimated from the residuals, else normal."""
        return float(stdtrit(max(self.degrees, 1.0), probability) if self.unexplained > 0 else ndtri(probability))

    @cached_property
    def quality(self) -> FitQuality:
        """How well the curves fit."""
        measured = self.observations.measured
        seen, left = self.observations.accuracies[measured], self.residuals[measured]
        spread = float(((seen - seen.mean()) ** 2).sum())
        squares = float((left**2 / self.sampling[measured]).sum()) if self._has_test_sizes else float("nan")
        return FitQuality(
            r_squared=1.0 - float((left**2).sum()) / spread if spread > 0 else float("nan"),
            chi_square_per_degree=squares / self.degrees if self.degrees >= 1 else float("nan"),
            rms=rms(left),
            degrees=float(self.degrees),
        )

    @property
    def _has_test_sizes(self) -> bool:
        return self.observations.known_test_sizes() is not None

    @cached_property
    def indistinguishable(self) -> tuple[str, ...]:
        """What the data cannot tell apart, a group in a line; what is said of it comes from the prior.

        Directions along which the data alone leaves a standard error above 0.5 (in logarithms, own weights, or 0.2 of
        accuracy for floors and ceilings). Data that several tasks cannot tell apart is named once.
        """
        seen, (weights, curves) = self.observations, self._gradients
        covariance = inverse(
            self.information + 1e-3 * np.diag(np.maximum(self.model.prior_information(self.parameters), 1e-3))
        )
        units = np.array([1.0, *CURVE_ERRORS[1:]])
        groups: dict[tuple[str, str], list[str]] = {}
        tested = np.flatnonzero(seen.measured.any(axis=0))
        for task in tested:
            rows = np.concatenate([weights[task], curves[task] / units[:, None]])
            strengths, directions = np.linalg.eigh(rows @ covariance @ rows.T)
            for direction in directions.T[strengths > WEAK_ERROR**2]:
                sizes = np.abs(direction)
                chosen = np.flatnonzero(sizes >= MIN_SHARE * sizes.max())
                lots = [seen.lot_labels[index] for index in chosen if index < seen.n_lots]
                parts = [CURVE_PARTS[index - seen.n_lots] for index in chosen if index >= seen.n_lots]
                shown = f"the data of {join_names(lots, most=4)}" if lots else ""
                groups.setdefault((shown, " and ".join(parts)), []).append(seen.task_labels[task])
        whole = "every task" if seen.has_lots else "every member"
        return tuple(
            " and ".join(filter(None, [data, curve]))
            + ("" if not data else f", to {whole if len(to) == len(tested) > 1 else join_names(to, most=4)}")
            for (data, curve), to in groups.items()
        )

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        """Measurements more than four standard deviations from the fit, the farthest first."""
        sizes, seen = np.nan_to_num(np.abs(self.scaled_residuals)), self.observations
        indices = np.argwhere(sizes > OUTLIER_ERRORS)
        order = np.argsort(-sizes[tuple(indices.T)], kind="stable")
        return tuple(
            Outlier(
                row=seen.rows[run],
                agent=seen.task_labels[agent],
                accuracy=float(seen.accuracies[run, agent]),
                expected=float(seen.accuracies[run, agent] - self.residuals[run, agent]),
                source=seen.sources[run] if seen.sources else "",
            )
            for run, agent in indices[order]
        )

    @property
    def unexplained(self) -> float:
        """Standard deviation of accuracies around the curves beyond the test sets': noise of training, and misfit."""
        return float(np.hypot(self.training_noise, self.lack_of_fit.misfit))

    @property
    def is_recommended(self) -> bool:
        """Whether the curves predict runs left out better than two plain rules do."""
        return bool(self.lack_of_fit.error >= 0) and not self.lack_of_fit.is_clear

    @property
    def warnings(self) -> tuple[str, ...]:
        """What forbids to take the numbers at their word: that the curves do not fit, and what to try."""
        if not self.lack_of_fit.is_clear:
            return ()
        ways = [] if self.families is not None else ["another family (auto chooses one)"]
        ways += ["curves that members do not share (shared none)"] if self.shared else []
        return (self.lack_of_fit.text + (f". {' or '.join(ways).capitalize()} may fit better" if ways else ""),)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before trusting the numbers, in words."""
        seen, found, sized = self.observations, self.lack_of_fit, self._has_test_sizes
        decided, free = self._prior_shares
        told = "1 accuracy" if seen.n_measured == 1 else f"{seen.n_measured} accuracies"
        alike = "what lots have in common" if seen.has_lots else "everybody's data is alike"
        rows = ", ".join(map(str, seen.left_out[:5])) + (", ..." if len(seen.left_out) > 5 else "")
        as_good = () if self.families is None else self.families.as_good
        few = f"too few accuracies to judge the noise{' of training' * sized}; "
        few += "only that of the test sets is counted" if sized else "a standard deviation of 0.02 was assumed"
        floor_fitted = self.model.index[0, -2] >= 0 and bool(seen.contributions.any(axis=1).all())
        said = {
            f"{told} for {free} parameters: about {decided:.0f} of "
            f"them rest on the prior ({alike}), not on the data": decided >= 1.0,
            f"runs left out since a contribution is missing (write 0 for none): {rows}": bool(seen.left_out),
            "the floor is fitted, not measured: give it, or add a run without data (contributions of 0) with the "
            "accuracy of guessing": floor_fitted,
            "no test sizes given: all noise is estimated from the residuals": not sized,
            "there are no two different runs, so nothing says whether the curves fit": bool(np.isnan(found.error)),
            f"runs with similar contributions miss the curves alike, by {found.misfit:.3f} beyond noise: intervals "
            f"and probabilities are widened by as much": found.misfit > 0,
            f"the log cannot tell {self.family} from {' and '.join(as_good)}, which predict unseen runs as well: see "
            f"what the deal is under these too": bool(as_good),
            few: self.degrees < 1,
        }
        return tuple(note for note, applies in said.items() if applies)

    @property
    def _prior_shares(self) -> tuple[float, int]:
        """How many parameters rest on the prior, and of how many, those of tasks that were tested."""
        index, own = self.model.index, np.zeros(self.parameters.size, dtype=bool)
        kept, quality = index[self.observations.measured.any(axis=0)], index[:, 1 + self.model.n_lots : -3]
        own[kept[kept >= 0]] = True
        own[quality[quality >= 0]] = False
        rests = self.model.prior_information(self.parameters) * np.diag(self._covariance) / self.doubt
        return float(rests[own].sum()), int(own.sum())

    def predict(self, contributions: ArrayLike) -> FloatArray:
        """Fitted accuracies at contributions (n,) or (runs, n); of lots, (lots,) or (runs, lots)."""
        given = self._profiles(contributions)
        found = np.clip(self.model.predict(self.parameters, np.atleast_2d(given)), 0.0, 1.0)
        return found[0] if given.ndim == 1 else found

    def prediction_errors(self, contributions: ArrayLike) -> FloatArray:
        """Standard errors of the accuracy of a model trained at contributions (n,) or (runs, n), before any test.

        They hold what accuracies stray from the curves beyond the test sets': without repeats nobody can tell the noise
        of training from what the curves miss. Where the curves are no better than a plain rule, they hold what these
        got wrong on runs left out.
        """
        given = self._profiles(contributions)
        gradients = self.model.gradients(self.parameters, np.atleast_2d(given))
        judged = self.lack_of_fit
        strayed = max(self.unexplained, judged.error) if judged.is_clear else self.unexplained
        errors = np.hypot(np.linalg.norm(gradients @ self._root, axis=-1).T, strayed)
        return errors[0] if given.ndim == 1 else errors

    def _profiles(self, contributions: Any) -> FloatArray:
        """Contributions as an array, in the order of the lots where they are labelled."""
        put = align_columns if hasattr(contributions, "columns") else align
        return np.asarray(put("contributions", contributions, self.observations.lot_labels), dtype=np.float64)

    def parameter_draws(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, parameters): draws in the coordinates of the model."""
        noise = rng.standard_normal((count, self.parameters.size))
        if self.unexplained > 0:
            degrees = max(self.degrees, MIN_DEGREES)
            noise *= np.sqrt(degrees / rng.chisquare(degrees, (count, 1)))
        return np.clip(self.parameters + noise @ self._root.T, self.model.lower, self.model.upper)

    def federation(self, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> Federation:
        """The federation of the estimates.

        Costs and caps are as `Federation` takes them; they are not in the data. `worth` is what a unit of accuracy
        (from 0 to 1) is worth, a number or one per agent (task).
        """
        rates = checked_numbers("worth", worth, positive, POSITIVE, names=self.observations.task_labels)
        return Federation(
            self.weights,
            costs=costs,
            caps=caps,
            payoff=CURVE_FAMILIES[self.family](1.0 if self.beta is None else self.beta),  # type: ignore[call-arg]
            names=self.names,
            values=rates * self.values,
            **(self.observations.ownership._asdict() if self.observations.has_lots else {}),
        )

    def uncertainty(self, *, worth: ArrayLike = 1.0) -> Uncertainty:
        """The uncertainty of that federation, as a scenario carries it."""
        rates = checked_numbers("worth", worth, positive, POSITIVE, names=self.observations.task_labels)
        weights, curves = self._gradients
        n_tasks, values = len(weights), self.values
        n_shapes = 1 if "beta" in self.shared else n_tasks
        n_values = 1 if rates.ndim == 0 and {"floor", "ceiling"} <= set(self.shared) and not np.ptp(values) else n_tasks
        of_values = (curves[:, 2] - curves[:, 1]) / values[:, None]
        rows = np.concatenate([curves[:n_shapes, 0], of_values[:n_values], weights.reshape(-1, self.parameters.size)])
        strayed = rows @ self._root
        errors, inline = np.linalg.norm(strayed, axis=1), len(rows) <= MAX_INLINE
        if not inline:
            # A seed that nobody draws with: draws with the same numbers would go along with single columns.
            noise = np.random.default_rng([0, FACTOR_DRAWS]).standard_normal((self.parameters.size, FACTOR_DRAWS))
            strayed = strayed @ noise
        lengths = np.linalg.norm(strayed, axis=1, keepdims=True)
        factor = strayed / np.where(lengths > 0, lengths, 1.0)
        if self.unexplained > 0:
            degrees = max(self.degrees, MIN_DEGREES)
            errors = errors * np.sqrt(degrees / (degrees - 2.0))
        shape_errors, value_errors, weight_errors = np.split(errors, np.cumsum([n_shapes, n_values]))
        shapes, worths = np.exp(self._curves[:, 0]), np.broadcast_to(rates, n_tasks) * values
        sizes = np.hypot(self.units, self.weights)
        return Uncertainty(
            parameter=_rounded(shape_errors * shapes[:n_shapes], one="beta" in self.shared),
            values=_rounded(value_errors * worths[:n_values], one=n_values < n_tasks or n_tasks == 1),
            weights=_rounded(weight_errors.reshape(sizes.shape) * sizes),
            factor=np.round(factor, 6) if inline else factor.astype(np.float32),
            signs=self.signs,
        )

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

    def to_frame(self) -> Any:
        """A pandas frame of the fitted curves and weights, a row per task."""
        from fedpact.report.records import fit_frame  # noqa: PLC0415 - optional dependency

        return fit_frame(self)

    def plot(self, *, ax: Any = None) -> Any:
        """Measured against fitted, on `ax` or a new figure; needs matplotlib."""
        from fedpact.report.plots.results import plot_fit  # noqa: PLC0415 - optional dependency

        return plot_fit(self, ax=ax)

    def __repr__(self) -> str:
        seen = self.observations
        counts = (
            f"{count_text(seen.n_agents, 'agent')}, {seen.n_measured} accuracies of {count_text(seen.n_runs, 'run')}"
        )
        return f"Fit({self.family}, {counts}, rms {self.quality.rms:.3g})"


def inverse(matrix: FloatArray) -> FloatArray:
    """Of a positive definite matrix whose rows may be of very different sizes."""
    sizes = np.sqrt(np.diag(matrix))
    return np.asarray(np.linalg.inv(matrix / np.outer(sizes, sizes)) / np.outer(sizes, sizes))


def _rounded(errors: FloatArray, *, one: bool = False) -> FloatArray:
    """Four digits: a person reads them, and no estimate of an error is better than that; one number, or several."""
    found = np.array([float(f"{error:.4g}") for error in errors.ravel()]).reshape(errors.shape)
    return found[0] if one else found

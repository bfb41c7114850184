"""Models made of subsets of the members' updates: what they should score if members delivered certain shares.

Model t is aggregated from the updates of the members with Z_tj = 1, and member i measures

    accuracy_ti = floor_i + (ceiling_i - floor_i) g_i(sum_j w_ij rho_j s_j Z_tj) + error_ti,

s the agreed contributions and rho the shares of them that arrived. Errors have three sources, and all are estimated:
every measurement's own (a multiple of a (1 - a) / m, which is what m test samples leave), one that all measurements of
a model share (a lucky training), and one that all measurements of a member share (a floor that is a little off; or a
lucky test set, if it is the same for all models: what its samples leave less than they should to single measurements,
they leave to all of them). If the weights and curves were fitted, what their doubt does to the
predictions is a fourth. The covariance is a diagonal plus few columns, so it is inverted by Woodbury's identity, at
O(measurements x columns^2).

Shares are fitted by Gauss-Newton steps over 0 <= rho <= `MAX_DELIVERED_SHARE`, each a non-negative least squares
problem, damped until the sum of squares falls; they stop when the next step promises a fall of at most `MIN_PROMISE`,
in units of squared standard errors. The sizes of the errors are fitted by restricted maximum likelihood, in turn with
the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation, Payoff
from fedpact.fitting.delivery_misfit import CurveMisfit, curve_misfit, misfit_columns
from fedpact.fitting.noise import ASSUMED_NOISE, sampling_variances
from fedpact.fitting.observations import Observations
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MIN_PROMISE = 1e-7
MAX_DELIVERY_STEPS, MAX_TIGHTENINGS = 200, 40
FIRST_DAMPING, EASE, TIGHTEN = 1e-4, 0.1, 10.0
MIN_KEPT_PROMISE = 0.5  # of the fall that a step promises: less, and the next is shorter
GRAM_RIDGE = 1e-12  # of matrices with ones on the diagonal
MIN_ERROR_VARIANCE = 1e-8
DOMAIN_MARGIN = 1e-9  # by which data that harms stays within the curve's domain
UNKNOWN_TEST_SIZE = 300.0  # stands for sizes nobody knows; the errors' size is estimated anyway
FIRST_SIZES = (1.0, 0.01, 0.01)
SIZE_UNITS = np.array([1.0, 0.01, 0.01])  # in which the sizes are all about one
MIN_FIRST_SIZE, MAX_SIZE = 0.3, 50.0  # in these units
SIZE_CHANGE = 0.03  # in these units: smaller changes end the fit
MAX_PASSES = 6
MAX_DELIVERED_SHARE = 10.0  # of what was agreed: an estimate there, or an interval that reaches it, has no end above
MIN_DOUBT_SHARE = 0.01  # of the smallest error's variance, below which a direction of doubt is left out

Predict = Callable[[FloatArray], FloatArray]


class ErrorSizes(NamedTuple):
    """How large the errors are: `own`, in standard deviations that a test set leaves; the others in accuracy,
    `of_member` without the luck of the test sets.
    """

    own: float
    of_model: float
    of_member: float


class CovarianceChange(NamedTuple):
    """By how much a covariance's variances, and those of its columns that are `at` a place, grow with something."""

    variances: FloatArray
    at: slice
    columns: FloatArray


class Covariance:
    """diag(variances) + columns columns', inverted by Woodbury's identity."""

    def __init__(self, variances: FloatArray, columns: FloatArray) -> None:
        from scipy.linalg import cho_factor  # noqa: PLC0415 - takes a while to import

        self._variances, self._columns = np.maximum(variances, MIN_ERROR_VARIANCE), columns
        self._is_held = variances < MIN_ERROR_VARIANCE
        self._scaled = columns / self._variances[:, None]
        self._core = cho_factor(np.eye(columns.shape[1]) + columns.T @ self._scaled)

    @property
    def log_determinant(self) -> float:
        """log det C."""
        return float(np.log(self._variances).sum() + 2.0 * np.log(np.diag(self._core[0])).sum())

    def inner(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """left' C^-1 right."""
        from scipy.linalg import cho_solve  # noqa: PLC0415 - takes a while to import

        plain = left.T @ (right.T / self._variances).T
        return np.asarray(plain - (self._scaled.T @ left).T @ cho_solve(self._core, self._scaled.T @ right))

    def solve(self, right: FloatArray) -> FloatArray:
        """C^-1 right."""
        from scipy.linalg import cho_solve  # noqa: PLC0415 - takes a while to import

        return np.asarray((right.T / self._variances).T - self._scaled @ cho_solve(self._core, self._scaled.T @ right))

    @cached_property
    def _solved_columns(self) -> FloatArray:
        """C^-1 columns."""
        from scipy.linalg import cho_solve  # noqa: PLC0415 - takes a while to import

        return np.asarray(cho_solve(self._core, self._scaled.T).T)

    @cached_property
    def _own_inverse(self) -> FloatArray:
        """The diagonal of C^-1; none where a variance is held at the least there is, which does not change."""
        own = 1.0 / self._variances - (self._solved_columns * self._scaled).sum(axis=1)
        return np.asarray(np.where(self._is_held, 0.0, own))

    def log_determinant_change(self, change: CovarianceChange) -> float:
        """By how much log det C grows."""
        return float(
            self._own_inverse @ change.variances + 2.0 * (self._solved_columns[:, change.at] * change.columns).sum()
        )

    def form_change(self, solved: FloatArray, change: CovarianceChange) -> FloatArray:
        """solved' dC solved."""
        own = np.where(self._is_held, 0.0, change.variances)
        crossed = (self._columns[:, change.at].T @ solved).T @ (change.columns.T @ solved)
        return np.asarray(solved.T @ (solved.T * own).T + crossed + crossed.T)


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesFit:
    """Shares, the squared residuals they leave in units of their errors, and how large these are."""

    shares: FloatArray
    squares: float
    covariance: Covariance
    sizes: ErrorSizes


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetModels:
    """Models and their measured accuracies.

    Attributes
    ----------
    federation
        Its weights and payoff curves.
    seen
        A run per model; contributions are what members of its subset agreed to.
    floors, ceilings
        (n,): of the accuracies.
    doubt
        Predictions (draws, models, agents) for given shares under the weights and curves that a fit leaves possible;
        None if they are known.
    misfit_sizes
        By how much floors, ceilings and shape are taken to be off; None if they are known.
    """

    federation: Federation
    seen: Observations
    floors: FloatArray
    ceilings: FloatArray
    doubt: Predict | None = None
    misfit_sizes: tuple[float, float, float] | None = None

    @cached_property
    def places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Model and member of every measurement."""
        models, members = np.nonzero(self.seen.measured)
        return models, members

    @cached_property
    def identified(self) -> NDArray[np.bool_]:
        """Members whose data reaches somebody who answered, in some model."""
        given = (self.seen.contributions > 0)[self.places[0]]
        useful = (self._weights != 0)[self.places[1]]
        return np.asarray((given & useful).any(axis=0))

    @cached_property
    def _weights(self) -> FloatArray:
        return self.federation.dense_weights()

    @cached_property
    def _indicators(self) -> tuple[FloatArray, FloatArray]:
        """(measurements, models) and (measurements, members): which model and member each belongs to."""
        models, members = self.places
        counted = np.arange(self.seen.n_runs), np.arange(self.seen.n_agents)
        return (models[:, None] == counted[0]).astype(float), (members[:, None] == counted[1]).astype(float)

    @property
    def member_indicators(self) -> FloatArray:
        """(measurements, members): whose measurement each is."""
        return self._indicators[1]

    @cached_property
    def _has_test_sizes(self) -> bool:
        return self.seen.known_test_sizes() is not None

    @cached_property
    def _test_sizes(self) -> FloatArray:
        sizes = self.seen.known_test_sizes()
        return np.full(self.seen.accuracies.shape, UNKNOWN_TEST_SIZE) if sizes is None else sizes

    def without_reports_of(self, members: Sequence[int]) -> SubsetModels:
        """The same models, with what these members measured left out; whether the curves fit is judged without them."""
        accuracies = self.seen.accuracies.copy()
        accuracies[:, list(members)] = np.nan
        return SubsetModels(
            federation=self.federation,
            seen=self.seen.with_accuracies(accuracies),
            floors=self.floors,
            ceilings=self.ceilings,
            doubt=self.doubt,
        )

    def predicted(self, shares: FloatArray) -> FloatArray:
        """(models, agents): accuracies to be expected; harm makes none negative."""
        return np.asarray(np.clip(self.floors + (self.ceilings - self.floors) * self.curves(shares), 0.0, 1.0))

    def curves(self, shares: FloatArray, payoff: Payoff | None = None) -> FloatArray:
        """(models, agents): how far up its curve each model takes each agent, by the federation's payoff or another."""
        return np.asarray((payoff or self.federation.payoff).value(self._data(shares)))

    def _data(self, shares: FloatArray) -> FloatArray:
        reached = (self.seen.contributions * shares) @ self._weights.T
        return np.asarray(np.maximum(reached, lowest_data(self.federation)))

    def residuals(self, shares: FloatArray) -> FloatArray:
        """(measurements,): measured less expected."""
        return np.asarray((self.seen.accuracies - self.predicted(shares))[self.places])

    def slopes(self, shares: FloatArray) -> FloatArray:
        """(measurements, n): by which the predictions grow with each share."""
        models, members = self.places
        steep = (self.ceilings - self.floors) * self.federation.payoff.slope(self._data(shares))
        expected = self.predicted(shares)
        steep = np.where((expected > 0.0) & (expected < 1.0), steep, 0.0)
        return np.asarray(steep[self.places][:, None] * self._weights[members] * self.seen.contributions[models])

    def covariance(self, shares: FloatArray, sizes: ErrorSizes) -> Covariance:
        """Of the measurements, if these shares and sizes of errors are true."""
        return self._covariance_of(self._error_parts(shares), sizes)

    def _error_parts(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The test sets' variances, and the columns of doubt."""
        sampling = sampling_variances(self.predicted(shares), self._test_sizes)[self.places]
        columns = [np.empty((sampling.size, 0))]
        if self.doubt is not None:
            columns.append(self._doubt_columns(shares, float(sampling.min())))
        if self.misfit_sizes is not None:
            bends, kinds = misfit_columns(self, shares)
            columns.append(bends * np.array(self.misfit_sizes)[kinds])
        return sampling, np.hstack(columns)

    def _covariance_of(self, parts: tuple[FloatArray, FloatArray], sizes: ErrorSizes) -> Covariance:
        members = self._member_errors(parts[0], sizes)[:, None] * self.member_indicators
        columns = np.hstack([sizes.of_model * self._indicators[0], members, parts[1]])
        return Covariance(sizes.own**2 * parts[0], columns)

    def _member_errors(self, sampling: FloatArray, sizes: ErrorSizes) -> FloatArray:
        """(measurements,): what all measurements of a member share, as a standard deviation."""
        luck = max(1.0 - sizes.own**2, 0.0) * sampling if self._has_test_sizes else 0.0
        return np.asarray(np.sqrt(luck + sizes.of_member**2 * np.ones_like(sampling)))

    def _covariance_changes(
        self, parts: tuple[FloatArray, FloatArray], sizes: ErrorSizes
    ) -> Sequence[CovarianceChange]:
        """How the covariance grows with each of the sizes."""
        sampling, (of_model, of_member) = parts[0], self._indicators
        shared = np.maximum(self._member_errors(sampling, sizes), np.finfo(float).tiny)
        is_luck = self._has_test_sizes and sizes.own < 1.0
        by_own = -sizes.own * sampling / shared if is_luck else np.zeros_like(sampling)
        none, models = np.zeros_like(sampling), slice(0, of_model.shape[1])
        members = slice(models.stop, models.stop + of_member.shape[1])
        return [
            CovarianceChange(2.0 * sizes.own * sampling, members, by_own[:, None] * of_member),
            CovarianceChange(none, models, of_model),
            CovarianceChange(none, members, (sizes.of_member / shared)[:, None] * of_member),
        ]

    def _doubt_columns(self, shares: FloatArray, variance: float) -> FloatArray:
        """Columns A with A A' the covariance of the predictions that doubt about the weights makes."""
        assert self.doubt is not None
        drawn = self.doubt(shares)[:, *self.places]
        strayed = (drawn - self.predicted(shares)[self.places]) / np.sqrt(len(drawn))
        vectors, lengths, _ = np.linalg.svd(strayed.T, full_matrices=False)
        kept = lengths**2 > MIN_DOUBT_SHARE * variance
        return np.asarray(vectors[:, kept] * lengths[kept])

    def fit_robustly(self) -> tuple[SubsetModels, SharesFit, CurveMisfit]:
        """Shares, and whether the curves fit; if not, by models that do not rely on them."""
        found = self.fit()
        missed = curve_misfit(self, found)
        if not missed.is_clear:
            return self, found, missed
        doubtful = replace(self, misfit_sizes=missed.doubts)
        return doubtful, doubtful.fit(), missed

    def fit(self) -> SharesFit:
        """Shares and sizes of errors in turn, from ordinary least squares, until the sizes settle."""
        free, sizes = self.identified, ErrorSizes(*FIRST_SIZES)
        alike = Covariance(np.full(self.places[0].size, ASSUMED_NOISE**2), np.empty((self.places[0].size, 0)))
        shares, _ = self.minimise(alike, np.ones(self.seen.n_agents), free)
        for _ in range(MAX_PASSES):
            shares, _ = self.minimise(self.covariance(shares, sizes), shares, free)
            before, sizes = sizes, self._likely_sizes(shares, sizes)
            if np.abs(_numbers(before) - _numbers(sizes)).max() <= SIZE_CHANGE:
                break
        covariance = self.covariance(shares, sizes)
        shares, squares = self.minimise(covariance, shares, free)
        return SharesFit(shares=shares, squares=squares, covariance=covariance, sizes=sizes)

    def standard_errors(self, found: SharesFit) -> FloatArray:
        """(n,): of the shares, as far as curves are straight; infinite where nothing is known."""
        free = self.identified
        slopes = self.slopes(found.shares)[:, free]
        gram = found.covariance.inner(slopes, slopes)
        lengths = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
        spread = (vectors**2 / np.maximum(values, GRAM_RIDGE)).sum(axis=1)
        errors = np.full(self.seen.n_agents, np.inf)
        errors[free] = np.sqrt(spread) / lengths
        return errors

    def minimise(self, covariance: Covariance, start: FloatArray, free: NDArray[np.bool_]) -> tuple[FloatArray, float]:
        """The shares of least squares, those that are not free held where they start, and these squares."""
        shares, damping = start, FIRST_DAMPING
        residuals = self.residuals(shares)
        squares = float(covariance.inner(residuals, residuals))
        for _ in range(MAX_DELIVERY_STEPS if free.any() else 0):
            slopes = self.slopes(shares)[:, free]
            step = _Step(covariance.inner(slopes, slopes), covariance.inner(slopes, residuals), shares[free])
            for _ in range(MAX_TIGHTENINGS):
                trial = shares.copy()
                trial[free], promise = step.damped(damping)  # at most MAX_DELIVERED_SHARE
                if promise <= MIN_PROMISE:
                    return shares, squares
                left = self.residuals(trial)
                remaining = float(covariance.inner(left, left))
                if remaining < squares:
                    break
                damping *= TIGHTEN
            else:
                return shares, squares  # rounding: no damping makes them fall any more
            damping *= EASE if squares - remaining > MIN_KEPT_PROMISE * promise else TIGHTEN
            shares, residuals, squares = trial, left, remaining
        if not free.any():
            return shares, squares
        raise NotConverged(f"the delivered shares did not settle within {MAX_DELIVERY_STEPS} steps", result=shares)

    def _likely_sizes(self, shares: FloatArray, start: ErrorSizes) -> ErrorSizes:
        """Sizes of errors of largest restricted likelihood."""
        from scipy.optimize import minimize  # noqa: PLC0415 - takes a while to import

        residuals, slopes = self.residuals(shares), self.slopes(shares)[:, self.identified]
        parts = self._error_parts(shares)

        def unlikely(numbers: FloatArray) -> tuple[float, FloatArray]:
            sizes = ErrorSizes(*(numbers * SIZE_UNITS))
            covariance = self._covariance_of(parts, sizes)
            solved = covariance.solve(np.column_stack([slopes, residuals]))
            gram, squares = slopes.T @ solved[:, :-1], float(residuals @ solved[:, -1])
            gram = gram + np.diag(GRAM_RIDGE * np.maximum(np.diag(gram), MIN_ERROR_VARIANCE))
            value = covariance.log_determinant + squares + float(np.linalg.slogdet(gram)[1])
            changes = []
            for change in self._covariance_changes(parts, sizes):
                forms = covariance.form_change(solved, change)
                of_gram = float(np.trace(np.linalg.solve(gram, forms[:-1, :-1]))) if len(gram) else 0.0
                changes.append(covariance.log_determinant_change(change) - forms[-1, -1] - of_gram)
            return value, np.array(changes) * SIZE_UNITS

        first = np.maximum(_numbers(start), MIN_FIRST_SIZE)
        found = minimize(unlikely, first, jac=True, method="L-BFGS-B", bounds=[(0.0, MAX_SIZE)] * 3)
        return ErrorSizes(*(found.x * SIZE_UNITS))


class _Step:
    """A Gauss-Newton step over shares from zero to `MAX_DELIVERED_SHARE`."""

    def __init__(self, gram: FloatArray, pull: FloatArray, shares: FloatArray) -> None:
        self._lengths = np.sqrt(np.maximum(np.diag(gram), MIN_ERROR_VARIANCE))
        self._gram = gram / np.outer(self._lengths, self._lengths)
        self._pull, self._start = pull / self._lengths, shares * self._lengths

    def damped(self, damping: float) -> tuple[FloatArray, float]:
        """The shares it leads to, and by how much the squares should fall."""
        from scipy.optimize import nnls  # noqa: PLC0415 - takes a while to import

        matrix = self._gram + (damping + GRAM_RIDGE) * np.eye(len(self._start))
        wanted, most = self._pull + matrix @ self._start, MAX_DELIVERED_SHARE * self._lengths
        end, inside = most.copy(), np.ones(len(most), dtype=bool)
        while inside.any():  # who would go beyond the bound is held there
            root = np.linalg.cholesky(matrix[np.ix_(inside, inside)])
            due = wanted[inside] - matrix[np.ix_(inside, ~inside)] @ most[~inside]
            end[inside], _ = nnls(root.T, np.linalg.solve(root, due))
            beyond = inside & (end > most)
            if not beyond.any():
                break
            inside &= ~beyond
            end[beyond] = most[beyond]
        step = end - self._start
        promise = 2.0 * float(self._pull @ step) - float(step @ self._gram @ step)
        return end / self._lengths, promise


def lowest_data(federation: Federation) -> FloatArray:
    """Weighted data so harmful that payoffs are hardly defined: what is worse counts as this, and fits nothing."""
    return np.asarray(federation.payoff.floor) * (1.0 - DOMAIN_MARGIN)


def _numbers(sizes: ErrorSizes) -> FloatArray:
    return np.asarray(np.array(sizes) / SIZE_UNITS)

"""Models made of subsets of the members' updates: what they should score if members delivered certain shares.

Model t is aggregated from the updates of the members with Z_tj = 1, and member i measures

    accuracy_ti = floor_i + (ceiling_i - floor_i) g_i(sum_j w_ij rho_j s_j Z_tj) + error_ti,

s the agreed contributions and rho the shares of them that arrived. What else is not known exactly is estimated along
with the shares, each number held to what is known of it by its standard error: floors, ceilings, the parameter of g
(its logarithm), and, where they were fitted, the weights. So all of it is one least squares problem,

    minimise |L (accuracies - predictions(rho, theta))|^2 + |R (theta - theta_0)|^2     over 0 <= rho <= MAX_SHARE,

R' R the inverse covariance of theta, L' L that of the errors. These have three parts: each measurement's own, a
multiple of what m test samples leave, a (1 - a) / m; one that all measurements of a model share (a lucky training);
and, where there are earlier models, one that all models of a subset share at one member: curves do not fit exactly, and
a subset that scores better than its curve did so earlier too. So a subset that is measured again says most. The sizes
of the three maximise the restricted likelihood, in turn with the shares. The luck of a test set that all models have in
common is a floor and a ceiling that are off.

Whether the weights and curves fit is tested by how far the squares fall if more of them is free (F test, linear in the
parameters). Models of earlier rounds or runs, if there are any, are the first of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from fedpact.federation import Payoff
from fedpact.fitting.lack_of_fit import minimise_squares, sampling_variances
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged

MAX_SHARE = 5.0  # of what was agreed: an estimate there says that there is no end above
MAX_PAID_ERROR = 1.0  # a share whose standard error is larger is no ground to pay by
UNKNOWN_TEST_SIZE = 300.0  # stands for sizes nobody knows; the errors' size is estimated anyway
SIZE_BOUNDS = ((-3.0, 3.0), (0.0, 30.0), (0.0, 30.0))  # of the logarithm of `own`; the others in hundredths
N_PASSES = 3
DOMAIN_MARGIN = 1e-9  # by which data that harms stays within the curve's domain
PARAMETER_STEP = 1e-4
RANK_TOLERANCE, MIN_FREEDOM = 1e-7, 0.02
RIDGE = 1e-6  # of shares that nothing is known of: a standard error of a thousand
MAX_STEPS = 300


class Curves(NamedTuple):
    """What accuracies follow from: theta of the module's docstring."""

    weights: FloatArray
    floors: FloatArray
    ceilings: FloatArray
    payoff: Payoff


class ErrorSizes(NamedTuple):
    """How large errors are: `own` as a multiple of what a test set leaves, the others in accuracy."""

    own: float
    of_model: float
    of_subset: float


class Errors(NamedTuple):
    """L, block by block: models of one subset are a block, blocks of as many models stand together.

    `models` has (blocks, models of each), `roots` (blocks, rows, rows) the inverse Cholesky factors of their
    covariances, and `log_determinant` is that of all covariances.
    """

    models: list[NDArray[np.intp]]
    roots: list[FloatArray]
    log_determinant: float

    def whiten(self, columns: FloatArray) -> FloatArray:
        """L columns: (models, n, any) in units of errors, as (models n, any), block after block."""
        parts = []
        for chosen, roots in zip(self.models, self.roots, strict=True):
            block = columns[chosen].reshape(len(chosen), -1, columns.shape[2])
            parts.append((roots @ block).reshape(-1, columns.shape[2]))
        return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesFit:
    """Shares and theta less theta_0 that minimise the squares, the squares, and how large errors are."""

    shares: FloatArray
    change: FloatArray
    squares: float
    sizes: ErrorSizes
    errors: Errors


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetModels:
    """Models and their measured accuracies."""

    curves: Curves  # The values expected before anything was measured
    # (models, n): what the members of the subset agreed to; what was measured, NaN if missing; on how much
    given: FloatArray
    accuracies: FloatArray
    test_sizes: FloatArray
    # (k, k): R of the module's docstring, over floors, ceilings and the logarithm of the payoff's parameter, and the
    # weights, row by row, if it has as many columns
    precision: FloatArray
    n_earlier: int = 0  # So many models, the first, are of earlier rounds or runs, in which everybody delivered all

    @property
    def n_agents(self) -> int:
        """How many members there are."""
        return self.given.shape[1]

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """(models, n): where an accuracy is known."""
        return np.isfinite(self.accuracies)

    @cached_property
    def identified(self) -> NDArray[np.bool_]:
        """Members whose data reaches somebody who answered, in some model."""
        reached = (self.measured & self._is_judged).T.astype(float) @ (self.given > 0)
        useful = (self.curves.weights != 0) | (self.n_earlier > 0)
        return np.asarray((useful & (reached > 0)).any(axis=0))

    @cached_property
    def _is_judged(self) -> NDArray[np.bool_]:
        """(models, 1): whether a model is made of what is judged."""
        return np.arange(len(self.given))[:, None] >= self.n_earlier

    def without_reports_of(self, members: Sequence[int]) -> SubsetModels:
        """These models without what the members measured."""
        hidden = np.isin(np.arange(self.n_agents), members)
        return replace(self, accuracies=np.where(hidden, np.nan, self.accuracies))

    def without_updates_of(self, members: Sequence[int]) -> SubsetModels:
        """These models without those, of what is judged, that are made of the members' updates."""
        made = (self.given[:, list(members)] > 0.0).any(axis=1, keepdims=True) & self._is_judged
        return replace(self, accuracies=np.where(made, np.nan, self.accuracies))

    def predict(
        self, shares: FloatArray, change: FloatArray, *, by_theta: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Expected accuracies (models, n), and their derivatives (models, n, parameters) by shares and theta."""
        n = self.n_agents
        floors, ceilings = self.curves.floors + change[:n], self.curves.ceilings + change[n : 2 * n]
        payoff = _scale_parameter(self.curves.payoff, float(change[2 * n]))
        weights, arrived = self.curves.weights, self.given * np.where(self._is_judged, shares, 1.0)
        data = arrived @ weights.T
        # Were the doubt of weights that only these models tell of multiplied by the shares, large shares of small
        # weights would explain any accuracies at little cost.
        doubted, doubts_weights = arrived if self.n_earlier else self.given, change.size > 2 * n + 1
        if doubts_weights:
            by = change[2 * n + 1 :].reshape(n, n)
            data = data + doubted @ by.T
            weights = weights + by if self.n_earlier else weights
        data = np.maximum(data, np.asarray(payoff.floor) * (1.0 - DOMAIN_MARGIN))
        curve, span = payoff.value(data), ceilings - floors
        expected = floors + span * curve
        inside = (expected > 0.0) & (expected < 1.0)
        steep = np.where(inside, span * payoff.slope(data), 0.0)
        parts = [steep[:, :, None] * weights * (self.given * self._is_judged)[:, None, :]]
        if by_theta:
            by_parameter = span * (_scale_parameter(payoff, PARAMETER_STEP).value(data) - curve) / PARAMETER_STEP
            parts.append((inside * (1.0 - curve))[:, :, None] * np.eye(n))
            parts.append((inside * curve)[:, :, None] * np.eye(n))
            parts.append((inside * by_parameter)[:, :, None])
        if by_theta and doubts_weights:
            by_weights = steep[:, :, None, None] * np.eye(n)[:, :, None] * doubted[:, None, None, :]
            parts.append(by_weights.reshape(*steep.shape, n * n))
        return np.clip(expected, 0.0, 1.0), np.concatenate(parts, axis=2)

    def fit(self) -> SharesFit:
        """Shares and sizes of errors in turn; members of whom nothing is known deliver all."""
        change, sizes = np.zeros(len(self.precision)), ErrorSizes(1.0, 0.01, 0.01 if self.n_earlier else 0.0)
        shares, free, count = np.ones(self.n_agents), self.identified, int(self.identified.sum())
        lower = np.concatenate([np.zeros(count), np.full(change.size, -np.inf)])
        upper = np.concatenate([np.full(count, MAX_SHARE), np.full(change.size, np.inf)])

        def split(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
            tried = np.ones(self.n_agents)
            tried[free] = numbers[:count]
            return tried, numbers[count:]

        for step in range(N_PASSES):
            variances = self._variances(shares, change)
            if step:
                sizes = self._likely_sizes(shares, change, sizes, variances)
            errors = self._errors(sizes, variances)
            found = minimise_squares(
                lambda numbers: self._problem(self._columns(*split(numbers)), split(numbers)[1], errors),  # noqa: B023
                np.concatenate([shares[free], change]),
                lower,
                upper,
                max_steps=MAX_STEPS,
            )
            if found.status == 0:
                raise NotConverged(f"the delivered shares did not converge in {MAX_STEPS} steps", result=found.x)
            shares, change = split(found.x)
        return SharesFit(shares=shares, change=change, squares=2.0 * float(found.cost), sizes=sizes, errors=errors)

    def leave_out_shares(self, wanted: NDArray[np.bool_]) -> FloatArray:
        """(n, n): the share of the column's member without the reports of the row's and its own, where it is wanted."""
        shares = np.full((self.n_agents, self.n_agents), np.nan)
        for one, other in combinations(range(self.n_agents), 2):
            left = self.without_reports_of([one, other])
            known = [m for m in (one, other) if left.identified[m] and wanted[one + other - m, m]]
            if not known:
                continue
            try:
                found = left.fit()
            except NotConverged:  # reports without sense say nothing
                continue
            errors = np.full(self.n_agents, np.inf)
            errors[left.identified] = np.sqrt(left.share_covariances(found)[0].diagonal())
            for member in known:
                if errors[member] <= MAX_PAID_ERROR and found.shares[member] < MAX_SHARE:
                    shares[one + other - member, member] = found.shares[member]
        return read_only_copy(shares)

    def share_covariances(self, found: SharesFit) -> tuple[FloatArray, FloatArray]:
        """Of the identified members' shares: by the likelihood, and clustered by subset (by model if none is earlier).

        The latter needs no assumption on how errors of one cluster hang together (residuals over the root of one less
        their leverage: CR2 of Bell and McCaffrey, 2002).
        """
        count, first = int(self.identified.sum()), 0
        columns = self._columns(found.shares, found.change)
        residuals, derivatives = self._problem(columns, found.change, found.errors)
        covariance = np.linalg.inv(derivatives.T @ derivatives + RIDGE * np.eye(derivatives.shape[1]))
        clustered = np.zeros((count, count))
        for chosen in found.errors.models:
            shape = len(chosen), chosen.shape[1] * self.n_agents
            rows = slice(first, first := first + shape[0] * shape[1])
            by_block, left = derivatives[rows].reshape(*shape, -1), residuals[rows].reshape(shape)
            leverage = by_block @ covariance @ by_block.transpose(0, 2, 1)
            values, vectors = np.linalg.eigh(np.eye(shape[1]) - leverage)
            parts = np.einsum("bij,bi->bj", vectors, left) / np.sqrt(np.maximum(values, MIN_FREEDOM))
            steps = np.einsum("cp,bip,bij,bj->bc", covariance[:count], by_block, vectors, parts, optimize=True)
            clustered += steps.T @ steps
        return np.asarray(covariance[:count, :count], dtype=np.float64), clustered

    def excess_of(self, member: int, found: SharesFit) -> float:
        """By how much judged models made of the member's updates score more than a fit expects: a weighted sum over all
        measurements, whose sign says whether that is more or less.
        """
        expected = self.predict(found.shares, found.change, by_theta=False)[0]
        made = (self.given > 0.0)[:, member, None] & self._is_judged
        columns = np.stack([self.accuracies - expected, np.broadcast_to(made, expected.shape)], axis=2)
        errors = self._errors(found.sizes, self._variances(found.shares, found.change))
        return float(errors.whiten(np.where(self.measured[:, :, None], columns, 0.0)).prod(axis=1).sum())

    def misfit_p_value(self, found: SharesFit) -> float:
        """How likely accuracies so far from the predictions are if weights and curves are right.

        Without earlier models: by how far the squares fall if every weight, floor, ceiling and the parameter is free.
        With: if floors, ceilings, the parameter and what own data is worth differ now. NaN if there are too few models
        to tell.
        """
        n = self.n_agents
        change = np.zeros(2 * n + 1 + n**2)
        change[: found.change.size] = found.change
        models = replace(self, precision=np.zeros((0, change.size)))
        expected, derivatives = models.predict(found.shares, change)
        by_shares, by_theta = derivatives[:, :, :n][:, :, self.identified], derivatives[:, :, n:]
        base, tried = by_shares, by_theta
        if self.n_earlier:
            now, own = by_theta * self._is_judged[:, :, None], 2 * n + 1 + np.arange(n) * (n + 1)
            base, tried = np.concatenate([by_theta, by_shares], axis=2), now[:, :, [*range(2 * n + 1), *own]]
        columns = np.concatenate([(expected - self.accuracies)[:, :, None], base, tried], axis=2)
        whitened = found.errors.whiten(np.where(self.measured[:, :, None], columns, 0.0))
        squares, rank = _remaining(whitened[:, 0], whitened[:, 1 : 1 + base.shape[2]])
        remaining, full = _remaining(whitened[:, 0], whitened[:, 1:])
        n_models = int(self.measured.any(axis=1).sum())  # each has a common error, which is estimated too
        restrictions, degrees = full - rank, int(self.measured.sum()) - n_models - full
        if degrees < 1 or restrictions < 1:
            return np.nan
        if not self.n_earlier:
            squares = found.squares  # shares at a bound, and theta held to what is known of it
        scale = max(remaining, np.finfo(float).tiny) / (degrees + n_models)
        return float(fdtrc(restrictions, degrees, max(squares - remaining, 0.0) / restrictions / scale))

    def _variances(self, shares: FloatArray, change: FloatArray) -> FloatArray:
        """(models, n): what test sets leave."""
        expected = self.predict(shares, change, by_theta=False)[0]
        sizes = np.where(np.isfinite(self.test_sizes), self.test_sizes, UNKNOWN_TEST_SIZE)
        return sampling_variances(expected, sizes)

    @cached_property
    def _blocks(self) -> list[NDArray[np.intp]]:
        """The models of each subset, subsets with as many models together; (subsets, models) each.

        Without earlier models a model stands by itself: of few members there would be few clusters.
        """
        if not self.n_earlier:
            return [np.arange(len(self.given))[:, None]]
        _, subset = np.unique(self.given > 0.0, axis=0, return_inverse=True)
        groups = [np.flatnonzero(subset.ravel() == number) for number in range(int(subset.max()) + 1)]
        counts = sorted({len(group) for group in groups})
        return [np.array([group for group in groups if len(group) == count]) for count in counts]

    def _errors(self, sizes: ErrorSizes, variances: FloatArray) -> Errors:
        """L for errors of these sizes; what was not measured stands by itself."""
        roots, log_determinant = [], 0.0
        for chosen in self._blocks:
            count, rows = chosen.shape[1], chosen.shape[1] * self.n_agents
            common = sizes.of_model**2 * np.kron(np.eye(count), np.ones((self.n_agents, self.n_agents)))
            common += sizes.of_subset**2 * np.kron(np.ones((count, count)), np.eye(self.n_agents))
            known = self.measured[chosen].reshape(-1, rows)
            own = np.where(known, sizes.own**2 * variances[chosen].reshape(-1, rows), 1.0)
            covariances = common * (known[:, :, None] & known[:, None, :]) + own[:, :, None] * np.eye(rows)
            factors = np.linalg.cholesky(covariances)
            log_determinant += 2.0 * float(np.log(np.diagonal(factors, axis1=1, axis2=2)).sum())
            roots.append(np.linalg.inv(factors))
        return Errors(self._blocks, roots, log_determinant)

    def _columns(self, shares: FloatArray, change: FloatArray) -> FloatArray:
        """(models, n, 1 + parameters): predictions less accuracies, and their derivatives by known shares and theta."""
        expected, derivatives = self.predict(shares, change)
        chosen = np.concatenate([self.identified, np.ones(change.size, dtype=bool)])
        columns = np.concatenate([(expected - self.accuracies)[:, :, None], derivatives[:, :, chosen]], axis=2)
        return np.where(self.measured[:, :, None], columns, 0.0)

    def _problem(self, columns: FloatArray, change: FloatArray, errors: Errors) -> tuple[FloatArray, FloatArray]:
        """Residuals in units of their errors, those of theta last; and their derivatives by known shares and theta."""
        whitened = errors.whiten(columns)
        held = np.hstack([np.zeros((len(self.precision), int(self.identified.sum()))), self.precision])
        return np.concatenate([whitened[:, 0], self.precision @ change]), np.vstack([whitened[:, 1:], held])

    def _likely_sizes(
        self, shares: FloatArray, change: FloatArray, start: ErrorSizes, variances: FloatArray
    ) -> ErrorSizes:
        """Sizes of errors of largest restricted likelihood."""
        from scipy.optimize import minimize  # noqa: PLC0415 - takes a while to import

        columns = self._columns(shares, change)

        def sizes_of(numbers: FloatArray) -> ErrorSizes:
            return ErrorSizes(float(np.exp(numbers[0])), *(0.01 * numbers[1:]).tolist())

        def unlikely(numbers: FloatArray) -> float:
            errors = self._errors(sizes_of(numbers), variances)
            residuals, derivatives = self._problem(columns, change, errors)
            gram = derivatives.T @ derivatives + RIDGE * np.eye(derivatives.shape[1])
            return float(errors.log_determinant + np.linalg.slogdet(gram)[1] + residuals @ residuals)

        first = np.array([np.log(start.own), *(max(100.0 * size, 0.3) for size in start[1:])])
        bounds = SIZE_BOUNDS if self.n_earlier else (*SIZE_BOUNDS[:2], (0.0, 0.0))
        found = minimize(unlikely, first, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-6})
        return sizes_of(found.x)


def _remaining(left: FloatArray, columns: FloatArray) -> tuple[float, int]:
    """The squares that columns do not explain, and their rank."""
    lengths = np.linalg.norm(columns, axis=0)
    gram = (columns / np.where(lengths > 0.0, lengths, 1.0)).T
    values, vectors = np.linalg.eigh(gram @ gram.T)
    kept = values > RANK_TOLERANCE * values.max(initial=0.0)
    explained = ((vectors[:, kept].T @ (gram @ left)) ** 2 / values[kept]).sum()
    return float(left @ left - explained), int(kept.sum())


def _scale_parameter(payoff: Payoff, step: float) -> Payoff:
    """The payoff with its parameter, if it has one, times e to the step."""
    return type(payoff)(**{name: number * np.exp(step) for name, number in payoff.parameters.items()})

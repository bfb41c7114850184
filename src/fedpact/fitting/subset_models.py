"""Models made of subsets of the members' updates: what they should score if members delivered certain shares.

Model t is aggregated from the updates of the members with Z_tj = 1, and member i measures

    accuracy_ti = floor_i + (ceiling_i - floor_i) g_i(sum_j w_ij rho_j s_j Z_tj) + error_ti,

s the agreed contributions and rho the shares of them that arrived. What else is not known exactly is estimated along
with the shares, each number held to what is known of it by its standard error: floors, ceilings, the parameter of g
(its logarithm), and, where they were fitted, the weights. So all of it is one least squares problem,

    minimise |L (accuracies - predictions(rho, theta))|^2 + |R (theta - theta_0)|^2     over 0 <= rho <= MAX_SHARE,

R' R the inverse covariance of theta, L' L that of the errors. These have two parts: each measurement's own, a multiple
of what m test samples leave, a (1 - a) / m; and one that all measurements of a model share (a lucky training). Their
sizes maximise the restricted likelihood, in turn with the shares. The luck of a test set that all models have in common
is a floor and a ceiling that are off.

Whether the weights and curves fit is tested by how far the squares fall if every weight, floor and ceiling is free:
weights of another training procedure do not fit, whatever the shares (F test, linear in the parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc

from fedpact.federation import Payoff
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MAX_SHARE = 5.0  # of what was agreed: an estimate there says that there is no end above
UNKNOWN_TEST_SIZE = 300.0  # stands for sizes nobody knows; the errors' size is estimated anyway
SIZE_BOUNDS = ((-3.0, 3.0), (0.0, 30.0))  # of the logarithm of `own`, and of `of_model` in hundredths
N_PASSES = 3
DOMAIN_MARGIN = 1e-9  # by which data that harms stays within the curve's domain
PARAMETER_STEP = 1e-4
RANK_TOLERANCE, MIN_FREEDOM = 1e-7, 0.02
RIDGE = 1e-6  # of shares that nothing is known of: a standard error of a thousand
N_EXCHANGES = 99
SHARE_TOLERANCE, PROFILE_TOLERANCE = 1e-7, 1e-4


class Curves(NamedTuple):
    """What accuracies follow from: theta of the module's docstring."""

    weights: FloatArray
    floors: FloatArray
    ceilings: FloatArray
    payoff: Payoff


class ErrorSizes(NamedTuple):
    """How large errors are: `own` as a multiple of what a test set leaves, `of_model` in accuracy."""

    own: float
    of_model: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesFit:
    """Shares and theta less theta_0 that minimise the squares, the squares, and how large errors are."""

    shares: FloatArray
    change: FloatArray
    squares: float
    sizes: ErrorSizes
    variances: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SubsetModels:
    """Models and their measured accuracies.

    Attributes
    ----------
    curves
        The values expected before anything was measured.
    given, accuracies, test_sizes
        (models, n): what the members of the subset agreed to; what was measured, NaN if missing; on how much.
    precision
        (k, k): R of the module's docstring, over floors, ceilings and the logarithm of the payoff's parameter, and
        the weights, row by row, if it has as many columns.
    n_earlier
        So many models, the first, are of earlier rounds or runs, in which everybody delivered all.
    """

    curves: Curves
    given: FloatArray
    accuracies: FloatArray
    test_sizes: FloatArray
    precision: FloatArray
    n_earlier: int = 0

    @property
    def n_models(self) -> int:
        """How many models there are."""
        return len(self.given)

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
        return np.arange(self.n_models)[:, None] >= self.n_earlier

    @property
    def _doubts_weights(self) -> bool:
        return len(self.precision) > 2 * self.n_agents + 1

    def without_reports_of(self, members: Sequence[int]) -> SubsetModels:
        """These models without what the members measured."""
        accuracies = self.accuracies.copy()
        accuracies[:, list(members)] = np.nan
        return replace(self, accuracies=accuracies)

    def predict(
        self, shares: FloatArray, change: FloatArray, *, by_theta: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Expected accuracies (models, n), and their derivatives (models, n, parameters) by shares and theta."""
        n = self.n_agents
        floors, ceilings = self.curves.floors + change[:n], self.curves.ceilings + change[n : 2 * n]
        payoff = _bent(self.curves.payoff, float(change[2 * n]))
        weights, arrived = self.curves.weights, self.given * np.where(self._is_judged, shares, 1.0)
        data = arrived @ weights.T
        # Were the doubt of weights that only these models tell of multiplied by the shares, large shares of small
        # weights would explain any accuracies at little cost.
        doubted = arrived if self.n_earlier else self.given
        if self._doubts_weights:
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
            by_parameter = span * (_bent(payoff, PARAMETER_STEP).value(data) - curve) / PARAMETER_STEP
            parts.append((inside * (1.0 - curve))[:, :, None] * np.eye(n))
            parts.append((inside * curve)[:, :, None] * np.eye(n))
            parts.append((inside * by_parameter)[:, :, None])
        if by_theta and self._doubts_weights:
            by_weights = steep[:, :, None, None] * np.eye(n)[:, :, None] * doubted[:, None, None, :]
            parts.append(by_weights.reshape(*steep.shape, n * n))
        return np.clip(expected, 0.0, 1.0), np.concatenate(parts, axis=2)

    def fit(self, *, free: NDArray[np.bool_] | None = None) -> SharesFit:
        """Shares and sizes of errors in turn; members that are not free deliver all."""
        free = self.identified if free is None else free
        shares, change = np.ones(self.n_agents), np.zeros(len(self.precision))
        sizes = ErrorSizes(1.0, 0.01)
        for step in range(N_PASSES):
            variances = self._variances(shares, change)
            shares, change, squares = self._minimise(shares, change, free, sizes, variances)
            if step < N_PASSES - 1:
                sizes = self._likely_sizes(shares, change, free, sizes, variances)
        return SharesFit(shares=shares, change=change, squares=squares, sizes=sizes, variances=variances)

    def share_covariances(self, found: SharesFit) -> tuple[FloatArray, FloatArray]:
        """Of the identified members' shares: by the likelihood, and clustered by model.

        The latter needs no assumption on how errors of one model hang together (residuals over the root of one less
        their leverage: CR2 of Bell and McCaffrey, 2002).
        """
        free, count = self.identified, int(self.identified.sum())
        residuals, derivatives = self._problem(found.shares, found.change, free, found.sizes, found.variances)
        covariance = np.linalg.inv(derivatives.T @ derivatives + RIDGE * np.eye(derivatives.shape[1]))
        shape = (self.n_models, self.n_agents)
        left = residuals[: self.accuracies.size].reshape(shape)
        by_model = derivatives[: self.accuracies.size].reshape(*shape, -1)
        leverage = by_model @ covariance @ by_model.transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(np.eye(self.n_agents) - leverage)
        parts = np.einsum("tij,ti->tj", vectors, left) / np.sqrt(np.maximum(values, MIN_FREEDOM))
        steps = np.einsum("cp,tip,tij,tj->tc", covariance[:count], by_model, vectors, parts, optimize=True)
        return np.asarray(covariance[:count, :count], dtype=np.float64), np.asarray(steps.T @ steps)

    def misfit_p_value(self, found: SharesFit) -> float:
        """How likely accuracies so far from the predictions are if weights and curves are right.

        NaN if there are too few models to tell.
        """
        return self._change_p_value(found) if self.n_earlier else self._freedom_p_value(found)

    def _freedom_p_value(self, found: SharesFit) -> float:
        """By how far the squares fall if every weight, floor, ceiling and the parameter is free (F test)."""
        left, columns = self._whitened_theta(found)
        rank, basis = _column_space(columns)
        restrictions, count = rank - int(self.identified.sum()), int(self.measured.sum())
        degrees = count - self.n_models - rank  # a model's common error is estimated too
        if degrees < 1 or restrictions < 1:
            return np.nan
        remaining = max(float(left @ left - ((basis.T @ left) ** 2).sum()), np.finfo(float).tiny)
        fall = max(found.squares - remaining, 0.0) / restrictions
        return float(fdtrc(restrictions, degrees, fall / (remaining / (count - rank))))

    def _change_p_value(self, found: SharesFit) -> float:
        """By how far the squares fall if floors, ceilings, the parameter and what own data is worth differ now.

        Held against the same with models exchanged at random between earlier and now, which needs no assumption on
        errors, nor that the curves fit exactly.
        """
        n = self.n_agents
        left, columns = self._whitened_theta(found)
        _, basis = _column_space(columns)
        left = left - basis @ (basis.T @ left)
        own = 2 * n + 1 + np.arange(n) * (n + 1)
        tried = columns[:, [*range(2 * n + 1), *own]]
        by_weights = columns[:, 2 * n + 1 :].reshape(-1, n, n)
        by_shares = np.einsum("rij,ij->rj", by_weights, self._weights_at(found.change))[:, self.identified]
        rng = np.random.default_rng(0)
        judged = self._is_judged[:, 0]
        falls = []
        for order in [np.arange(self.n_models), *(rng.permutation(self.n_models) for _ in range(N_EXCHANGES))]:
            now = np.repeat(judged[order], n)[:, None]
            squares = []
            for more in (by_shares, np.hstack([by_shares, tried])):
                outside = more * now - basis @ (basis.T @ (more * now))
                squares.append(float(((_column_space(outside)[1].T @ left) ** 2).sum()))
            falls.append(squares[1] - squares[0])
        return float(np.mean(np.array(falls) >= falls[0]))

    def _variances(self, shares: FloatArray, change: FloatArray) -> FloatArray:
        """(models, n): what test sets leave; infinite where nothing was measured."""
        expected = self.predict(shares, change)[0]
        sizes = np.where(np.isfinite(self.test_sizes), self.test_sizes, UNKNOWN_TEST_SIZE)
        inner = (expected * sizes + 1.0) / (sizes + 2.0)  # no accuracy is measured without error
        return np.where(self.measured, inner * (1.0 - inner) / sizes, np.inf)

    @property
    def _n_theta(self) -> int:
        """How many numbers theta has if the weights are among them."""
        return 2 * self.n_agents + 1 + self.n_agents**2

    def _whitened_theta(self, found: SharesFit) -> tuple[FloatArray, FloatArray]:
        """Residuals, and the derivatives by all of theta, weights too, in units of errors."""
        change = np.zeros(self._n_theta)
        change[: found.change.size] = found.change
        models = replace(self, precision=np.zeros((change.size, change.size)))
        nobody = np.zeros(self.n_agents, dtype=bool)
        residuals, derivatives = models._problem(found.shares, change, nobody, found.sizes, found.variances)
        return residuals[: self.accuracies.size], derivatives[: self.accuracies.size]

    def _weights_at(self, change: FloatArray) -> FloatArray:
        return self.curves.weights + change[2 * self.n_agents + 1 :].reshape(self.n_agents, self.n_agents)

    def _problem(
        self,
        shares: FloatArray,
        change: FloatArray,
        free: NDArray[np.bool_],
        sizes: ErrorSizes,
        variances: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Residuals in units of their errors, those of theta last; and their derivatives by free shares and theta."""
        expected, derivatives = self.predict(shares, change)
        columns = np.concatenate([expected[:, :, None] - self.accuracies[:, :, None], derivatives], axis=2)
        whitened = self.whiten(columns, sizes, variances)
        chosen = np.concatenate([free, np.ones(change.size, dtype=bool)])
        held = np.hstack([np.zeros((len(self.precision), int(free.sum()))), self.precision])
        residuals = np.concatenate([whitened[:, 0], self.precision @ change])
        return residuals, np.vstack([whitened[:, 1:][:, chosen], held])

    def whiten(self, columns: FloatArray, sizes: ErrorSizes, variances: FloatArray) -> FloatArray:
        """L columns: (models, n, any) in units of errors, as (models n, any).

        Of one model the errors have the covariance D + b^2 1 1', D diagonal, with the inverse root
        (I - a q q') D^(-1/2), q = b D^(-1/2) 1 and a q'q = 1 - (1 + q'q)^(-1/2).
        """
        scale = 1.0 / (sizes.own * np.sqrt(variances))
        together = sizes.of_model * scale
        length = np.maximum((together**2).sum(axis=1), np.finfo(float).tiny)
        shrunk = (1.0 - 1.0 / np.sqrt(1.0 + length)) / length
        scaled = np.where(self.measured[:, :, None], columns, 0.0) * scale[:, :, None]
        common = shrunk[:, None] * np.einsum("ti,tic->tc", together, scaled)
        whitened = scaled - together[:, :, None] * common[:, None, :]
        return np.asarray(whitened.reshape(-1, columns.shape[2]))

    def _minimise(
        self,
        shares: FloatArray,
        change: FloatArray,
        free: NDArray[np.bool_],
        sizes: ErrorSizes,
        variances: FloatArray,
    ) -> tuple[FloatArray, FloatArray, float]:
        """Shares and theta of least squares, and the squares."""
        count = int(free.sum())

        def split(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
            tried = shares.copy()
            tried[free] = numbers[:count]
            return tried, numbers[count:]

        start = np.concatenate([shares[free], change])
        lower, upper = np.full(start.size, -np.inf), np.full(start.size, np.inf)
        lower[:count], upper[:count] = 0.0, MAX_SHARE
        found, squares = _least_squares(
            lambda x: self._problem(*split(x), free, sizes, variances), start, (lower, upper), SHARE_TOLERANCE
        )
        return *split(found), squares

    def _likely_sizes(
        self,
        shares: FloatArray,
        change: FloatArray,
        free: NDArray[np.bool_],
        start: ErrorSizes,
        variances: FloatArray,
    ) -> ErrorSizes:
        """Sizes of errors of largest restricted likelihood."""
        from scipy.optimize import minimize  # noqa: PLC0415 - takes a while to import

        def unlikely(numbers: FloatArray) -> float:
            sizes = ErrorSizes(float(np.exp(numbers[0])), 0.01 * float(numbers[1]))
            residuals, derivatives = self._problem(shares, change, free, sizes, variances)
            own = np.where(self.measured, sizes.own**2 * variances, 1.0)
            together = 1.0 + sizes.of_model**2 * np.where(self.measured, 1.0 / own, 0.0).sum(axis=1)
            gram = derivatives.T @ derivatives
            logs = np.log(own).sum() + np.log(together).sum() + np.linalg.slogdet(gram + RIDGE * np.eye(len(gram)))[1]
            return float(logs + residuals @ residuals)

        first = np.array([np.log(start.own), max(100.0 * start.of_model, 0.3)])
        found = minimize(unlikely, first, method="L-BFGS-B", bounds=SIZE_BOUNDS, options={"ftol": 1e-6})
        return ErrorSizes(float(np.exp(found.x[0])), 0.01 * float(found.x[1]))


class ShareProfile:
    """By how much the squares grow with one member's share, the others' fitted anew.

    Theta follows along linearly: the squares are those outside the span of its derivatives.
    """

    def __init__(self, models: SubsetModels, found: SharesFit) -> None:
        self._models, self._found, self._free = models, found, models.identified
        derivatives = models._problem(found.shares, found.change, self._free, found.sizes, found.variances)[1]
        self._basis = np.linalg.qr(derivatives[:, int(self._free.sum()) :])[0]
        self._least = float((self._problem(found.shares)[0] ** 2).sum())

    def _problem(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals at the theta found and their derivatives by the shares, outside the span of those by theta."""
        models, found = self._models, self._found
        expected, derivatives = models.predict(shares, found.change, by_theta=False)
        columns = np.concatenate([(expected - models.accuracies)[:, :, None], derivatives[:, :, self._free]], axis=2)
        data = models.whiten(columns, found.sizes, found.variances)
        held = np.zeros((len(models.precision), data.shape[1]))
        held[:, 0] = models.precision @ found.change
        rows = np.vstack([data, held])
        rows = rows - self._basis @ (self._basis.T @ rows)
        return rows[:, 0], rows[:, 1:]

    def signed_root(self, member: int, share: float) -> float:
        """How far a share is from the estimate, in standard errors: the root of the growth, with its sign."""
        best = self._found.shares
        others = self._free & (np.arange(best.size) != member)
        columns = np.flatnonzero(others[self._free])

        def problem(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
            tried = best.copy()
            tried[member], tried[others] = share, numbers
            residuals, derivatives = self._problem(tried)
            return residuals, derivatives[:, columns]

        squares = _least_squares(problem, best[others], (0.0, MAX_SHARE), PROFILE_TOLERANCE)[1]
        growth = max(squares - self._least, 0.0)
        return float(np.copysign(np.sqrt(growth), share - best[member]))


def _least_squares(
    problem: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    bounds: tuple[ArrayLike, ArrayLike],
    tolerance: float,
) -> tuple[FloatArray, float]:
    """Where the squares of residuals are least, and these; `problem` has residuals and derivatives."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - takes a while to import

    last: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    def at(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        if numbers.tobytes() not in last:
            last.clear()
            last[numbers.tobytes()] = problem(numbers)
        return last[numbers.tobytes()]

    if not start.size:
        return start, float((at(start)[0] ** 2).sum())
    found = least_squares(
        lambda x: at(x)[0],
        start,
        lambda x: at(x)[1],
        bounds=bounds,
        method="trf",
        x_scale="jac",
        ftol=tolerance,
        xtol=tolerance,
        gtol=tolerance,
    )
    if not found.success:
        raise NotConverged(f"the delivered shares did not settle: {found.message}", result=found.x)
    return found.x, 2.0 * float(found.cost)


def _column_space(columns: FloatArray) -> tuple[int, FloatArray]:
    """Rank, and an orthonormal basis of what columns span."""
    lengths = np.linalg.norm(columns, axis=0)
    vectors, values, _ = np.linalg.svd(columns / np.where(lengths > 0.0, lengths, 1.0), full_matrices=False)
    kept = values > RANK_TOLERANCE * values.max(initial=0.0)
    return int(kept.sum()), vectors[:, kept]


def _bent(payoff: Payoff, step: float) -> Payoff:
    """The payoff with its parameter, if it has one, times e to the step."""
    return type(payoff)(**{name: number * np.exp(step) for name, number in payoff.parameters.items()})

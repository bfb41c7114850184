"""Exact Shapley values of any number of members: one integral over t and q for every receiver.

A payoff family is g(y) = int (1 - e^{-t y}) dm(t). For one t the payoff of a coalition is one minus a product over its
members. Averaged over coalitions in which each member sits with probability q, q uniform on [0, 1], a receiver credits
member j for data x_j with the first of these integrals, and the second is its derivative in x_j:

    int dm(t) int_0^1 dq (1 - e_j) prod_{k != j} f_k,      int dm(t) int_0^1 dq t e_j prod_{k != j} f_k,

where e_k = e^{-t x_k} and f_k = 1 - q + q e_k. Values are sums over receivers; one q alone gives semivalues, 1/2
Banzhaf's. The potential is int dm(t) int dq (1 - prod_k f_k) / q, and minus its Hessian in the data of one receiver

    int dm(t) int_0^1 dq q t^2 r_j r_k prod_i f_i,   for j = k   int dm(t) int_0^1 dq t^2 r_j prod_i f_i,   r = e / f.

**Few senders** (`_Direct`): every factor at every node. The q integrand is a polynomial of degree n - 1, so n/2
Gauss-Legendre nodes integrate it exactly, whatever the signs of x.

**Many** (`_Interpolated`): given t and q a receiver sees the others only through sum_k log f(x_k), and the credit is a
smooth function of x_j alone. So a few points stand for any number of members: sum_k h(x_k) = sum_p counts_p h(point_p),
and credits at the points are interpolated back (`Points`). Receivers in a block share points and nodes,
and the rest is matrix products. Here q is integrated where the integrand lives, at q of order 1 / sum_k (1 - e_k).

Data x is in the `unit` of the payoff throughout, in which its floor, if any, is -1. Cost: receivers x members x points.
Efficiency, that values sum to the total payoff, is a free check of the error.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray

BLOCK = 1 << 17  # numbers in the larger arrays
LARGEST = 8  # senders whose factors are kept apart
TINY = float(np.finfo(float).tiny)
EXPONENT_ROUNDING = 80.0 * float(np.finfo(float).eps)


class Accuracy(NamedTuple):
    """How finely to integrate."""

    step: float  # spacing of the nodes in log t
    living: float  # e-foldings of the integrand that the nodes in q cover
    q_nodes: float  # for each fourth root of these
    points: float  # of interpolation, for each e-folding of x
    rank: float  # eigenvalues of a receiver's Hessian below this share of its largest are left out
    sampled: int  # how many receivers stand for all of them in a Hessian
    direct: int  # up to so many senders of a receiver every factor is worked out; beyond, points are quicker


# Errors of some 1e-14; and for Newton steps.
FINE = Accuracy(step=0.28, living=40.0, q_nodes=10.0, points=9.0, rank=1e-14, sampled=1 << 30, direct=45)
ROUGH = Accuracy(step=0.8, living=12.0, q_nodes=4.0, points=3.0, rank=1e-3, sampled=100, direct=20)


class Credits(NamedTuple):
    """What receivers credit members with for their data, (receivers, members), and the derivatives in that data."""

    values: FloatArray
    derivatives: FloatArray


class Shares(NamedTuple):
    """Shapley values (members,), or semivalues, their gradient d phi_owner(l) / d s_l (lots,), and their rounding.

    The rounding is a bound for what cancelling digits cost: near the edge of the domain, exponents of size t are off by
    a share of t, which is the derivative times that share of what harm takes away.
    """

    values: FloatArray
    gradient: FloatArray
    rounding: float


def integrate(
    arrays: FederationArrays,
    contributions: FloatArray,
    *,
    probability: float | None = None,
    accuracy: Accuracy | None = None,
) -> Shares:
    """The Shapley values of one federation, or semivalues; NaN where some coalition leaves the domain of the payoff."""
    brought = arrays.member_data(contributions)
    if _is_outside(arrays, brought):
        return Shares(np.full(arrays.n_agents, np.nan), np.full(arrays.n_lots, np.nan), np.nan)
    credits = credit(brought, arrays.payoff, probability=probability, accuracy=accuracy or FINE)
    gradient = np.einsum("r,rl,rl->l", arrays.values, arrays.weights, credits.derivatives[:, arrays.lot_owners])
    harm = np.minimum(brought, 0.0).sum(axis=1) * arrays.values
    with np.errstate(over="ignore"):  # deep in harm a derivative may be as large as numbers get
        rounding = -EXPONENT_ROUNDING * float(harm @ np.abs(credits.derivatives).sum(axis=1))
    return Shares(arrays.values @ credits.values, gradient, rounding)


def potential_hessian(
    arrays: FederationArrays,
    contributions: FloatArray,
    *,
    probability: float | None = None,
    accuracy: Accuracy = ROUGH,
) -> FloatArray:
    """The Hessian (lots, lots) of the potential of one federation, of the payoffs alone; <= 0 at any accuracy."""
    brought, owners = arrays.member_data(contributions), arrays.lot_owners
    if _is_outside(arrays, brought):
        return np.full((owners.size, owners.size), np.nan)
    unit = np.broadcast_to(arrays.payoff.unit, arrays.n_tasks)
    weights = arrays.weights * (np.sqrt(arrays.values) / unit)[:, None]
    one, other = np.nonzero(owners[:, None] == owners)
    hessian = np.zeros((owners.size, owners.size))
    x = brought / unit[:, None]
    for rows, integrand in _integrands(x, arrays.payoff, accuracy, probability=probability, apart=0):
        chosen, scales = _sample(weights[rows], max(1, accuracy.sampled * rows.size // arrays.n_tasks))
        roots, own = integrand.curvature(chosen)
        scaled = scales[:, None] * weights[rows[chosen]]
        if _is_dense(scaled):
            parts = (roots[:, :, owners] * scaled[:, None]).reshape(-1, owners.size)
            hessian -= parts.T @ parts
        else:
            for row, root in zip(scaled, roots, strict=True):
                lots = np.flatnonzero(row)
                part = root[:, owners[lots]] * row[lots]
                hessian[lots[:, None], lots] -= part.T @ part
        hessian[one, other] -= (weights[rows][:, one] * weights[rows][:, other] * own[:, owners[one]]).sum(axis=0)
    return hessian


def credit(
    brought: FloatArray, payoff: Payoff, *, probability: float | None = None, accuracy: Accuracy | None = None
) -> Credits:
    """Credits for data (receivers, members) of either sign.

    With a `probability` those of semivalues. `payoff` has one curve for all receivers or one for each.
    """
    if probability == 1.0:  # everybody joins all others
        curve = payoff.map(lambda parameter: parameter[:, None])
        total = brought.sum(axis=1, keepdims=True)
        return Credits(curve.increment(total - brought, brought), np.tile(curve.slope(total), (1, brought.shape[1])))
    unit = np.broadcast_to(payoff.unit, len(brought))[:, None]
    found = Credits(np.empty(brought.shape), np.empty(brought.shape))
    for rows, integrand in _integrands(brought / unit, payoff, accuracy or FINE, probability=probability):
        found.values[rows], found.derivatives[rows] = integrand.credits()
    return Credits(found.values, found.derivatives / unit)


def potential(brought: FloatArray, payoff: Payoff) -> FloatArray:
    """(receivers,): the terms of the potential of receivers with a value of one, for data (receivers, members)."""
    unit, found = np.broadcast_to(payoff.unit, len(brought)), np.empty(len(brought))
    for rows, integrand in _integrands(brought / unit[:, None], payoff, FINE):
        q, q_weights = integrand.all_q()
        logs, levels = integrand.log_products(q), np.atleast_2d(integrand.log_masses)[..., None]
        # 1 - product times its weight, where either may be out of range alone.
        near = -np.exp(levels) * np.expm1(np.minimum(logs, 1.0))
        lost = np.where(logs > 1.0, np.exp(levels) - np.exp(levels + np.maximum(logs, 1.0)), near)
        found[rows] = (lost * (q_weights / q)).sum(axis=(1, 2))
    return found


def _is_outside(arrays: FederationArrays, brought: FloatArray) -> bool:
    return bool((np.minimum(brought, 0.0).sum(axis=-1) <= np.asarray(arrays.payoff.lowest_finite)).any())


def _is_dense(weights: FloatArray) -> bool:
    return bool(np.count_nonzero(weights) >= 0.5 * weights.size)


def _sample(weights: FloatArray, most: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Receivers, each for its neighbours in the order of their weights, and the roots of how much more these weigh."""
    count = len(weights)
    if count <= most or not _is_dense(weights):
        return np.arange(count), np.ones(count)
    sizes = np.square(weights).sum(axis=1)
    groups = np.array_split(np.argsort(sizes), most)
    chosen = np.array([group[group.size // 2] for group in groups])
    return chosen, np.sqrt([sizes[group].sum() for group in groups] / np.maximum(sizes[chosen], TINY))


def _integrands(
    x: FloatArray,
    payoff: Payoff,
    accuracy: Accuracy,
    *,
    probability: float | None = None,
    apart: int = LARGEST,
) -> Iterator[tuple[NDArray[np.intp], _Direct | _Interpolated]]:
    """Blocks of receivers that share their nodes, and their integrands; the largest senders of many are kept `apart`.

    Those of a block have about as much data, all are harmed or none, and memory holds them at once.
    """
    senders, harmed = (x != 0.0).sum(axis=1), x.min(axis=1, initial=0.0) < 0.0
    few: NDArray[np.bool_] = senders <= accuracy.direct
    order = np.lexsort((np.abs(x).sum(axis=1), np.where(few, senders, 0), harmed, few))
    kinds = np.flatnonzero(np.diff(2 * few[order] + harmed[order])) + 1
    for alike in np.split(order, kinds) if order.size else []:
        is_few, most = bool(few[alike[0]]), int(senders[alike].max()) + 1
        size = 1 + (BLOCK // (25 * most**2) if is_few else BLOCK // x.shape[1])
        for rows in np.array_split(alike, -(-alike.size // size)):
            curve = payoff.map(operator.itemgetter(rows))
            if is_few:
                yield rows, _Direct(x[rows], curve, accuracy, probability=probability)
            else:
                yield rows, _Interpolated(x[rows], curve, accuracy, probability=probability, apart=apart)


class _Direct:
    """The integrand of receivers with few senders: every factor at every node t (T,) and q (Q,)."""

    def __init__(self, x: FloatArray, payoff: Payoff, accuracy: Accuracy, *, probability: float | None) -> None:
        self.n_members = x.shape[1]
        self.columns = np.argsort(x == 0.0, axis=1, kind="stable")[:, : int(np.count_nonzero(x, axis=1).max())]
        # Somebody who brings nothing comes last: all who do not are like it.
        self.x = np.hstack([np.take_along_axis(x, self.columns, axis=1), np.zeros((len(x), 1))])
        lowest, highest = np.minimum(x, 0.0).sum(axis=1), np.maximum(x, 0.0).sum(axis=1)
        self.times, self.log_masses = payoff.time_rule(float(lowest.min()), float(highest.max()), accuracy.step)
        self.q, self.q_weights = self.all_q()
        if probability is not None:
            self.q, self.q_weights = np.full(1, probability), np.ones(1)

    def all_q(self) -> tuple[FloatArray, FloatArray]:
        """Nodes q (Q,) and weights, exact for polynomials of a degree up to the number of columns."""
        return _gauss_legendre(self.x.shape[1] // 2 + 1)

    def log_products(self, q: FloatArray) -> FloatArray:
        """(receivers, T, Q): the log of the product of all factors."""
        return np.asarray(_log_factors(self.times[:, None, None], q, self.x[:, None, :, None]).sum(axis=2))

    def credits(self) -> Credits:
        """Credits and their derivatives."""
        products, gains, left, factors = self._at_nodes()
        total = np.divide(products, factors, out=factors).sum(axis=1)
        return Credits(self._spread(np.vecdot(total, gains).T), self._spread(np.vecdot(total * left, self.times).T))

    def curvature(self, chosen: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Minus the Hessian, roots^T roots + diag(own): (chosen, any number, members) and (receivers, members)."""
        products, _, left, factors = self._at_nodes()
        rates = left[:, None] / factors
        timed = products * np.square(self.times)
        q = self.q[:, None, None]
        own = (timed * rates * (1.0 - q * rates)).sum(axis=(1, 3)).T
        roots = (np.sqrt(timed * q) * rates)[:, :, chosen].transpose(2, 1, 3, 0)
        return self._spread(roots.reshape(chosen.size, -1, len(rates)), chosen), self._spread(own)

    def _at_nodes(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Products of all factors with all weights (Q, receivers, T), and `_exponentials` with members first: quick."""
        gains, left, factors = _exponentials(self.times, self.q[:, None, None], self.x.T[:, None, :, None])
        growth = np.maximum(-self.x, 0.0).sum(axis=1, keepdims=True) * self.times
        levels = np.exp(self.log_masses + growth) * self.q_weights[:, None, None]
        return np.multiply.reduce(factors, axis=0) * levels, gains[:, 0], left[:, 0], factors

    def _spread(self, numbers: FloatArray, chosen: NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        """Numbers (receivers, ..., columns) for all members."""
        found = np.repeat(numbers[..., -1:], self.n_members, axis=-1)
        columns = self.columns[chosen].reshape(len(numbers), *(1,) * (numbers.ndim - 2), -1)
        np.put_along_axis(found, np.broadcast_to(columns, numbers[..., :-1].shape), numbers[..., :-1], axis=-1)
        return found


class _Interpolated:
    """The integrand of receivers with many senders, at points that stand for all but the largest of them.

    Near q = 1 a factor 1 - q + q e^{-t x} is not smooth in x where t x rises above one, nor near q = 0 where t x falls
    below minus one. For all but the largest x, or harm, there are then so many other factors close to zero that it does
    not matter. So many of the largest are kept `apart`: `columns` (receivers, largest) says who they are.
    """

    def __init__(
        self,
        x: FloatArray,
        payoff: Payoff,
        accuracy: Accuracy,
        *,
        probability: float | None,
        apart: int,
    ) -> None:
        self.x, self.accuracy, self.probability = x, accuracy, probability
        lowest, highest = np.minimum(x, 0.0).sum(axis=1), np.maximum(x, 0.0).sum(axis=1)
        self.times, self.log_masses = payoff.time_rule(float(lowest.min()), float(highest.max()), accuracy.step)
        self.columns, between = _find_largest(x, apart)
        self.largest = np.take_along_axis(x, self.columns, axis=1)
        others, rest = x.copy(), np.ones_like(x)
        np.put_along_axis(others, self.columns, np.take_along_axis(x, between, axis=1), axis=1)
        np.put_along_axis(rest, self.columns, 0.0, axis=1)
        self.points = Points(others, min(4.0 / float(self.times.max()), 0.1), accuracy.points)
        self.counts = self.points.counts(rest)

    def all_q(self) -> tuple[FloatArray, FloatArray]:
        """Nodes q (T, Q) on all of [0, 1], and their weights."""
        total = np.abs(self.counts).sum(axis=1).max() + self.columns.shape[1]
        nodes, weights = _graded(2.0 * max(self.accuracy.living, float(total)), self.accuracy)
        return np.tile(nodes, (self.times.size, 1)), np.tile(weights, (self.times.size, 1))

    def log_products(self, q: FloatArray) -> FloatArray:
        """(receivers, T, Q): the log of the product of all factors at nodes q, (T, Q), however close to one it is."""
        at = self.points.at
        at_points = _log_factors(self.times[:, None, None], q[..., None], at).reshape(-1, at.size)
        change = np.zeros((len(self.x), *q.shape))  # from one to the product of the largest senders' factors
        for x in self.largest.T[..., None, None]:
            own = _changes(self.times[:, None], q, x)
            change *= 1.0 + own
            change += own
        growth = np.maximum(-self.largest, 0.0).sum(axis=1)[:, None] * self.times
        with np.errstate(divide="ignore"):  # a product may vanish
            logs = np.log1p(np.maximum(change, -1.0)) + growth[..., None]
        return logs + (self.counts @ at_points.T).reshape(logs.shape)

    def credits(self) -> Credits:
        """Credits and their derivatives: of the largest by themselves, and at the points, interpolated back."""
        products, q = self._at_nodes()
        gains, rates = self._at_points(q)
        values = products.reshape(len(self.x), -1) @ gains
        derivatives = (products * self.times[:, None]).reshape(len(self.x), -1) @ rates
        # Credits rise linearly from zero, then level off: times sqrt(x^2 + knee^2) / x they are level on either side of
        # the knee, and smooth through zero. So are their derivatives, without the division.
        at, unit = self.points.at, self.points.unit
        per_data = np.maximum(values / at, TINY)
        knees = np.abs(values).max(axis=1, keepdims=True) / per_data[:, [np.argmin(np.abs(at))]]
        knees = np.clip(knees, unit, max(float(np.abs(at).max()), unit))
        level = np.stack([per_data, derivatives], axis=1) * np.hypot(at, knees)[:, None]
        found = self.points.interpolate(level) / np.hypot(self.x, knees)[:, None]
        credits = Credits(found[:, 0] * self.x, found[:, 1])
        for column, x in zip(self.columns.T[..., None], self.largest.T[..., None, None], strict=True):
            own_gains, left, factors = _exponentials(self.times[:, None], q, x)
            total = np.vecdot(products, np.reciprocal(factors, out=factors))
            np.put_along_axis(credits.values, column, (total * own_gains[..., 0]).sum(axis=1, keepdims=True), axis=1)
            np.put_along_axis(credits.derivatives, column, ((total * left[..., 0]) @ self.times)[:, None], axis=1)
        return credits

    def curvature(self, chosen: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Minus the Hessian, as in `_Direct`: the roots are few, since smooth kernels have small rank."""
        products, q = self._at_nodes()
        _, rates = self._at_points(q)
        timed = (products * np.square(self.times)[:, None]).reshape(len(self.x), -1)
        own = self.points.interpolate((timed @ (rates * (1.0 - q.ravel()[:, None] * rates)))[:, None])[:, 0]
        pairs = (rates[:, :, None] * rates[:, None, :]).reshape(q.size, -1)
        kernels = ((timed[chosen] * q.ravel()) @ pairs).reshape(chosen.size, *(self.points.at.size,) * 2)
        sizes, vectors = np.linalg.eigh(kernels)
        rank = int((sizes > self.accuracy.rank * sizes[:, -1:]).sum(axis=1).max())
        roots = np.swapaxes(vectors * np.sqrt(np.maximum(sizes, 0.0))[:, None], 1, 2)[:, -rank:]
        return self.points.take(chosen).interpolate(roots), np.maximum(own, 0.0)

    def _at_nodes(self) -> tuple[FloatArray, FloatArray]:
        """The products of all factors with all weights, (receivers, T, Q), and the nodes q, (T, Q)."""
        if self.probability is None:
            q, q_weights = self._living_q()
        else:
            q, q_weights = np.full((self.times.size, 1), self.probability), np.ones((self.times.size, 1))
        return np.exp(self.log_products(q) + self.log_masses[..., None]) * q_weights, q

    def _at_points(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(1 - e) / f and e / f for somebody with the data of each point, (T x Q, P)."""
        gains, left, factors = _exponentials(self.times[:, None, None], q[..., None], self.points.at)
        return (gains / factors).reshape(q.size, -1), (left / factors).reshape(q.size, -1)

    def _living_q(self) -> tuple[FloatArray, FloatArray]:
        """Nodes q (T, Q) and weights for every time: up to where the integrand of every receiver has died away.

        The log of the integrand is concave in q; it is tried at 1, 1/2, 1/4, ...
        """
        total = np.abs(self.counts).sum(axis=1).max() + self.columns.shape[1]
        tried = np.minimum(0.5 ** np.arange(np.ceil(np.log2(total)) + 1.0)[::-1], 0.999)  # at 1 factors may vanish
        logs = self.log_products(np.tile(tried, (self.times.size, 1)))
        fallen = np.maximum(np.maximum.accumulate(logs, axis=2), 0.0) - logs > self.accuracy.living
        ends = np.where(fallen.any(axis=2), tried[np.argmax(fallen, axis=2)], 1.0)
        apart = float((ends.max(axis=0) / ends.min(axis=0)).max())
        nodes, weights = _graded(2.0 * self.accuracy.living * apart, self.accuracy)
        return ends.max(axis=0)[:, None] * nodes, ends.max(axis=0)[:, None] * weights


def _find_largest(x: FloatArray, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns (receivers, count) of the largest x and, where some are negative, of the lowest; and one of another."""
    n_members, harmed = x.shape[1], bool((x < 0.0).any())
    count = min(count, n_members // 2 if harmed else n_members)
    if not count:
        return np.zeros((len(x), 0), dtype=np.intp), np.zeros((len(x), 1), dtype=np.intp)
    order = np.argpartition(x, (count - 1, n_members - count) if harmed else n_members - count, axis=1)
    columns = np.hstack([order[:, : count if harmed else 0], order[:, n_members - count :]])
    return columns, order[:, [(n_members - count) // 2]]


def _changes(t: FloatArray, q: FloatArray, x: FloatArray) -> FloatArray:
    """From one to the factor 1 - q + q e^{-t x}, over e^{-t x} where that is above one; between -1 and 0."""
    harm = x < 0.0
    return np.asarray((np.where(harm, 1.0 - q, q) if harm.any() else q) * np.expm1(-t * np.abs(x)))


def _log_factors(t: FloatArray, q: FloatArray, x: FloatArray) -> FloatArray:
    """log(1 - q + q e^{-t x}), for x of either sign."""
    return np.asarray(np.log1p(_changes(t, q, x)) - t * np.minimum(x, 0.0))


def _exponentials(t: FloatArray, q: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """1 - e^{-t x}, e^{-t x} and 1 - q + q e^{-t x}, all three over e^{-t x} where that is above one."""
    exponents = -t * np.abs(x)
    change, left, harm = np.expm1(exponents), np.exp(exponents), x < 0.0
    factors = (np.where(harm, 1.0 - q, q) if harm.any() else q) * change
    factors += 1.0
    return np.where(harm, change, -change), np.where(harm, 1.0, left), factors


def _graded(e_foldings: float, accuracy: Accuracy) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1] for what falls by so many e-foldings: those of Gauss-Legendre in the cube root."""
    nodes, weights = _gauss_legendre(int(np.ceil(accuracy.q_nodes * e_foldings**0.25)))
    return nodes**3, 3.0 * nodes**2 * weights


@lru_cache(maxsize=128)
def _gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0


BABY_STEPS = 8


class Points:
    """A few points that stand for the data x, (receivers, members), of either sign; `at` (P,) is where they are.

    Smooth functions h of x are known from their values at the points: h(x) = sum_p b_p(x) h(point_p), with the Lagrange
    polynomials b_p at Chebyshev points of z = asinh(x / unit), a scale that is linear near zero, then logarithmic.
    Functions of t x, t up to 1 / unit, are smooth in z. So sums over members become sums over points, with

        sum_k h(x_k) = sum_p counts_p h(point_p),      counts_p = sum_k b_p(x_k).

    With baby steps T_b, b < B, and giant steps T_aB of the Chebyshev polynomials of z, every T_k is a combination of
    the products T_aB T_b, since T_(aB+b) = 2 T_aB T_b - T_(aB-b). So are the b_p: P of them cost about 2 sqrt(P)
    numbers for every x, and one matrix product with a matrix that depends on P alone.
    """

    def __init__(self, x: FloatArray, unit: float, per_unit: float) -> None:
        self.unit = unit
        z = np.arcsinh(x / unit)
        low, high = float(z.min()), float(z.max())
        middle, half = 0.5 * (low + high), max(0.5 * (high - low), 1e-6 * abs(high)) or 1.0
        self.n_points = int(np.ceil(8 + per_unit * (high - low)))
        angles = (2 * np.arange(self.n_points) + 1) * np.pi / (2 * self.n_points)
        self.at = unit * np.sinh(middle + half * np.cos(angles))
        self._products = _lagrange_of_products(self.n_points)
        n_giant = -(-self.n_points // BABY_STEPS)
        scaled = np.clip((z - middle) / half, -1.0, 1.0)
        self._baby = np.empty((len(x), BABY_STEPS, x.shape[1]))
        last = _chebyshev(scaled, self._baby)
        self._giant = np.empty((len(x), n_giant, x.shape[1]))
        _chebyshev(last, self._giant)

    def take(self, receivers: NDArray[np.intp]) -> Points:
        """The points with the data of some of the receivers."""
        taken = copy.copy(self)
        taken._baby, taken._giant = self._baby[receivers], self._giant[receivers]
        return taken

    def counts(self, weights: FloatArray) -> FloatArray:
        """(receivers, P): sums over the members, by their weights, of what each point counts for."""
        together = np.matmul(self._giant * weights[:, None, :], np.swapaxes(self._baby, 1, 2))
        return np.asarray(together.reshape(len(together), -1) @ self._products)

    def interpolate(self, values: FloatArray) -> FloatArray:
        """(receivers, functions, members): functions, (receivers, functions, P) at the points, at every x."""
        products = (values @ self._products.T).reshape(*values.shape[:2], -1, BABY_STEPS)
        found = np.zeros((*values.shape[:2], self._baby.shape[2]))
        for step in range(products.shape[2]):
            found += np.matmul(products[:, :, step], self._baby) * self._giant[:, step, None]
        return found


def _chebyshev(z: FloatArray, found: FloatArray) -> FloatArray:
    """Fill (receivers, K, members) with T_0(z) to T_(K-1)(z); T_K(z)."""
    before, last = np.ones_like(z), z
    for k in range(found.shape[1]):
        found[:, k] = before
        before, last = last, 2.0 * z * last - before
    return before


@lru_cache(maxsize=64)
def _lagrange_of_products(n_points: int) -> FloatArray:
    """(giant x baby steps, P): the Lagrange polynomials as combinations of the products T_aB T_b."""
    n_giant = -(-n_points // BABY_STEPS)
    chebyshev = np.zeros((n_giant * BABY_STEPS, n_giant * BABY_STEPS))  # row k: T_k
    for k in range(n_points):
        a, b = divmod(k, BABY_STEPS)
        chebyshev[k, k] = 1.0 if a == 0 or b == 0 else 2.0
        if a and b:
            chebyshev[k] -= chebyshev[k - 2 * b]
    angles = (2 * np.arange(n_points) + 1) * np.pi / (2 * n_points)
    orders = np.arange(n_points)
    coefficients = np.where(orders == 0, 1.0, 2.0)[:, None] / n_points * np.cos(orders[:, None] * angles)
    return np.asarray(chebyshev[:n_points].T @ coefficients)

"""Shapley values, semivalues and their potential by summing over all 2^n coalitions, for up to about a dozen members.

With u_rj the data that member j brings to task r, coalition X earns A(X) = sum_r value_r g_r(sum_{j in X} u_rj), and

    phi_j = sum over X containing j of c(|X|) [A(X) - A(X without j)],      c(k) = (k-1)! (n-k)! / n!,

equation (8) of the paper. The Hart-Mas-Colell potential is P = sum over X of c(|X|) A(X). A member's value is what it
adds to P, and P without it is free of what it brings, so that d phi_j / d s_l = d P / d s_l for each of j's lots l.
Other coefficients, c(k) = q^(k-1) (1-q)^(n-k), give the semivalue of probability q (`size_coefficients`).

Coalition X stands at the number whose bits are its members, so that the data of all coalitions comes from n doublings,
y(X with j) = y(X) + u_j, and sums over the coalitions that hold a member, or two, from n halvings (`_sums_with`). Cost:
tasks x 2^n payoffs. Every array may have leading axes: all their federations are summed at once, a block at a time. A
federation some coalition of which leaves the domain of the payoff has NaN throughout.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

FEW_MEMBERS = 12  # up to here coalitions are quicker than the integral
MAX_ENUMERATED_MEMBERS = 20  # for those who ask for it
BLOCK = 1 << 14  # payoffs worked out at once: arrays this small are reused rather than mapped anew
# Below this share of the largest total a value is summed from increments: differences of totals would lose its digits.
SMALL_SHARE = 1e-3


def size_coefficients(n_members: int, probability: float | None = None) -> FloatArray:
    """c(k) for coalitions of k = 0, ..., n members, 0 for none: what each counts for in the potential.

    A member's semivalue is what it adds on average to a coalition in which everybody else sits with this `probability`
    q: 1/2 is Banzhaf's, 1 leave-one-out. None is a q drawn uniformly from [0, 1]: Shapley values.
    """
    sizes = np.arange(1, n_members + 1)
    if probability is None:
        shares = np.array([1.0 / (size * comb(n_members, size)) for size in sizes.tolist()])
    else:
        shares = probability ** (sizes - 1.0) * (1.0 - probability) ** (n_members - sizes)
    return np.concatenate([[0.0], shares])


def values_and_gradient(
    arrays: FederationArrays, contributions: FloatArray, coefficients: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Shapley values (..., members) and d phi_owner(l) / d s_l (..., lots), or the semivalues of other coefficients."""
    by_size = _checked_coefficients(arrays, coefficients)
    counted = by_size[coalition_sizes(arrays.n_agents)]
    games = _Games.of(arrays, contributions)
    values, marginal = np.empty((len(games.brought), arrays.n_agents)), np.empty(games.brought.shape)
    for block in games.blocks():
        totals: FloatArray = np.zeros((len(block.brought), counted.size))
        for tasks, part in block.task_blocks():
            data = coalition_data(part.brought)
            totals += np.matmul(part.values[:, None, :], part.payoff.value(data))[:, 0]
            marginal[block.rows, tasks] = _sums_with(part.payoff.slope(data) * counted)
        values[block.rows] = values_of_totals(totals, by_size)
        small = np.abs(values[block.rows]) < SMALL_SHARE * np.abs(totals).max(axis=1, keepdims=True)
        for member in np.flatnonzero(small.any(axis=0)).tolist():
            values[block.rows, member] = _sum_of_increments(block, member, by_size)
    return games.restored(values), games.restored(games.per_lot(marginal, arrays.lot_owners))


def potential_derivatives(
    arrays: FederationArrays, contributions: FloatArray, coefficients: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The potential's gradient (..., lots) and Hessian (..., lots, lots), of the payoffs alone; the Hessian is <= 0."""
    counted = _checked_coefficients(arrays, coefficients)[coalition_sizes(arrays.n_agents)]
    games, n_members, owners = _Games.of(arrays, contributions), arrays.n_agents, arrays.lot_owners
    marginal = np.empty(games.brought.shape)
    hessian = np.zeros((len(games.brought), owners.size, owners.size))
    for block in games.blocks():
        for tasks, part in block.task_blocks():
            data = coalition_data(part.brought)
            marginal[block.rows, tasks] = _sums_with(part.payoff.slope(data) * counted)
            pairs = _sums_with_pairs(part.payoff.curvature(data) * counted, n_members) * part.values[..., None, None]
            weights = part.weights[..., None] * part.weights[..., None, :]
            hessian[block.rows] += (pairs[..., owners[:, None], owners] * weights).sum(axis=1)
    return games.restored(games.per_lot(marginal, owners)), games.restored(hessian)


def coalition_data(brought: FloatArray) -> FloatArray:
    """(..., 2^n): the sum over each coalition of what its members bring, (..., n)."""
    n_members = brought.shape[-1]
    data = np.zeros((*brought.shape[:-1], 1 << n_members))
    for member in range(n_members):
        size = 1 << member
        np.add(data[..., :size], brought[..., member, None], out=data[..., size : 2 * size])
    return data


@lru_cache(maxsize=MAX_ENUMERATED_MEMBERS)
def coalition_sizes(n_members: int) -> NDArray[np.intp]:
    """(2^n,): how many members each coalition has."""
    sizes = np.bitwise_count(np.arange(1 << n_members)).astype(np.intp)
    sizes.setflags(write=False)
    return sizes


class _Games(NamedTuple):
    """Federations along one axis, each with what its members bring to every task, (federations, tasks, members).

    `values` are (federations, tasks), `weights` (federations, tasks, lots), parameters of the payoff (federations,
    tasks, 1) or one number. `rows` are where the federations stand among all of them, `shape` the leading axes these
    came with, `inside` says which federations are in the domain in every coalition.
    """

    brought: FloatArray
    values: FloatArray
    weights: FloatArray
    payoff: Payoff
    inside: NDArray[np.bool_]
    shape: tuple[int, ...]
    rows: slice

    @classmethod
    def of(cls, arrays: FederationArrays, contributions: FloatArray) -> _Games:
        brought = arrays.member_data(contributions)
        shape, (n_tasks, n_members) = brought.shape[:-2], brought.shape[-2:]
        inside = (np.minimum(brought, 0.0).sum(axis=-1) > np.asarray(arrays.payoff.lowest_finite)).all(axis=-1)
        weights = arrays.weights if isinstance(arrays.weights, np.ndarray) else arrays.weights.toarray()

        def spread(numbers: FloatArray, *ends: int) -> FloatArray:
            return np.broadcast_to(numbers, (*shape, *ends)).reshape(-1, *ends)

        return cls(
            brought=np.where(inside[..., None, None], brought, 0.0).reshape(-1, n_tasks, n_members),
            values=spread(arrays.values, n_tasks),
            weights=spread(weights, n_tasks, arrays.n_lots),
            payoff=arrays.payoff.map(lambda parameter: spread(parameter, n_tasks)[..., None]),
            inside=inside.ravel(),
            shape=shape,
            rows=slice(None),
        )

    def blocks(self) -> Iterator[_Games]:
        """So many federations at a time that their coalitions fit into a block."""
        n_federations, n_tasks, n_members = self.brought.shape
        size = max(1, BLOCK // (n_tasks << n_members))
        for first in range(0, n_federations, size):
            rows = slice(first, first + size)
            yield self._take(rows)._replace(rows=rows)

    def task_blocks(self) -> Iterator[tuple[slice, _Games]]:
        """So many tasks at a time that their coalitions fit into a block."""
        n_tasks, n_members = self.brought.shape[1:]
        size = max(1, BLOCK >> n_members)
        for first in range(0, n_tasks, size):
            tasks = slice(first, first + size)
            yield tasks, self._take((slice(None), tasks))

    def _take(self, index: Any) -> _Games:
        return self._replace(
            brought=self.brought[index],
            values=self.values[index],
            weights=self.weights[index],
            payoff=self.payoff.map(operator.itemgetter(index)),
        )

    def per_lot(self, marginal: FloatArray, owners: NDArray[np.intp]) -> FloatArray:
        """(federations, lots): what a unit of data from every member is worth to every task, at the lots' weights."""
        return np.asarray(np.einsum("fr,frl,frl->fl", self.values, self.weights, marginal[..., owners]))

    def restored(self, numbers: FloatArray) -> FloatArray:
        """Numbers (federations, ...) with the leading axes, NaN outside the domain."""
        inside = self.inside.reshape(-1, *(1,) * (numbers.ndim - 1))
        return np.where(inside, numbers, np.nan).reshape(self.shape + numbers.shape[1:])


def _checked_coefficients(arrays: FederationArrays, coefficients: FloatArray | None) -> FloatArray:
    if arrays.n_agents > MAX_ENUMERATED_MEMBERS:
        raise InvalidInput(
            f"enumeration over {arrays.n_agents} members needs 2^{arrays.n_agents} coalition values; "
            f'use method="quadrature"'
        )
    return size_coefficients(arrays.n_agents) if coefficients is None else coefficients


def _sums_with(numbers: FloatArray) -> FloatArray:
    """(..., n): numbers (..., 2^n) summed over the coalitions that hold each member."""
    n_members = numbers.shape[-1].bit_length() - 1
    sums = np.empty((*numbers.shape[:-1], n_members))
    for member in reversed(range(n_members)):
        without, holding = numbers[..., : 1 << member], numbers[..., 1 << member :]
        sums[..., member] = holding.sum(axis=-1)
        numbers = without + holding
    return sums


def _sums_with_pairs(numbers: FloatArray, n_members: int) -> FloatArray:
    """(..., n, n): numbers (..., 2^n) summed over the coalitions that hold both of two members."""
    sums = np.empty((*numbers.shape[:-1], n_members, n_members))
    for member in reversed(range(n_members)):
        without, holding = numbers[..., : 1 << member], numbers[..., 1 << member :]
        sums[..., member, member] = holding.sum(axis=-1)
        sums[..., member, :member] = sums[..., :member, member] = _sums_with(holding)
        numbers = without + holding
    return sums


def values_of_totals(totals: FloatArray, by_size: FloatArray) -> FloatArray:
    """(federations, n): from what every coalition earns, (federations, 2^n)."""
    n_members = by_size.size - 1
    counted = by_size[coalition_sizes(n_members)]
    values = np.empty((len(totals), n_members))
    for member in range(n_members):
        pairs = totals.reshape(len(totals), -1, 2, 1 << member)
        shares = counted.reshape(-1, 2, 1 << member)[:, 1].ravel()
        values[:, member] = (pairs[:, :, 1] - pairs[:, :, 0]).reshape(len(totals), -1) @ shares
    return values


def _sum_of_increments(block: _Games, member: int, by_size: FloatArray) -> FloatArray:
    """(federations,): a member's value from what it adds to every coalition of the others, without cancellation."""
    others = coalition_sizes(by_size.size - 2)
    value = np.zeros(len(block.brought))
    for _, part in block.task_blocks():
        data = coalition_data(np.delete(part.brought, member, axis=-1))
        added = part.payoff.increment(data, part.brought[..., member, None]) @ by_size[others + 1]
        value += (part.values * added).sum(axis=1)
    return value

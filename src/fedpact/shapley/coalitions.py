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

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays
from fedpact.federation.payoffs import Payoff
from fedpact.utils.arrays import FloatArray, read_only
from fedpact.utils.errors import InvalidInput

FEW_MEMBERS = 12  # up to here coalitions are quicker than the integral
MAX_ENUMERATED_MEMBERS = 20  # for those who ask for it
BLOCK = 1 << 16  # payoffs worked out at once: arrays this small are reused rather than mapped anew
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
    by_size, sizes = _checked_coefficients(arrays, coefficients), coalition_sizes(arrays.n_agents)
    joined, left = by_size[sizes], np.append(by_size, 0.0)[sizes + 1]  # of coalitions with a member, and without it
    receivers = _Receivers(arrays, contributions)
    values, marginal = np.empty(receivers.brought.shape), np.empty(receivers.brought.shape)
    largest = np.empty((len(values), 1))
    for rows, data, payoff in receivers.blocks():
        worth = payoff.value(data)
        values[rows] = (_sums_with(worth * (joined + left)[:, None]) - left @ worth).T
        marginal[rows] = _sums_with(payoff.slope(data) * joined[:, None]).T
        largest[rows, 0] = np.abs(worth).max(axis=0)
    small = np.abs(receivers.sum(values)) < SMALL_SHARE * receivers.sum(largest)
    for member in np.flatnonzero(small.reshape(-1, arrays.n_agents).any(axis=0)).tolist():
        for rows, data, payoff in receivers.blocks(without=member):
            values[rows, member] = left[: len(data)] @ payoff.increment(data, receivers.brought[rows, member])
    return receivers.sum(values), receivers.gradient(marginal)


def potential_derivatives(
    arrays: FederationArrays, contributions: FloatArray, coefficients: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The potential's gradient (..., lots) and Hessian (..., lots, lots), of the payoffs alone; the Hessian is <= 0."""
    n_members, owners, weights = arrays.n_agents, arrays.lot_owners, arrays.weights
    counted = _checked_coefficients(arrays, coefficients)[coalition_sizes(n_members), None]
    receivers = _Receivers(arrays, contributions)
    marginal = np.empty(receivers.brought.shape)
    pairs = np.empty((*marginal.shape, n_members))
    for rows, data, payoff in receivers.blocks():
        marginal[rows] = _sums_with(payoff.slope(data) * counted).T
        pairs[rows] = _sums_with_pairs(payoff.curvature(data) * counted).T
    by_lot = pairs.reshape(*receivers.shape, n_members, n_members)[..., owners[:, None], owners]
    hessian = receivers.sum(by_lot * weights[..., :, None] * weights[..., None, :])
    return receivers.gradient(marginal), hessian.reshape(*receivers.shape[:-1], owners.size, owners.size)


def coalition_data(brought: FloatArray) -> FloatArray:
    """(2^n, any): the sum over each coalition of what its members bring, (n, any)."""
    data = np.zeros((1 << len(brought), brought.shape[1]))
    for member, own in enumerate(brought):
        size = 1 << member
        np.add(data[:size], own, out=data[size : 2 * size])
    return data


@lru_cache(maxsize=MAX_ENUMERATED_MEMBERS)
def coalition_sizes(n_members: int) -> NDArray[np.intp]:
    """(2^n,): how many members each coalition has."""
    return read_only(np.bitwise_count(np.arange(1 << n_members)).astype(np.intp))


class _Receivers:
    """The tasks of all federations along one axis: what every member brings to each is (receivers, members).

    `shape` are the leading axes and the tasks; `inside` says which federations are in the domain in every coalition.
    """

    def __init__(self, arrays: FederationArrays, contributions: FloatArray) -> None:
        brought = arrays.member_data(contributions)
        self._arrays, self.shape = arrays, brought.shape[:-1]
        lowest = np.minimum(brought, 0.0).sum(axis=-1)
        self.inside = (lowest > np.asarray(arrays.payoff.lowest_finite)).all(axis=-1)
        self.brought = np.where(self.inside[..., None, None], brought, 0.0).reshape(-1, arrays.n_agents)
        self._payoff = arrays.payoff.map(lambda parameter: np.broadcast_to(parameter, self.shape).ravel())

    def blocks(self, without: int | None = None) -> Iterator[tuple[slice, FloatArray, Payoff]]:
        """So many receivers at a time that their coalitions fit into a block; the data of each, and the payoff."""
        brought = self.brought if without is None else np.delete(self.brought, without, axis=1)
        size = max(1, BLOCK >> brought.shape[1])
        for first in range(0, len(brought), size):
            rows = slice(first, first + size)
            yield rows, coalition_data(brought[rows].T), self._payoff.map(operator.itemgetter(rows))

    def sum(self, numbers: FloatArray) -> FloatArray:
        """Numbers of all receivers at their values, summed for every federation, (..., any); NaN outside the domain."""
        total = (self._arrays.values[..., None] * numbers.reshape(*self.shape, -1)).sum(axis=-2)
        return np.where(self.inside[..., None], total, np.nan)

    def gradient(self, marginal: FloatArray) -> FloatArray:
        """(..., lots): what a unit of data from every member is worth to every receiver, at the lots' weights."""
        by_lot = marginal.reshape(*self.shape, -1)[..., self._arrays.lot_owners]
        return self.sum(by_lot * self._arrays.weights)


def _checked_coefficients(arrays: FederationArrays, coefficients: FloatArray | None) -> FloatArray:
    if arrays.n_agents > MAX_ENUMERATED_MEMBERS:
        raise InvalidInput(
            f"enumeration over {arrays.n_agents} members needs 2^{arrays.n_agents} coalition values; "
            f'use method="quadrature"'
        )
    return size_coefficients(arrays.n_agents) if coefficients is None else coefficients


def _sums_with(numbers: FloatArray) -> FloatArray:
    """(n, any): numbers (2^n, any) summed over the coalitions that hold each member."""
    sums = np.empty((len(numbers).bit_length() - 1, numbers.shape[1]))
    for member in reversed(range(len(sums))):
        without, holding = numbers[: 1 << member], numbers[1 << member :]
        sums[member] = holding.sum(axis=0)
        numbers = without + holding
    return sums


def _sums_with_pairs(numbers: FloatArray) -> FloatArray:
    """(n, n, any): numbers (2^n, any) summed over the coalitions that hold both of two members."""
    n_members = len(numbers).bit_length() - 1
    sums = np.empty((n_members, n_members, numbers.shape[1]))
    for member in reversed(range(n_members)):
        without, holding = numbers[: 1 << member], numbers[1 << member :]
        sums[member, member] = holding.sum(axis=0)
        sums[member, :member] = sums[:member, member] = _sums_with(holding)
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

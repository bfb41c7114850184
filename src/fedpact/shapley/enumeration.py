"""Shapley values by summing over all 2^n coalitions: the reference every other route is held against.

With c(k) = (k-1)! (n-k)! / n!, equation (8) of the paper reads

    phi_j = sum over X containing j of c(|X|) [A(s[X]) - A(s[X without j])],

with s[X] the profile in which the lots of those outside X are zero, and the Hart-Mas-Colell potential is P = sum over
non-empty X of c(|X|) A(s[X]), with phi_j = P(N) - P(N without j) and d phi_j / d s_j = d P / d s_j, for each of j's
lots. Cost: 2^n n payoff evaluations, in blocks of `COALITIONS_AT_A_TIME`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

COALITIONS_AT_A_TIME = 1 << 14
# Below this share of the grand total a value is summed from increments: differences of totals would lose its digits.
SMALL_SHARE = 1e-3


@lru_cache(maxsize=8)
def coalitions(n_agents: int) -> tuple[FloatArray, FloatArray]:
    """Membership (2^n, n) of every coalition, bit j of the row number for agent j, and its weight c(|X|)."""
    members = _members(np.arange(1 << n_agents), n_agents)
    weights = _weights(n_agents)[members.sum(axis=1).astype(np.intp)]
    members.setflags(write=False)
    weights.setflags(write=False)
    return members, weights


def enumerate_shapley(federation: Federation, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shapley values per agent, and their derivatives d phi_j / d s_j per lot."""
    n_agents = federation.n_agents
    weights = federation.dense_weights()
    totals = np.empty(1 << n_agents)
    gradient = np.zeros(federation.n_lots)
    by_size = _weights(n_agents)
    for rows in _blocks(1 << n_agents):
        members = _members(rows, n_agents)
        brought = members[:, federation.lot_owners] if federation.has_lots else members
        data = (brought * contributions) @ weights.T
        totals[rows] = federation.payoff.value(data) @ federation.values
        share = by_size[members.sum(axis=1).astype(np.intp)]
        marginal = (federation.payoff.slope(data) * federation.values) @ weights
        gradient += share @ (brought * marginal)
    values = np.array([_from_totals(totals, agent, n_agents) for agent in range(n_agents)])
    for agent in np.flatnonzero(np.abs(values) < SMALL_SHARE * np.abs(totals).max()):
        values[agent] = _from_increments(federation, contributions, weights, int(agent), by_size)
    return values, gradient


def enumerate_blocks(federation: Federation, contributions: FloatArray, blocks: int) -> tuple[FloatArray, FloatArray]:
    """Shapley values and their derivatives, (blocks, n), of federations of n agents side by side in one.

    NaN for a federation some coalition of which leaves the domain. Cost: n 2^(n-1) passes over all agents.
    """
    n_agents = federation.n_agents // blocks
    inside = np.asarray(federation.negative_weights() @ contributions) > federation.payoff.floor
    inside = np.repeat(inside.reshape(blocks, n_agents).all(axis=1), n_agents)
    played = np.where(inside, contributions, 0.0)  # where it is undefined, anything that is defined
    by_size = _weights(n_agents)
    values, gradient = np.zeros((blocks, n_agents)), np.zeros((blocks, n_agents))
    for members in _members(np.arange(1 << n_agents), n_agents):
        data = federation.data(np.tile(members, blocks) * played)
        share = by_size[int(members.sum()) + 1] if members.sum() < n_agents else 0.0
        for agent in np.flatnonzero(members == 0):
            alone = np.tile(np.eye(n_agents)[agent], blocks)
            step = federation.data(alone * played)
            with np.errstate(over="ignore", invalid="ignore"):  # harm beyond all numbers is infinite
                worth = federation.values * federation.payoff.increment(data, step)
                slopes = federation.values * federation.payoff.slope(data + step) * federation.data(alone)
                values[:, agent] += share * worth.reshape(blocks, n_agents).sum(axis=1)
                gradient[:, agent] += share * slopes.reshape(blocks, n_agents).sum(axis=1)
    defined = inside.reshape(blocks, n_agents)
    return np.where(defined, values, np.nan), np.where(defined, gradient, np.nan)


def semivalue_weights(n_agents: int, probability: float | None) -> FloatArray:
    """What a coalition of each size from 0 to n counts for in the potential of a semivalue, 0 for the empty one.

    An agent's semivalue is what it adds on average to a coalition in which every other agent sits with this
    `probability` q: sum over X containing j of q^(|X|-1) (1-q)^(n-|X|) [A(s[X]) - A(s[X without j])]. None stands for a
    q drawn uniformly from [0, 1], which gives Shapley values.
    """
    if probability is None:
        return _weights(n_agents)
    sizes = np.arange(1, n_agents + 1)
    return np.concatenate([[0.0], probability ** (sizes - 1.0) * (1.0 - probability) ** (n_agents - sizes)])


def enumerate_semivalues(federation: Federation, contributions: FloatArray, probability: float | None) -> FloatArray:
    """The semivalues of a profile, each summed from what the agent adds to every coalition without it."""
    by_size, weights = semivalue_weights(federation.n_agents, probability), federation.dense_weights()
    agents = range(federation.n_agents)
    return np.array([_from_increments(federation, contributions, weights, agent, by_size) for agent in agents])


def _weights(n_agents: int) -> FloatArray:
    """c(k) for k = 0..n, with c(0) = 0."""
    sizes = np.arange(1, n_agents + 1)
    return np.concatenate([[0.0], np.exp(gammaln(sizes) + gammaln(n_agents - sizes + 1) - gammaln(n_agents + 1))])


def _blocks(count: int) -> Iterator[np.ndarray]:
    for start in range(0, count, COALITIONS_AT_A_TIME):
        yield np.arange(start, min(start + COALITIONS_AT_A_TIME, count))


def _members(rows: np.ndarray, n_agents: int) -> FloatArray:
    return ((rows[:, None] >> np.arange(n_agents)) & 1).astype(np.float64)


def _from_totals(totals: FloatArray, agent: int, n_agents: int) -> float:
    pairs = totals.reshape(-1, 2, 1 << agent)
    sizes = np.bitwise_count(np.arange(1 << n_agents)).reshape(-1, 2, 1 << agent)[:, 1]
    return float((_weights(n_agents)[sizes] * (pairs[:, 1] - pairs[:, 0])).sum())


def _from_increments(
    federation: Federation, contributions: FloatArray, weights: FloatArray, agent: int, by_size: FloatArray
) -> float:
    n_agents = federation.n_agents
    if federation.has_lots:
        own = federation.lots_of(agent)
        step = weights[:, own] @ contributions[own]
    else:
        step = weights[:, agent] * contributions[agent]
    value = 0.0
    for rows in _blocks(1 << n_agents):
        without = _members(rows, n_agents)
        without = without[without[:, agent] == 0]
        brought = without[:, federation.lot_owners] if federation.has_lots else without
        data = (brought * contributions) @ weights.T
        share = by_size[without.sum(axis=1).astype(np.intp) + 1]
        value += float(share @ (federation.payoff.increment(data, step) @ federation.values))
    return value

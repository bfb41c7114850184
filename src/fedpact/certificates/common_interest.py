"""The most one agent could gain where everybody's utility rises with the payoffs of all.

Where agent i has u_i = share A(s) - c_i(s_i) + constant_i, A the sum of all payoffs, it maximises share A(x, s_-i) -
c_i(x) over its own contribution x. That is concave in x: its tangent bounds every gain, and where the bound is not
rounding, all x in [0, cap] are searched by bisection.

Cost: the tangents are one product with the weights; a search takes 64 payoffs of everybody for each agent searched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.deviations import Deviations
from fedpact.certificates.optimality import better_profile, tangent_gains
from fedpact.certificates.own_lots import OwnGame
from fedpact.certificates.shared_caps import best_contributions
from fedpact.certificates.tolerances import DOMAIN_EDGE, agent_values, utility_tolerances
from fedpact.federation import Batch, Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.lots import take_shared_caps
from fedpact.utils.arrays import FloatArray

MAX_PAYOFFS_AT_A_TIME = 2_000_000
SCOPE_OF_LOTS = "all amounts of one member's lots within the caps, paid with the payoffs of all"
COMMON_INTEREST_SCOPE = "all contributions of one member in [0, cap], paid with the payoffs of all"


def sharing_total(
    federation: Federation, contributions: FloatArray, constants: FloatArray, *, share: float = 1.0
) -> Deviations:
    """The best each agent could do with u_i = share A(s) - c_i(s_i) + constants_i."""
    if not federation.admits(contributions):
        anything = np.full(federation.n_agents, np.inf)
        return Deviations(actions=contributions, utilities=anything, scope="somebody is outside its payoff's domain")
    if federation.has_lots:
        return _sharing_total_lots(federation, contributions, constants, share)
    payoffs, costs = federation.payoffs(contributions), federation.costs.value(contributions)
    here = share * payoffs.sum() - costs + constants
    earned = share * np.asarray(federation.weights.T @ federation.marginal_payoffs(contributions))
    upper = own_limits(federation, contributions)
    gains = tangent_gains(contributions, earned - federation.costs.slope(contributions), upper)
    tols = utility_tolerances(payoffs, costs, here + costs - payoffs, federation.values)
    actions = np.array(contributions)
    suspects = np.flatnonzero(~(gains <= tols))
    at_a_time = max(1, MAX_PAYOFFS_AT_A_TIME // federation.n_agents)
    for some in (suspects[first : first + at_a_time] for first in range(0, suspects.size, at_a_time)):
        best, found = _search(federation, contributions, some, upper[some], share)
        actions[some] = np.where(found > 0, best, contributions[some])
        gains[some] = np.maximum(found, 0.0)
    return Deviations(actions=actions, utilities=here + gains, scope=COMMON_INTEREST_SCOPE)


def _sharing_total_lots(
    federation: Federation, contributions: FloatArray, constants: FloatArray, share: float
) -> Deviations:
    """The same over all amounts of an agent's lots."""
    payoffs, costs = federation.payoffs(contributions), federation.spending(contributions)
    here = share * payoffs.sum() - costs + constants
    earned = share * np.asarray(federation.weights.T @ federation.marginal_payoffs(contributions))
    upper = np.maximum(contribution_bounds(federation)[0], contributions)
    slopes = earned - federation.costs.slope(contributions)
    rises = tangent_gains(contributions, slopes, upper, federation.shared_caps)
    gains = federation.per_agent_from_lots(rises)
    tols = utility_tolerances(payoffs, costs, here + costs - payoffs, agent_values(federation))
    actions, short = np.array(contributions), gains.copy()
    for agent in np.flatnonzero(~(gains <= tols)).tolist():
        own = federation.lots_of(agent)
        columns = federation.weights[:, own]
        columns = columns if isinstance(columns, np.ndarray) else columns.toarray()
        game = OwnGame(
            weights=columns,
            values=share * federation.values,
            payoff=federation.payoff,
            costs=federation.costs.take(own),
            background=federation.data(np.where(federation.lot_owners == agent, 0.0, contributions)),
            shared_caps=take_shared_caps(federation.shared_caps, own),
        )
        if not game.admits(np.zeros(own.size)):  # the others need its data: the tangents bound what it gains
            continue
        limits = np.maximum(game.box(federation.reachable_caps[own]), contributions[own])
        actions[own], best, short[agent] = game.best(contributions[own], limits)
        gains[agent] = max(best - game.welfare(contributions[own]), 0.0)
    return Deviations(actions=actions, utilities=here + gains, shortfalls=short, scope=SCOPE_OF_LOTS)


def total_bounds(batch: Batch, contributions: FloatArray, constants: FloatArray, *, share: float = 1.0) -> FloatArray:
    """Utilities nobody exceeds by another contribution of its own in any federation of a batch, by tangents."""
    profile = contributions.ravel()
    payoffs = batch.split(batch.joined.payoffs(profile))
    here = share * payoffs.sum(axis=1, keepdims=True) - batch.split(batch.joined.costs.value(profile)) + constants
    earned = share * np.asarray(batch.joined.weights.T @ batch.joined.marginal_payoffs(profile))
    upper = batch.joined.caps if batch.has_harm else np.maximum(batch.bounds()[0], profile)
    gains = tangent_gains(profile, earned - batch.joined.costs.slope(profile), upper)
    return np.asarray(here + batch.split(gains))


def welfare_of_others(federation: Federation, contributions: FloatArray) -> FloatArray:
    """For every agent, the most welfare the others reach without it, by Newton steps from what they contribute here."""
    found = np.zeros(federation.n_agents)
    for agent in range(federation.n_agents if federation.n_agents > 1 else 0):
        others = np.delete(np.arange(federation.n_agents), agent)
        lots = (
            np.concatenate([federation.lots_of(other) for other in others.tolist()]) if federation.has_lots else others
        )
        if lots.size and np.isin(others, federation.task_owners).any():
            without = federation.take(others)
            found[agent] = without.welfare(better_profile(without, contributions[lots]))
    return found


def own_limits(federation: Federation, contributions: FloatArray) -> FloatArray:
    """How far an agent may want to go: to its cap, as far as its data could pay for or everybody's domain allows."""
    if not federation.has_harm:
        return np.maximum(contribution_bounds(federation)[0], contributions)
    entries = federation.sparse_weights().tocoo()
    receivers, agents = entries.coords
    harms = entries.data < 0
    room = np.asarray(federation.data(contributions) - federation.payoff.floor)
    limits = np.full(federation.n_agents, np.inf)
    reached = contributions[agents[harms]] - room[receivers[harms]] / entries.data[harms] * (1.0 - DOMAIN_EDGE)
    np.minimum.at(limits, agents[harms], reached)
    return np.minimum(federation.caps, limits)


def _search(
    federation: Federation, contributions: FloatArray, agents: NDArray[np.intp], upper: FloatArray, share: float
) -> tuple[FloatArray, FloatArray]:
    """For some agents: the contribution up to `upper` that is best for them, and what is gained by it."""
    columns = federation.weights[:, agents]
    columns = np.asarray(columns if isinstance(columns, np.ndarray) else columns.toarray()).T
    data, costs, payoff = federation.data(contributions), federation.costs.take(agents), federation.payoff
    now = contributions[agents]

    def slope(x: FloatArray) -> FloatArray:
        reached = data + (x - now)[:, None] * columns
        inside = np.all(reached > payoff.floor, axis=1)  # below, its help is what somebody needs at any price
        slopes = federation.values * payoff.slope(np.where(inside[:, None], reached, data))
        return np.where(inside, share * (slopes * columns).sum(axis=1), np.inf) - costs.slope(x)

    best = best_contributions(slope, upper)
    steps = (best - now)[:, None] * columns
    rises = (federation.values * payoff.increment(np.broadcast_to(data, steps.shape), steps)).sum(axis=1)
    return best, share * rises - (costs.value(best) - costs.value(now))

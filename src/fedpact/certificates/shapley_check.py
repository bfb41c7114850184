"""Shapley values and slopes worked out anew, to hold a deal against: no code is shared with `fedpact.shapley`.

Up to `MAX_COALITION_AGENTS` agents every coalition is listed, and an agent's value is the sum of what it adds. Beyond,
the integral of `docs/theory` is evaluated receiver by receiver in NumPy,

    phi_j = sum_i values_i int dm(t) int_0^1 dq (1 - e^{-t x_ij}) prod_{k != j} (1 - q + q e^{-t x_ik})

with x_ik = w_ik s_k and nodes in t and q that no solver uses: q itself, not its root, on the range where the product
has not yet vanished. That the values add up to all payoffs, which are known in closed form, bounds the error.

With a `probability` q everywhere: semivalues, what an agent adds on average to coalitions in which everybody else sits
with that probability. There is no integral over q then; the nodes in t are held against the payoffs themselves.

Cost of the integral: receivers x senders who contribute x about 900 nodes (t, q).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.own_lots import OwnGame
from fedpact.certificates.shapley_integral import log_left_without, sender_credits, weighted_gains
from fedpact.certificates.shared_caps import best_contributions
from fedpact.certificates.tolerances import DOMAIN_EDGE
from fedpact.federation import Cost, Exponential, Federation
from fedpact.federation.arrays import sum_by
from fedpact.federation.lots import take_shared_caps
from fedpact.utils.arrays import FloatArray

MAX_COALITION_AGENTS = 12
# The trapezoid in log t is off by exp(-pi^2 / T_STEP) = 1e-14, what lies below T_TAIL over the data reached by 1e-11.
T_STEP, T_TAIL = 0.31, 1e-11
MAX_COEFFICIENTS = 20_000_000  # held at once while agents' own contributions are searched
MAX_EXPONENT = 690.0
EDGE_ROUNDING = 1e-15  # of the floor of a payoff
MAX_ERROR = 1e-9  # of the payoffs: values that miss them by more prove nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedShares:
    """Shapley values and their slopes d phi_j / d s_j.

    Attributes
    ----------
    error
        By how much the values miss the sum of all payoffs, or the nodes of semivalues these payoffs.
    proves
        Whether that is little enough to prove anything by.
    method
        How they were obtained, in words.
    """

    values: FloatArray
    slopes: FloatArray
    error: float
    proves: bool
    method: str


class _Game(Protocol):
    def at_profile(self) -> tuple[FloatArray, FloatArray]:
        """Values and slopes of all agents."""

    def best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """For some agents: the contribution up to `upper` that maximises value less cost, and the value there."""


def check_shares(
    federation: Federation, contributions: FloatArray, probability: float | None = None
) -> CheckedShares | None:
    """The Shapley values of a profile, or semivalues; None where some coalition leaves the domain."""
    if leaves_domain(federation, contributions).any():
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values, slopes = (np.ravel(found) for found in _game(federation, contributions, probability).at_profile())
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            return None
    payoffs = federation.payoffs(contributions)
    few = federation.n_agents <= MAX_COALITION_AGENTS
    error = abs(float(values.sum() - payoffs.sum()))
    if probability is not None:
        error = 0.0 if few else _node_error(federation, contributions)
    size = max(float(np.abs(payoffs).sum()), float(np.abs(values).sum()))
    return CheckedShares(
        values=values,
        slopes=slopes,
        error=error,
        proves=error <= MAX_ERROR * size,
        method="all coalitions" if few else "an integral of its own",
    )


def _node_error(federation: Federation, contributions: FloatArray) -> float:
    """By how much the nodes in t miss the payoffs of a profile."""
    reached = federation.lowest_data(contributions), federation.highest_data(contributions)
    times, log_masses = federation.payoff.rule(*reached, T_STEP, T_TAIL)
    found = federation.values * weighted_gains(log_masses, -times * federation.data(contributions)[:, None]).sum(axis=1)
    return float(np.abs(found - federation.task_payoffs(contributions)).sum())


def leaves_domain(federation: Federation, contributions: FloatArray) -> NDArray[np.bool_]:
    """Whose payoff is not defined in the coalition that is worst for it."""
    worst = federation.lowest_data(contributions)
    return np.asarray(worst <= federation.payoff.floor)


def best_own_contributions(
    federation: Federation,
    contributions: FloatArray,
    agents: NDArray[np.intp],
    upper: FloatArray,
    probability: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """For some agents: the contribution in [0, upper] that maximises phi_j - c_j, the others fixed, and phi_j there."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _game(federation, contributions, probability).best(agents, upper)


def domain_limits(federation: Federation, contributions: FloatArray) -> FloatArray:
    """How far each agent alone can raise its contribution: its cap, or just short of where a coalition is lost."""
    entries = federation.sparse_weights().tocoo()
    receivers, agents = entries.coords
    harms = entries.data < 0
    room = np.asarray(federation.negative_weights() @ contributions) - federation.payoff.floor
    limits = np.full(federation.n_agents, np.inf)
    reached = contributions[agents[harms]] - room[receivers[harms]] / entries.data[harms]
    np.minimum.at(limits, agents[harms], reached)
    return np.minimum(federation.caps, limits * (1.0 - DOMAIN_EDGE))


def own_share_game(
    federation: Federation,
    contributions: FloatArray,
    agent: int,
    upper: FloatArray,
    *,
    probability: float | None = None,
) -> OwnGame:
    """phi_j less the costs as a function of agent j's lots, up to `upper`, the others fixed."""
    kind = CoalitionsOfLots if federation.n_agents <= MAX_COALITION_AGENTS else _IntegralOfLots
    return kind(federation, contributions, probability=probability).own_game(agent, upper)


def _game(federation: Federation, contributions: FloatArray, probability: float | None) -> _Game:
    few = federation.n_agents <= MAX_COALITION_AGENTS
    if federation.has_lots:
        return (CoalitionsOfLots if few else _IntegralOfLots)(federation, contributions, probability=probability)
    if few:
        return Coalitions(federation, federation.dense_weights()[None], contributions[None], probability=probability)
    return _Integral(federation, contributions, probability=probability)


class Coalitions:
    """The games of federations side by side by their 2^n coalitions.

    Row r of `data` is y of the coalition whose members are the bits of r, in every federation.

    Parameters
    ----------
    federation
        All of them in one, unconnected.
    weights, contributions
        Those of each: (federations, n, n) and (federations, n).
    probability
        With which every other agent is there when an agent comes; if not given, agents come in a random order.
    """

    def __init__(
        self,
        federation: Federation,
        weights: FloatArray,
        contributions: FloatArray,
        *,
        probability: float | None = None,
    ) -> None:
        self.federation, self.weights, self.contributions = federation, weights, contributions
        n_agents = self.n_agents = contributions.shape[1]
        self.members = (np.arange(1 << n_agents)[:, None] >> np.arange(n_agents)) & 1
        given = (weights * contributions[:, None, :]).reshape(-1, n_agents)
        self.data = self.members @ given.T
        self.chances = _chances(n_agents, probability)[self.members.sum(axis=1)]

    def at_profile(self) -> tuple[FloatArray, FloatArray]:
        """Values and slopes of all agents, (federations, n)."""
        agents = range(self.n_agents)
        values = [self._value(agent, self.contributions[:, agent]) for agent in agents]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return np.stack(values, axis=1), self.slopes(self.contributions)

    def slopes(self, own: FloatArray) -> FloatArray:
        """The slope of each agent if it alone contributed something else."""
        return np.stack([self._slope(agent, own[:, agent]) for agent in range(self.n_agents)], axis=1)

    def best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of one federation: the best contributions of some agents, and their values there."""
        found = np.empty(agents.size)
        for place, agent in enumerate(agents):
            cost = self.federation.costs.take([agent])

            def slope(x: FloatArray, agent: int = int(agent), cost: Cost = cost) -> FloatArray:
                return self._slope(agent, x) - cost.slope(x)

            found[place] = best_contributions(slope, upper[[place]])[0]
        return found, np.array([self._value(int(j), found[[place]])[0] for place, j in enumerate(agents)])

    def _value(self, agent: int, own: FloatArray) -> FloatArray:
        before = self.members[:, agent] == 0
        steps = (self.weights[:, :, agent] * own[:, None]).ravel()
        added = self.federation.payoff.increment(self.data[before], steps)
        return self._sum(self.federation.values * (self.chances[before] @ added))

    def _slope(self, agent: int, own: FloatArray) -> FloatArray:
        before, column = self.members[:, agent] == 0, self.weights[:, :, agent]
        slopes = self.federation.payoff.slope(self.data[before] + (column * own[:, None]).ravel())
        return self._sum(self.federation.values * column.ravel() * (self.chances[before] @ slopes))

    def _sum(self, by_receiver: FloatArray) -> FloatArray:
        return np.asarray(by_receiver.reshape(-1, self.n_agents).sum(axis=1))


def _chances(n_agents: int, probability: float | None) -> FloatArray:
    """With which an agent finds exactly a coalition of each size before it; nothing for the whole."""
    # In a random order an agent finds exactly X before it in one case of n times n - 1 over |X|.
    chances = [1.0 / (n_agents * comb(n_agents - 1, size)) for size in range(n_agents)]
    if probability is not None:
        chances = [probability**size * (1.0 - probability) ** (n_agents - 1 - size) for size in range(n_agents)]
    return np.array([*chances, 0.0])


class _Integral:
    """The game by its integral, one receiver after the other; `probability` as for `Coalitions`."""

    def __init__(self, federation: Federation, contributions: FloatArray, *, probability: float | None = None) -> None:
        self.federation, self.contributions, self.probability = federation, contributions, probability
        self.rows = federation.sparse_weights()
        self.lowest = np.asarray(federation.negative_weights() @ contributions)
        self.highest = np.asarray(federation.positive_weights() @ contributions)

    def at_profile(self) -> tuple[FloatArray, FloatArray]:
        """Values and slopes of all agents."""
        values, slopes = np.zeros(self.federation.n_agents), np.zeros(self.federation.n_agents)
        if self.probability is None and not (self.lowest < 0.0).any():
            for senders, weights, t, masses in self._rows(self.lowest, self.highest):
                worth, rate = sender_credits(t, masses, weights * self.contributions[senders])
                values[senders] += worth
                slopes[senders] += weights * rate
            return values, slopes
        every = np.arange(self.federation.n_agents)
        for agents, rates, log_left in self._receivers(every, self.lowest, self.highest):
            exponents = -rates * self.contributions[agents]
            values[agents] += weighted_gains(log_left, exponents).sum(axis=0)
            slopes[agents] += (rates * np.exp(log_left + exponents)).sum(axis=0)
        return values, slopes

    def best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best contributions of some agents, and their values there."""
        found, values = np.empty(agents.size), np.empty(agents.size)
        size = max(1, MAX_COEFFICIENTS // (100 * self.federation.n_agents))
        for first in range(0, agents.size, size):
            some = slice(first, first + size)
            found[some], values[some] = self._best(agents[some], upper[some])
        return found, values

    def _best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        lowest, highest = self._reachable(agents, upper)
        place = np.full(self.federation.n_agents, -1)
        place[agents] = np.arange(agents.size)
        parts = [
            (np.broadcast_to(place[some], rates.shape).ravel(), rates.ravel(), log_left.ravel())
            for some, rates, log_left in self._receivers(agents, lowest, highest)
        ]
        owners, rates, log_left = (np.concatenate(part) for part in zip(*parts, strict=True))
        cost = self.federation.costs.take(agents)

        def slope(x: FloatArray) -> FloatArray:
            terms = rates * np.exp(np.minimum(log_left - rates * x[owners], MAX_EXPONENT))
            return np.bincount(owners, weights=terms, minlength=agents.size) - cost.slope(x)

        best = best_contributions(slope, upper)
        gains = weighted_gains(log_left, -rates * best[owners])
        return best, np.asarray(np.bincount(owners, weights=gains, minlength=agents.size), dtype=np.float64)

    def _reachable(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The range of every receiver's y while any one of the agents moves through [0, upper]."""
        ends = np.where(np.isfinite(upper), upper, self.contributions[agents])
        steps = self.rows[:, agents].multiply(np.maximum(ends - self.contributions[agents], 0.0)).tocsr()
        down, up = steps.minimum(0.0).min(axis=1), steps.maximum(0.0).max(axis=1)
        reached, floor = self.lowest + down.toarray().ravel(), np.asarray(self.federation.payoff.floor)
        # Next to the edge of the domain the sum is rounded; what is inside stays inside.
        inside = np.where(self.lowest > floor, np.maximum(reached, floor * (1.0 - EDGE_ROUNDING)), reached)
        return inside, self.highest + up.toarray().ravel()

    def _receivers(
        self, wanted: NDArray[np.intp], lowest: FloatArray, highest: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], FloatArray, FloatArray]]:
        """For every receiver: the wanted agents whose data reaches it, their rates t w, and the logs of what is left.

        What is left of the integrand without agent j, summed over q, multiplies 1 - e^{-t w_ij s_j} in phi_j.
        """
        is_wanted = np.zeros(self.federation.n_agents, dtype=bool)
        is_wanted[wanted] = True
        for senders, weights, t, log_masses in self._rows(lowest, highest):
            chosen = np.flatnonzero(is_wanted[senders] & (weights != 0))
            if chosen.size:
                left = log_left_without(t, weights * self.contributions[senders], chosen, self.probability)
                yield senders[chosen], t[:, None] * weights[chosen], log_masses[:, None] + left

    def _rows(
        self, lowest: FloatArray, highest: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], FloatArray, FloatArray, FloatArray]]:
        """For every receiver: whose data reaches it, their weights, and its nodes t with the logs of their masses."""
        times, log_masses = self.federation.payoff.rule(lowest, highest, T_STEP, T_TAIL)
        log_masses = log_masses + np.log(self.federation.values)[:, None]
        starts = self.rows.indptr
        for receiver in range(self.federation.n_agents):
            row = slice(starts[receiver], starts[receiver + 1])
            yield self.rows.indices[row], self.rows.data[row], times[receiver], log_masses[receiver]


class CoalitionsOfLots:
    """The game of agents with several lots by its 2^n coalitions; `probability` as for `Coalitions`."""

    def __init__(self, federation: Federation, contributions: FloatArray, *, probability: float | None = None) -> None:
        self.federation, self.contributions = federation, contributions
        n_agents = federation.n_agents
        self.weights = federation.dense_weights()
        self.members = (np.arange(1 << n_agents)[:, None] >> np.arange(n_agents)) & 1
        self.data = (self.members[:, federation.lot_owners] * contributions) @ self.weights.T
        self.chances = _chances(n_agents, probability)[self.members.sum(axis=1)]

    def at_profile(self) -> tuple[FloatArray, FloatArray]:
        """Values of all agents and slopes of all lots."""
        federation = self.federation
        values, slopes = np.zeros(federation.n_agents), np.zeros(federation.n_lots)
        for agent in range(federation.n_agents):
            own, before = federation.lots_of(agent), self.members[:, agent] == 0
            step, chances = self.weights[:, own] @ self.contributions[own], self.chances[before]
            added = federation.payoff.increment(self.data[before], step)
            values[agent] = chances @ (added @ federation.values)
            rises = chances @ federation.payoff.slope(self.data[before] + step)
            slopes[own] = (rises * federation.values) @ self.weights[:, own]
        return values, slopes

    def best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise NotImplementedError("of members with several lots, `own_share_game` is climbed")

    def own_game(self, agent: int, upper: FloatArray) -> OwnGame:
        """A row for every coalition without the agent and every task."""
        federation, before = self.federation, self.members[:, agent] == 0
        own, count = federation.lots_of(agent), int(before.sum())
        tasks = np.tile(np.arange(federation.n_tasks), count)
        return OwnGame(
            weights=np.tile(self.weights[:, own], (count, 1)),
            values=(self.chances[before][:, None] * federation.values).ravel(),
            payoff=federation.payoff.take(tasks),
            costs=federation.costs.take(own),
            background=self.data[before].ravel(),
            shared_caps=take_shared_caps(federation.shared_caps, own),
        )


class _IntegralOfLots:
    """The game of agents with several lots by its integral, one task after the other; `probability` as before."""

    def __init__(self, federation: Federation, contributions: FloatArray, *, probability: float | None = None) -> None:
        self.federation, self.contributions, self.probability = federation, contributions, probability
        self.rows = federation.sparse_weights()

    def at_profile(self) -> tuple[FloatArray, FloatArray]:
        """Values of all agents and slopes of all lots."""
        federation = self.federation
        values, slopes = np.zeros(federation.n_agents), np.zeros(federation.n_lots)
        lowest, highest = federation.lowest_data(self.contributions), federation.highest_data(self.contributions)
        for _, row, agents, places, t, pulled, log_left in self._tasks(lowest, highest):
            exponents = -t[:, None] * pulled
            values[agents] += weighted_gains(log_left, exponents).sum(axis=0)
            rises = (t[:, None] * np.exp(log_left + exponents)).sum(axis=0)
            slopes[self.rows.indices[row]] += self.rows.data[row] * rises[places]
        return values, slopes

    def best(self, agents: NDArray[np.intp], upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise NotImplementedError("of members with several lots, `own_share_game` is climbed")

    def own_game(self, agent: int, upper: FloatArray) -> OwnGame:
        """A row for every task and t, each 1 - e^-y; the domain is kept by what each task must exceed."""
        federation, own = self.federation, self.federation.lots_of(agent)
        weights = self.rows[:, own].toarray()
        others = self.contributions.copy()
        others[own] = 0.0
        alone = federation.lowest_data(others)
        floor = np.broadcast_to(federation.payoff.floor, alone.shape)
        with np.errstate(invalid="ignore"):
            deepest = np.nan_to_num(np.minimum(weights, 0.0) @ upper, nan=-np.inf)
        lowest = np.maximum(alone + deepest, floor * (1.0 - DOMAIN_EDGE) + DOMAIN_EDGE * alone)
        rates, values, floors = [], [], []
        for task, _, agents, _, t, _, log_left in self._tasks(lowest, federation.highest_data(self.contributions)):
            for place in np.flatnonzero(agents == agent):
                rates.append(t[:, None] * weights[task])
                values.append(np.exp(log_left[:, place]))
                floors.append(t * (floor[task] - alone[task]))
        shape = (0, own.size)
        return OwnGame(
            weights=np.concatenate([np.zeros(shape), *rates]),
            values=np.concatenate([np.zeros(0), *values]),
            payoff=Exponential(1.0),
            costs=federation.costs.take(own),
            background=np.zeros(sum(each.size for each in values)),
            floor=np.concatenate([np.zeros(0), *floors]),
            shared_caps=take_shared_caps(federation.shared_caps, own),
        )

    def _tasks(self, lowest: FloatArray, highest: FloatArray) -> Iterator[Any]:
        """For every task: its row, the agents who reach it, each lot's place among them, t, u and the logs left."""
        federation = self.federation
        times, log_masses = federation.payoff.rule(lowest, highest, T_STEP, T_TAIL)
        log_masses = log_masses + np.log(federation.values)[:, None]
        for task in range(federation.n_tasks):
            row = slice(self.rows.indptr[task], self.rows.indptr[task + 1])
            lots = self.rows.indices[row]
            if lots.size:
                agents, places = np.unique(federation.lot_owners[lots], return_inverse=True)
                pulled = sum_by(places, self.rows.data[row] * self.contributions[lots], agents.size)
                left = log_left_without(times[task], pulled, np.arange(agents.size), self.probability)
                yield task, row, agents, places, times[task], pulled, log_masses[task][:, None] + left

"""What an agent with several lots could gain by bringing other amounts of them: a concave program in its own lots.

Its utility is a sum of concave functions of what the lots bring to each task, less their costs. Newton steps find the
best amounts, and at the amounts found the tangents bound every other choice: what is reported is never too little. How
much of it the amounts found do not reach is reported too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.optimality import climb, tangent_gains
from fedpact.federation import Cost, Federation, Payoff, SharedCap
from fedpact.federation.bounds import largest_spending
from fedpact.federation.lots import take_shared_caps
from fedpact.federation.validation import Weights
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Charges(Cost):
    """Any charges per sample, also negative ones, and rising costs."""

    linear: FloatArray
    quadratic: FloatArray

    def take(self, agents: ArrayLike) -> Charges:
        places = np.asarray(agents)
        return Charges(self.linear[places], self.quadratic[places])


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnGame:
    """sum_r values_r [g_r(background_r + (W x)_r) - g_r(background_r)] - costs(x).

    Attributes
    ----------
    background
        What the others bring to each row.
    floor
        What every row must exceed besides the payoff's own floor; None if nothing else.
    shared_caps
        Caps that some of the lots share.
    """

    weights: FloatArray
    values: FloatArray
    payoff: Payoff
    costs: Cost
    background: FloatArray
    floor: FloatArray | None = None
    shared_caps: tuple[SharedCap, ...] = ()

    def data(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.background + self.weights @ x)

    def marginal_payoffs(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.values * self.payoff.slope(self.data(x)))

    def welfare(self, x: FloatArray) -> float:
        gains = self.values * self.payoff.increment(self.background, self.weights @ x)
        return float(gains.sum() - self.costs.value(x).sum())

    def admits(self, x: FloatArray) -> bool:
        data = self.data(x)
        inside = (data > self.payoff.floor).all() and (self.floor is None or bool((data > self.floor).all()))
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(inside and np.isfinite(self.payoff.slope(data)).all())

    def box(self, caps: FloatArray) -> FloatArray:
        """No choice outside pays: what is spent beyond is more than the payoff it could buy. For costs that rise."""
        helpful = np.maximum(self.weights, 0.0)

        def worth(spending: FloatArray) -> FloatArray:
            bought = helpful @ self.costs.affordable(spending[0])
            return np.array([float((self.values * self.payoff.increment(self.background, bought)).sum())])

        with np.errstate(over="ignore", invalid="ignore"):
            return np.minimum(caps, self.costs.affordable(2.0 * largest_spending(worth, 1)[0]))

    def best(self, start: FloatArray, upper: FloatArray) -> tuple[FloatArray, float, float]:
        """The best choice up to `upper`, a bound on the gain of every choice, and what the choice falls short of it.

        From `start`, in the domain.
        """
        most = self.payoff.increment(self.background, np.maximum(self.weights, 0.0) @ upper)
        scale = max(float((self.values * most).sum()), np.finfo(float).tiny)
        found = np.minimum(start, upper)
        plain = ~self.weights.any(axis=0)  # of no use: only their charges count
        if self.shared_caps:
            plain = np.zeros_like(plain)
        found[plain] = self._cheapest(upper)[plain]
        if not plain.all():
            used = np.flatnonzero(~plain)
            part = replace(self, weights=self.weights[:, used], costs=self.costs.take(used))
            found[used] = climb(part, found[used], upper[used], scale)
        slopes = np.asarray(self.weights.T @ self.marginal_payoffs(found)) - self.costs.slope(found)
        short = float(tangent_gains(found, slopes, upper, self.shared_caps).sum())
        return found, self.welfare(found) + short, short

    def _cheapest(self, upper: FloatArray) -> FloatArray:
        """The amounts up to `upper` that cost least, or earn most where charges are negative."""
        linear, bend = self.costs.linear, 2.0 * self.costs.quadratic
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(bend > 0, -linear / bend, np.where(linear < 0, np.inf, 0.0))
        return np.clip(inner, 0.0, upper)


def own_game(federation: Federation, agent: int, contributions: FloatArray) -> OwnGame | None:
    """An agent's tasks and lots while the others bring what they bring; None where it has no tasks or no lots."""
    own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
    if not own.size or not tasks.size:
        return None
    others = contributions.copy()
    others[own] = 0.0
    rows: Weights = federation.weights[tasks]
    return OwnGame(
        weights=_dense(rows[:, own]),
        values=federation.values[tasks],
        payoff=federation.payoff.take(tasks),
        costs=federation.costs.take(own),
        background=np.asarray(rows @ others),
        shared_caps=take_shared_caps(federation.shared_caps, own),
    )


def best_without_payments(
    federation: Federation, background: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Every agent's best lots, a bound on its payoff less costs, and what the lots fall short of it.

    The others bring `background`, nobody pays.
    """
    actions, utilities, short = start.copy(), np.zeros(federation.n_agents), np.zeros(federation.n_agents)
    for agent in range(federation.n_agents):
        own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
        others = background.copy()
        others[own] = 0.0
        game = own_game(federation, agent, others)
        if game is None:
            base = federation.weights[tasks] @ others if tasks.size else np.zeros(0)
            utilities[agent] = float((federation.values[tasks] * federation.payoff.take(tasks).value(base)).sum())
            actions[own] = 0.0
            continue
        upper = game.box(federation.reachable_caps[own])
        actions[own], gain, short[agent] = game.best(start[own], upper)
        utilities[agent] = float((game.values * game.payoff.value(game.background)).sum()) + gain
    return actions, utilities, short


def best_at_prices_of_lots(
    federation: Federation, agent: int, contributions: FloatArray, prices: FloatArray, upper: FloatArray
) -> tuple[FloatArray, float, float]:
    """The profile an agent would ask for at its prices, a bound on its utility, and what the profile falls short."""
    own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
    linear, quadratic = prices.copy(), np.zeros_like(prices)
    linear[own] += np.broadcast_to(federation.costs.linear, prices.shape)[own]
    quadratic[own] = np.broadcast_to(federation.costs.quadratic, prices.shape)[own]
    game = OwnGame(
        weights=_dense(federation.weights[tasks]),
        values=federation.values[tasks],
        payoff=federation.payoff.take(tasks),
        costs=Charges(linear, quadratic),
        background=np.zeros(tasks.size),
        shared_caps=federation.shared_caps,
    )
    return game.best(contributions, upper)


def _dense(matrix: Weights) -> FloatArray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()

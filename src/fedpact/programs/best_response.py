"""What one agent would do for itself, the contributions of the others fixed.

Concave maximisation in one variable, by the root of a falling slope; of an agent with several lots, in its own lots.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.federation import Cost, Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.shared_caps import take_shared_caps
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.domain import edge_rows, room
from fedpact.programs.roots import falling_root, falling_roots
from fedpact.programs.shared_caps import maximise_within
from fedpact.programs.social_optimum import face_from, social_optimum
from fedpact.shapley.own_share import OwnLots, OwnShare, own_lots
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged


def best_own(federation: Federation, background: FloatArray) -> FloatArray:
    """Each agent's best contribution when the others' data gives it y = `background`.

    With linear costs the data an agent wants is known in closed form: values w_ii g'(y) = c'. With rising marginal
    costs it is the root of a falling function.
    """
    own = federation.own_weights
    cost = federation.costs
    if not cost.quadratic.any():
        with np.errstate(over="ignore", divide="ignore"):  # a gain that costs infinitely much is not wanted
            wanted = federation.payoff.inverse_slope(cost.linear / (federation.values * own))
            needed = (wanted - background) / own  # infinite where the cap is all that counts
        return np.clip(needed, 0.0, federation.caps)

    def slope(x: FloatArray) -> FloatArray:
        data = background + own * x
        inside = data > federation.payoff.floor
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            worth = federation.values * own * federation.payoff.slope(data)
        return np.where(inside, worth, np.inf) - cost.slope(x)

    return falling_roots(slope, federation.caps)


def own_utilities(federation: Federation, contributions: FloatArray, background: FloatArray) -> FloatArray:
    """a_i - c_i at own contributions on top of `background`."""
    data = background + federation.own_weights * contributions
    return federation.values * federation.payoff.value(data) - federation.costs.value(contributions)


def standalone_optimum(federation: Federation) -> tuple[FloatArray, FloatArray]:
    """Contributions and utilities v_i* of agents that train alone, equation (6) of the paper.

    An agent with several lots maximises the welfare of the federation that it is by itself.
    """
    if federation.has_lots:
        return _standalone_lots(federation)
    alone = np.zeros(federation.n_agents)
    contributions = best_own(federation, alone)
    return contributions, own_utilities(federation, contributions, alone)


def _standalone_lots(federation: Federation) -> tuple[FloatArray, FloatArray]:
    contributions, utilities = np.zeros(federation.n_lots), np.zeros(federation.n_agents)
    for agent in range(federation.n_agents):
        own = federation.lots_of(agent)
        if own.size and federation.tasks_of(agent).size:
            alone = social_optimum(federation.take([agent]))
            contributions[own], utilities[agent] = alone.contributions, alone.welfare
    return contributions, utilities


class OwnProgram:
    """One agent's lots: maximise a concave function of what they bring to each task, less their costs."""

    def __init__(self, share: OwnLots, cost: Cost, upper: FloatArray) -> None:
        self.share, self.cost, self.upper = share, cost, upper
        best = np.maximum(share.weights, 0.0) @ upper
        self.scale = max(share.value(best), np.finfo(float).tiny)

    def gradient(self, contributions: FloatArray) -> FloatArray:
        slopes = self.share.slopes(self.share.weights @ contributions)
        return np.asarray(self.share.weights.T @ slopes - self.cost.slope(contributions))

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        weights = self.share.weights
        bends = self.share.bends(weights @ contributions)
        hessian = weights.T @ (bends[:, None] * weights) - np.diag(self.cost.curvature(contributions))
        return DenseCurvature.scaled(hessian, left, right)

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        return room(self.share.weights, self.share.floor, contributions, direction)

    def edges(self) -> FloatArray | None:
        return edge_rows(self.share.weights, self.share.floor)

    def start(self) -> FloatArray:
        point = self.upper / (1.0 + self.upper.size)
        return point * min(1.0, 0.5 * float(self.room(np.zeros_like(point), point)))


def best_lots(federation: Federation, share: OwnLots, agent: int, upper: FloatArray) -> FloatArray:
    """The contributions of an agent's lots that maximise a share less their cost; of several, those of smallest norm.

    `upper` bounds them, within the caps; `NotConverged` if it turns out to bind where a cap does not.
    """
    own = federation.lots_of(agent)
    cost, caps = federation.costs.take(own), federation.caps[own]
    shared, reachable = take_shared_caps(federation.shared_caps, own), federation.reachable_caps[own]
    if share.value(np.maximum(share.weights, 0.0) @ upper) <= 0.0:  # there is nothing to be had
        return np.zeros(own.size)
    program = OwnProgram(share, cost, upper)
    found = maximise_within(program, shared).contributions
    if ((found >= upper) & (upper < reachable)).any():
        raise NotConverged(
            f'"{federation.names[agent]}" would bring more than {upper.max():g} of a lot without a cap; give it one',
            result=found,
        )
    face = face_from(
        weights=share.weights,
        point=found,
        marginal=program.gradient(found),
        upper=upper,
        scale=program.scale,
        bends=cost.quadratic > 0,
        caps=caps,
        shared_caps=shared,
    )
    return face.least_norm()


def own_bounds(federation: Federation, agent: int, *, multiple: float = 1.0) -> FloatArray:
    """Caps of an agent's lots, and where there are none what its payoff could pay for."""
    own = federation.lots_of(agent)
    within = contribution_bounds(federation, multiple=multiple)[0][own]
    caps = federation.reachable_caps[own]
    return np.where(np.isfinite(caps), caps, within) if federation.has_harm else within


def best_shapley_lots(federation: Federation, profile: FloatArray, agent: int) -> FloatArray:
    """An agent's best lots if it is paid its Shapley value and the others stay as they are."""
    upper = own_bounds(federation, agent)
    return best_lots(federation, own_lots(federation, profile, agent, upper), agent, upper)


def best_free_lots(federation: Federation, profile: FloatArray, agent: int) -> FloatArray:
    """An agent's best lots if nobody is paid and the others stay as they are."""
    own, tasks = federation.lots_of(agent), federation.tasks_of(agent)
    if not tasks.size:
        return np.zeros(own.size)
    weights = federation.dense_weights()[tasks]
    others = profile.copy()
    others[own] = 0.0
    data, values, payoff = weights @ others, federation.values[tasks], federation.payoff.take(tasks)
    if not (data > payoff.floor).all():
        raise NotConverged(
            f'the others harm "{federation.names[agent]}" beyond the domain of its payoff', result=profile
        )
    share = OwnLots(
        weights=weights[:, own],
        value=lambda u: float(values @ payoff.increment(data, u)),
        slopes=lambda u: np.asarray(values * payoff.slope(data + u)),
        bends=lambda u: np.asarray(values * payoff.curvature(data + u)),
        floor=np.broadcast_to(payoff.floor, data.shape) - data,
    )
    return best_lots(federation, share, agent, own_bounds(federation, agent))


def best_answer(
    federation: Federation, share: OwnShare, agent: int, *, guess: float
) -> tuple[float, Callable[[float], float]]:
    """The contribution that maximises an agent's Shapley share less its cost, and that utility as a function."""
    cost = federation.costs.take([agent])

    def utility(x: float) -> float:
        return float(share.value(x) - cost.value(np.array([x]))[0])

    def slope(x: float) -> float:
        return float(share.slope(x) - cost.slope(np.array([x]))[0])

    return falling_root(slope, share.upper, guess=guess or 1.0), utility

"""What one agent would do for itself, the contributions of the others fixed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.federation import Federation
from fedpact.programs.root_finding import falling_root, falling_roots
from fedpact.shapley.own_share import OwnShare
from fedpact.utils.arrays import FloatArray


def best_own(federation: Federation, background: FloatArray) -> FloatArray:
    """Each agent's best contribution when the others' data gives it y = `background`.

    With linear costs the data an agent wants is known in closed form: values w_ii g'(y) = c'. With rising marginal
    costs it is the root of a falling function.
    """
    own = federation.own_weights
    cost = federation.costs
    if not cost.quadratic.any():
        wanted = federation.payoff.inverse_slope(cost.linear / (federation.values * own))
        return np.clip((wanted - background) / own, 0.0, federation.caps)

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
    """Contributions and utilities v_i* of agents that train alone, equation (6) of the paper."""
    alone = np.zeros(federation.n_agents)
    contributions = best_own(federation, alone)
    return contributions, own_utilities(federation, contributions, alone)


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

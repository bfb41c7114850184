"""What one agent would do for itself, the contributions of the others fixed.

Concave maximisation in one variable, by the root of a falling slope.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedpact.federation import Federation
from fedpact.shapley.own_share import OwnShare
from fedpact.utils.arrays import FloatArray

MAX_ROOT = 1e300
MAX_ROOT_HALVINGS = 2200  # halvings from the largest number to the smallest


def falling_root(slope: Callable[[float], float], upper: float, *, guess: float = 1.0) -> float:
    """Where a falling function changes sign on [0, upper]: 0 if it starts at or below zero, `upper` if it stays above.

    `upper` may be infinite; then the bracket grows from `guess`. The root is exact to a few units in the last place.
    """
    if upper <= 0 or slope(0.0) <= 0:
        return 0.0
    low, high = 0.0, min(upper, max(guess, np.finfo(float).tiny))
    while slope(high) > 0:
        if high >= upper:
            return upper
        low, high = high, min(upper, 4.0 * high)
        if high > MAX_ROOT:
            return upper
    from scipy.optimize import brentq  # noqa: PLC0415 - half the start-up time, and often not needed

    return float(brentq(slope, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))


def falling_roots(slope: Callable[[FloatArray], FloatArray], upper: FloatArray) -> FloatArray:
    """The same for many functions at once, each on its own [0, upper]; `slope` maps arrays to arrays.

    Brackets are halved, in proportion while they span more than a factor of two, until neighbouring numbers are left.
    SciPy's root finders for arrays need finite values at both ends of a bracket.
    """
    low, high = np.zeros_like(upper), np.minimum(upper, 1.0)
    idle = (upper <= 0) | (slope(low) <= 0)
    while (rising := ~idle & (slope(high) > 0) & (high < upper) & (high < MAX_ROOT)).any():
        low, high = np.where(rising, high, low), np.where(rising, np.minimum(upper, 4.0 * high), high)
    full = ~idle & (slope(high) > 0)
    for _ in range(MAX_ROOT_HALVINGS):
        wide = (low < 0.5 * high) & (high > 1e-300)
        middle = np.where(wide, np.sqrt(np.maximum(low, 1e-12 * high)) * np.sqrt(high), 0.5 * (low + high))
        if ((middle <= low) | (middle >= high) | idle | full).all():
            break
        above = slope(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(idle, 0.0, np.where(full, upper, high))


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

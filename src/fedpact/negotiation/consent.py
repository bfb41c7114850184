"""Whether a member accepts a deal: what the deal is worth to it, and what it would have by itself.

A member knows its own row, curve, cost and cap, so it needs nobody's word for either number. By default it refuses a
deal that is worth less to it than training alone: then nothing that others say can take it below that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fedpact.negotiation.agent import Agent

UTILITY_ROUNDING = 1e-6  # of the payoff, costs and money involved: nearer utilities differ by rounding
MAX_CONTRIBUTION = 1e200  # who would still give more than this has no best contribution
MAX_SLOPE = 1e40  # the slope of a payoff outside its domain, to find the way in


def accepts_deal(agent: Agent, contributions: Sequence[float], payment: float) -> bool:
    """Whether a deal leaves an agent what it asks for beyond standing alone (`least_gain`; None: it takes any deal)."""
    if agent.least_gain is None:
        return True
    given = np.asarray(contributions, dtype=np.float64)
    own = float(given[agent.index])
    around = float(agent.weights @ given) - float(agent.weights[agent.index]) * own
    before = own_utility(agent, around, 0.0, own)
    alone = standalone_utility(agent)
    if not math.isfinite(before):
        return False
    cost = float(np.ravel(agent.cost.value(np.array([own])))[0])
    return is_enough(before, cost, payment, alone, agent.least_gain)


def is_enough(before: float, cost: float, payment: float, alone: float, least_gain: float) -> bool:
    """Whether a payment makes a utility, of which `cost` is spent, as large as what is asked for beyond `alone`."""
    scale = abs(before + cost) + cost + abs(payment) + abs(alone)
    return before + payment - alone >= least_gain - UTILITY_ROUNDING * scale


def standalone_utility(agent: Agent) -> float:
    """The utility of training alone."""
    return best_utility(agent, 0.0, 0.0)


def best_utility(agent: Agent, around: float, price: float) -> float:
    """The best utility over its own contribution x, with data from others and a price per sample of its own."""
    weight = float(agent.weights[agent.index])

    def slope(x: float) -> float:
        data = around + weight * x
        if data <= float(np.ravel(agent.payoff.floor)[0]):
            return MAX_SLOPE
        worth = agent.value * weight * float(np.ravel(agent.payoff.slope(np.array([data])))[0])
        return worth - float(np.ravel(agent.cost.slope(np.array([x])))[0]) - price

    return own_utility(agent, around, price, _falling_root(slope, agent.cap))


def own_utility(agent: Agent, around: float, price: float, own: float) -> float:
    """The utility of a contribution of its own, with data from others and a price per sample of its own."""
    data = np.array([around + float(agent.weights[agent.index]) * own])
    if not np.isfinite(own) or data[0] <= float(np.ravel(agent.payoff.floor)[0]):
        return math.inf if own == math.inf else -math.inf
    payoff = agent.value * float(np.ravel(agent.payoff.value(data))[0])
    return payoff - float(np.ravel(agent.cost.value(np.array([own])))[0]) - price * own


def _falling_root(slope: Callable[[float], float], upper: float) -> float:
    """Where a falling function is zero between 0 and an upper bound, or the end it points at."""
    from scipy.optimize import brentq  # noqa: PLC0415 - imported where somebody negotiates

    if slope(0.0) <= 0.0:
        return 0.0
    high = min(upper, 1.0)
    while slope(high) > 0.0:
        if high == upper or high > MAX_CONTRIBUTION:
            return upper
        high = min(upper, 2.0 * high)
    return float(brentq(slope, 0.0, high, xtol=np.finfo(float).tiny, maxiter=500))

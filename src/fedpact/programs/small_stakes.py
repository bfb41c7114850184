"""Contributions of those with little at stake beside others, to the last digits as well.

A welfare optimum is found to within rounding of all welfare. Where members differ by many orders of magnitude, the
whole stake of the smallest may be less than that, and their contributions are as good as any to the solver; to
themselves they are not. So contributions whose marginal welfare is far from zero, in proportion to what makes it up,
are moved to where it vanishes, one after the other and the others held: each move raises welfare, and what it changes
for the large is rounding to them.

Stopping inequality: |marginal welfare| is at most `SLOPE_TOLERANCE` of the marginal payoffs and the marginal cost that
it is the difference of, for everybody whom no bound holds; or `MAX_MOVES`. Cost: a product with the weights a move, and
some forty slopes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.programs.roots import falling_root
from fedpact.utils.arrays import FloatArray

SLOPE_TOLERANCE = 1e-9
MAX_MOVES = 2_000
MAX_SWEEPS = 40
SHARE_OF_WAY_TO_EDGE = 1.0 - 1e-9  # of the way there


def unsettled_lots(federation: Federation, contributions: FloatArray, upper: FloatArray) -> NDArray[np.bool_]:
    """(lots,): whose marginal welfare is not zero, in proportion to what makes it up, with no bound in the way."""
    slopes, cost = federation.marginal_payoffs(contributions), federation.costs.slope(contributions)
    marginal = np.asarray(federation.weights.T @ slopes) - cost
    size = np.asarray(abs(federation.weights).T @ slopes) + cost
    could_move = np.where(marginal > 0, contributions < upper, contributions > 0)
    return np.asarray(could_move & (np.abs(marginal) > SLOPE_TOLERANCE * size))


def settle_small_stakes(federation: Federation, contributions: FloatArray, upper: FloatArray) -> FloatArray:
    """The profile with every unsettled contribution at its best, the others held, until all are settled."""
    weights, settled, moves = federation.dense_weights(), np.array(contributions), 0
    for _ in range(MAX_SWEEPS):
        unsettled = np.flatnonzero(unsettled_lots(federation, settled, upper))
        moves += unsettled.size
        if not unsettled.size or moves > MAX_MOVES:
            break
        for lot in unsettled.tolist():
            settled[lot] = _best_for_all(federation, weights[:, lot], settled, lot, float(upper[lot]))
    return settled


def _best_for_all(
    federation: Federation, column: FloatArray, contributions: FloatArray, lot: int, upper: float
) -> float:
    """The contribution of one lot that is best for everybody, all others held."""
    others = contributions.copy()
    others[lot] = 0.0
    data = federation.data(others)
    reached = np.flatnonzero(column)
    payoff, worth = federation.payoff.take(reached), federation.values[reached] * column[reached]
    data, column = data[reached], column[reached]
    cost = federation.costs.take([lot])
    floor = np.broadcast_to(federation.payoff.floor, federation.n_tasks)[reached]
    if (data <= floor).any():  # it is what keeps somebody within the domain
        return float(contributions[lot])
    upper = min(upper, _harmless(data, column, floor))

    def marginal_welfare(x: float) -> float:
        return float(worth @ payoff.slope(data + column * x) - cost.slope(np.array([x]))[0])

    return falling_root(marginal_welfare, upper, guess=float(contributions[lot]) or upper)


def _harmless(data: FloatArray, column: FloatArray, floor: FloatArray) -> float:
    """How much of a lot leaves everybody whom it harms within the domain of its payoff, and never at its edge."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(column < 0, (floor - data) / column, np.inf)
    return float(limits.min(initial=np.inf)) * SHARE_OF_WAY_TO_EDGE

"""How much any maximiser can contribute, before it is known.

A maximiser does at least as well as contributing nothing, so the payoff it earns covers its cost:
sum_j c_j(s_j) <= sum_i a_i(s). If the costs together are S, agent j contributes at most what S buys, and the payoff is
at most U(S), a concave function; so S is at most the largest root of U(S) = S. This gives every program a finite box,
also where caps are infinite, and a scale: S is in units of payoff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.federation.federation import Federation

LEAST_POWER, MAX_POWER = -930.0, 1023.0  # of two: less is spent on nothing, more is no number
MAX_STRIDE = 32.0  # powers of two at a time: far from the root payoffs may overflow, or lose their digits


def spending_bound(federation: Federation, *, multiple: float = 1.0) -> float:
    """A bound, tight within a factor of two, on the total cost of any maximiser of `multiple` x payoff - cost."""
    return float(spending_bounds(federation, 1, multiple=multiple)[0])


def spending_bounds(federation: Federation, blocks: int, *, multiple: float = 1.0) -> FloatArray:
    """The same for each of `blocks` federations of equal size that stand side by side, unconnected, in one."""

    positive, best_rate = federation.positive_weights(), _best_rates(federation)

    def worth(spending: FloatArray) -> FloatArray:
        from_all = np.asarray(positive @ federation.costs.affordable(np.repeat(spending, federation.n_lots // blocks)))
        bought = best_rate * np.repeat(spending, federation.n_tasks // blocks)
        payoffs = federation.values * federation.payoff.value(np.minimum(from_all, bought))
        return np.asarray(multiple * payoffs.reshape(blocks, -1).sum(axis=1))

    return largest_spending(worth, blocks)


def largest_spending(worth: Callable[[FloatArray], FloatArray], programs: int) -> FloatArray:
    """For each of many programs the power of two from which on spending is more than the payoff it buys, `worth`.

    What a unit of spending buys falls with spending: the power is bracketed from 1 by growing strides, then halved in.
    """
    covered = above = np.zeros(programs)
    rises = _covers(worth, covered)
    stride, open_ends = 1.0, np.ones(programs, dtype=bool)
    while open_ends.any():
        ahead = np.where(rises, np.minimum(covered + stride, MAX_POWER), above - stride)
        pays = _covers(worth, np.where(open_ends, ahead, above))
        covered, above = np.where(open_ends & pays, ahead, covered), np.where(open_ends & ~pays, ahead, above)
        open_ends &= (rises == pays) & (above > LEAST_POWER) & (ahead < MAX_POWER)
        stride = min(2.0 * stride, MAX_STRIDE)
    above = np.where(rises, np.maximum(above, covered), above)
    while (wide := above - covered > 1.0).any():
        middle = np.where(wide, np.floor(0.5 * (above + covered)), above)
        pays = _covers(worth, middle)
        covered, above = np.where(wide & pays, middle, covered), np.where(wide & ~pays, middle, above)
    return np.where(above > LEAST_POWER, np.exp2(above), 0.0)


def _covers(worth: Callable[[FloatArray], FloatArray], powers: FloatArray) -> NDArray[np.bool_]:
    spending = np.exp2(powers)
    with np.errstate(over="ignore", invalid="ignore"):  # strides may lead far beyond
        return np.asarray(worth(spending) >= spending)


def contribution_bounds(federation: Federation, *, multiple: float = 1.0) -> tuple[FloatArray, float]:
    """The box every maximiser lies in, finite and within the caps, and the spending bound.

    A bound that comes from spending rather than from a cap is never attained: the spending bound is not tight.
    """
    if multiple != 1.0:
        upper, spending = block_bounds(federation, 1, multiple=multiple)
        return upper, float(spending[0])
    return federation.maximiser_bounds


def block_bounds(federation: Federation, blocks: int, *, multiple: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """The box, and the spending bound of each block, of `blocks` federations side by side."""
    spending = spending_bounds(federation, blocks, multiple=multiple)
    budgets = np.repeat(2.0 * spending, federation.n_lots // blocks)
    return np.minimum(federation.reachable_caps, federation.costs.affordable(budgets)), spending


def _best_rates(federation: Federation) -> FloatArray:
    """The data one unit of spending buys an agent from the sender with the best weight per cost, at most."""
    rate = federation.costs.linear
    if not rate.all():
        return np.full(federation.n_tasks, np.inf)
    weights = federation.positive_weights()
    if sp.issparse(weights):
        return np.asarray((weights @ sp.diags_array(1.0 / rate)).max(axis=1).toarray().ravel())
    return np.asarray((weights / rate).max(axis=1))

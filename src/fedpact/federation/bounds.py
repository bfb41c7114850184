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

from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.federation.federation import Federation

SMALLEST_SPENDING = 1e-280


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
    """For each of many programs the power of two from which on spending is more than the payoff it buys, `worth`."""
    spending = np.ones(programs)
    while (low := worth(spending) >= spending).any():
        spending = np.where(low, 2.0 * spending, spending)
    while (high := (spending > SMALLEST_SPENDING) & (worth(spending / 2.0) < spending / 2.0)).any():
        spending = np.where(high, spending / 2.0, spending)
    return np.where(spending > SMALLEST_SPENDING, spending, 0.0)


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

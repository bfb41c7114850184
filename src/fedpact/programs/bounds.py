"""How much any maximiser can contribute, before it is known.

A maximiser does at least as well as contributing nothing, so the payoff it earns covers its cost:
sum_j c_j(s_j) <= sum_i a_i(s). If the costs together are S, agent j contributes at most what S buys, and the payoff is
at most U(S), a concave function; so S is at most the largest root of U(S) = S. This gives every program a finite box,
also where caps are infinite, and a scale: S is in units of payoff.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fedpact.arrays import FloatArray
from fedpact.federation import Federation

__all__ = ["contribution_bounds", "spending_bound"]

SMALLEST_SPENDING = 1e-280


def spending_bound(federation: Federation, *, multiple: float = 1.0) -> float:
    """A bound, tight within a factor of two, on the total cost of any maximiser of `multiple` x payoff - cost."""

    def worth(spending: float) -> float:
        reachable = np.minimum(_by_best_sender(federation, spending), _by_all_senders(federation, spending))
        return float(multiple * (federation.values * federation.payoff.value(reachable)).sum())

    spending = 1.0
    while worth(spending) >= spending:
        spending *= 2.0
    while spending > SMALLEST_SPENDING and worth(spending / 2.0) < spending / 2.0:
        spending /= 2.0
    return spending if spending > SMALLEST_SPENDING else 0.0


def contribution_bounds(federation: Federation, *, multiple: float = 1.0) -> tuple[FloatArray, float]:
    """The box every maximiser lies in, finite and within the caps, and the spending bound.

    A bound that comes from spending rather than from a cap is never attained: the spending bound is not tight.
    """
    spending = spending_bound(federation, multiple=multiple)
    return np.minimum(federation.caps, federation.costs.affordable(2.0 * spending)), spending


def _by_all_senders(federation: Federation, spending: float) -> FloatArray:
    return np.asarray(federation.positive_weights() @ federation.costs.affordable(spending))


def _by_best_sender(federation: Federation, spending: float) -> FloatArray:
    """For costs at least linear_j s_j: all spending on the sender with the best weight per cost."""
    rate = federation.costs.linear
    if not rate.all():
        return np.full(federation.n_agents, np.inf)
    weights = federation.positive_weights()
    if sp.issparse(weights):
        best = (weights @ sp.diags_array(1.0 / rate)).max(axis=1).toarray().ravel()
    else:
        best = (weights / rate).max(axis=1)
    return np.asarray(best * spending)

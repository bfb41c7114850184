"""How much welfare is left on the table: an upper bound from the dual program.

For any prices m_i >= 0 of reach,

    max W <= sum_i sup_y [values_i g_i(y) - m_i y] + sum_j max over [0, cap_j] of [(W^T m)_j s - c_j(s)].

The bound is tight at m_i = a_i'(xi_i*). At any profile it is evaluated at the profile's own marginal payoffs, and at
those scaled down until no agent without a binding cap would want to contribute more; the smaller counts.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.deviations import best_at_prices
from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.utils.arrays import FloatArray

__all__ = ["welfare_bound"]


def welfare_bound(federation: Federation, contributions: FloatArray) -> float:
    """An upper bound on the welfare of every admissible profile, tight when `contributions` are optimal.

    Any profile gives a valid bound, so it does not matter where the contributions come from.
    """
    upper, _ = contribution_bounds(federation)
    prices = federation.marginal_payoffs(contributions)
    earned = np.asarray(federation.weights.T @ prices)
    marginal_cost = federation.costs.slope(contributions)
    slack = (contributions < upper) & (earned > 0)
    candidates = [1.0]
    if slack.any():
        candidates.append(float(min(1.0, (marginal_cost[slack] / earned[slack]).min())))
    return min(_dual_value(federation, prices * factor, upper) for factor in candidates if factor > 0)


def _dual_value(federation: Federation, prices: FloatArray, upper: FloatArray) -> float:
    data = federation.payoff.inverse_slope(prices / federation.values)
    spent = np.where(prices > 0, prices * np.where(np.isfinite(data), data, 0.0), 0.0)
    surplus = federation.values * federation.payoff.value(data) - spent
    earned = np.asarray(federation.weights.T @ prices)
    best = best_at_prices(federation, earned, upper)
    return float(surplus.sum() + (earned * best - federation.costs.value(best)).sum())

r"""Social optimality: no admissible profile has more welfare.

For any prices m_r >= 0 of data,

    max W <= sum_r sup_y [v_r g_r(y) - m_r y] + sum_l max over 0 <= s <= cap_l of [(W^T m)_l s - c_l(s)],

which is tight at m_r = v_r g_r'(y_r*). At any profile the bound is evaluated at the profile's own marginal payoffs, and
at those scaled down until nobody whose cap does not bind would want to contribute more; the smaller counts. Where it
is not tight, an ascent from the profile finds a better one, if there is one, and with it a better bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.certificates.certificate import Certificate, CertifiedOutcome
from fedpact.certificates.claims import Claim
from fedpact.certificates.concave import ConcaveProblem, maximise, most_earned, welfare_problem
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray


def certify_optimality(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No admissible profile has more welfare; `optimum` gives one that may have, if it is needed."""
    arrays, tol, welfare = outcome.arrays, float(outcome.tolerances.sum()), float(outcome.welfare)
    witness: dict[str, Any] = {"welfare": welfare}
    bound, refuted = np.inf, False
    if outcome.federation.admits(outcome.contributions):
        bound = welfare_bound(arrays, outcome.contributions)
    if bound > welfare + tol:
        better = optimum()
        reached = float(arrays.welfare(better))
        bound, refuted = min(bound, welfare_bound(arrays, better)), reached > welfare + tol
        witness |= {"better_welfare": reached, "better_contributions": better.tolist()}
    witness["upper_bound"] = bound
    scope, margin = "all admissible profiles, by the dual bound", welfare - bound
    return Certificate.judge(Claim.SOCIAL_OPTIMALITY, margin, tol, scope, witness, refuted=refuted)


def welfare_bound(arrays: FederationArrays, contributions: FloatArray) -> float:
    """An upper bound on the welfare of every admissible profile, tight when `contributions` are optimal.

    Any profile gives a valid bound, so it does not matter where the contributions come from.
    """
    problem, prices = welfare_problem(arrays), arrays.marginal_payoffs(contributions)
    earned = problem.earned(contributions[None])[0]
    marginal_cost = arrays.marginal_costs(contributions)
    slack = (contributions < problem.upper[0]) & (earned > 0) & ~arrays.shared.any(axis=0)
    scales = [1.0, *np.minimum(1.0, marginal_cost[slack] / earned[slack]).min(initial=1.0, keepdims=True)]
    return min(_dual_value(arrays, problem, scale * prices) for scale in scales if scale > 0)


def _dual_value(arrays: FederationArrays, problem: ConcaveProblem, prices: FloatArray) -> float:
    with np.errstate(all="ignore"):
        data = arrays.payoff.inverse_slope(prices / arrays.values)
        spent = np.where(prices > 0, prices * np.where(np.isfinite(data), data, 0.0), 0.0)
        surplus = arrays.values * arrays.payoff.value(data) - spent
    earned = prices @ problem.weights[0]
    return float(surplus.sum() + most_earned((earned - arrays.linear)[None], problem)[1].sum())


def better_profile(arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
    """A profile with more welfare, if there is one: an ascent from here, or from nothing if this is not admissible."""
    problem = welfare_problem(arrays)
    start = problem.project(contributions[None])
    return maximise(problem, start if np.isfinite(problem.value(start)).all() else np.zeros_like(start)).x[0]

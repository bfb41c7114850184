"""The social optimum against an independent convex solver (CVXPY with Clarabel), all families, signs and bounds."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

import fedpact as fp
from random_cases import cases
from strategies import FAMILIES, random_federations

# Asked for, of the payoffs and costs at stake; Clarabel at its tightest reaches about 1e-9.
AGREEMENT = 1e-7
# Nothing feasible may be better than the optimum, beyond the rounding of two sums.
UNBEATEN = 1e-12
COUNT = 100


def payoff_atoms(fed: fp.Federation, y: cp.Expression) -> cp.Expression:
    """g_i(y_i) in CVXPY's own concave atoms."""
    n = fed.n_agents
    payoff = fed.payoff
    if isinstance(payoff, fp.Log):
        return cp.log(1.0 + y)
    if isinstance(payoff, fp.Michaelis):
        half = np.broadcast_to(payoff.half, n)
        return 1.0 - cp.multiply(half, cp.inv_pos(y + half))
    if isinstance(payoff, fp.Exponential):
        return 1.0 - cp.exp(-cp.multiply(np.broadcast_to(payoff.rate, n), y))
    beta = np.broadcast_to(payoff.beta, n)
    return cp.hstack([1.0 - cp.power(1.0 + y[i], -float(beta[i]), approx=False) for i in range(n)])


def by_cvxpy(fed: fp.Federation) -> tuple[float, np.ndarray]:
    """The largest welfare, and contributions cut to the box."""
    s = cp.Variable(fed.n_agents, nonneg=True)
    payoffs = fed.values @ payoff_atoms(fed, fed.weights @ s)
    costs = fed.costs.linear @ s + cp.sum(cp.multiply(fed.costs.quadratic, cp.square(s)))
    finite = np.isfinite(fed.caps)
    problem = cp.Problem(cp.Maximize(payoffs - costs), [s[finite] <= fed.caps[finite]] if finite.any() else [])
    with warnings.catch_warnings():  # "may be inaccurate": asked for more digits than it can always give
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value), np.clip(s.value, 0.0, fed.caps)


def at_stake(fed: fp.Federation, s: np.ndarray) -> float:
    """Payoffs and costs at a profile; where nobody contributes, what the first samples are worth."""
    return float(np.abs(fed.payoffs(s)).sum() + fed.costs.value(s).sum() + fed.values.sum())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_welfare_agrees_with_cvxpy(family):
    zero = capped = inside = 0
    for fed in random_federations(101, COUNT, family=family):
        best, theirs = by_cvxpy(fed)
        optimum = fp.social_optimum(fed)
        size = at_stake(fed, optimum.contributions)
        assert abs(optimum.welfare - best) <= AGREEMENT * size
        assert fed.welfare(theirs) <= optimum.welfare + UNBEATEN * size
        zero += (optimum.contributions == 0).sum()
        capped += ((optimum.contributions == fed.caps) & (fed.caps > 0)).sum()
        inside += ((optimum.contributions > 0) & (optimum.contributions < fed.caps)).sum()
    # The instances are a fair sample of where optima lie.
    assert min(zero, capped, inside) >= cases(COUNT) // 3 > 0


def test_unique_contributions_agree_with_cvxpy():
    """With rising costs the optimum is unique: contributions agree too, as far as curvature lets welfare tell."""
    for fed in random_federations(102, 40, quadratic=True):
        if not (fed.costs.quadratic > 0).all():
            continue
        _, theirs = by_cvxpy(fed)
        ours = fp.social_optimum(fed).contributions
        # Welfare falls by at least quadratic d^2 at a distance d: 1e-9 of it hides this much.
        blur = np.sqrt(1e-9 * at_stake(fed, ours) / fed.costs.quadratic.min())
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=blur)


def test_no_random_profile_is_better():
    rng = np.random.default_rng(0)
    for fed in random_federations(103, 40):
        optimum = fp.social_optimum(fed)
        size = at_stake(fed, optimum.contributions)
        for _ in range(20):
            near = optimum.contributions * np.exp(rng.normal(0.0, 0.1, fed.n_agents)) + rng.exponential(
                1e-3, fed.n_agents
            )
            tried = np.clip(near, 0.0, fed.caps)
            if fed.admits(tried):
                assert fed.welfare(tried) <= optimum.welfare + UNBEATEN * size

"""The Shapley equilibrium by its potential against the paper's best-response dynamics."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.claims import Verdict
from random_cases import ALL_CASES, cases
from strategies import FAMILIES, random_federation

# Relative to the largest contribution: the dynamics stop when a round moves nobody by 1e-10 of it, and approach the
# equilibrium linearly.
AGREEMENT = 1e-6


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_potential_agrees_with_best_responses(family):
    rng = np.random.default_rng(5)
    for _ in range(cases(12)):
        fed = random_federation(rng, n_agents=int(rng.integers(1, 6)), family=family)
        equilibrium = fp.ShapleyMechanism().solve(fed).contributions
        walk = fp.best_response_dynamics(fed)
        size = max(float(equilibrium.max()), 1e-300)
        np.testing.assert_allclose(walk.contributions, equilibrium, rtol=0, atol=AGREEMENT * size)


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [10, 17])
def test_more_agents_are_an_equilibrium_too(n_agents):
    """Across the sizes at which the evaluation of the potential changes: marginal shares, enumerated, meet costs."""
    rng = np.random.default_rng(n_agents)
    for harm in (False, True):
        fed = random_federation(rng, n_agents=n_agents, harm=harm, family=fp.PowerLaw)
        s = fp.ShapleyMechanism().solve(fed).contributions
        excess = fp.shapley_values(fed, s, method="enumeration").gradient / fed.costs.slope(s) - 1.0
        assert (excess[s < fed.caps] <= 1e-6).all()
        assert (excess[s > 0] >= -1e-6).all()


def harmed_federation(seed: int, n_agents: int, payoff: fp.Payoff) -> fp.Federation:
    """Harm that keeps contributions many orders of magnitude below what the agents could afford."""
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(0.0, 2.0, (n_agents, n_agents))
    weights *= np.where(rng.random(weights.shape) < 0.1, -1.0, 1.0)
    np.fill_diagonal(weights, 10.0)
    return fp.Federation(weights, costs=10.0 ** rng.uniform(-6.0, -3.0, n_agents), payoff=payoff)


@pytest.mark.slow
@pytest.mark.parametrize("payoff", [fp.PowerLaw(0.5), fp.Log()], ids=lambda payoff: payoff.family)
def test_harm_that_binds_long_before_money_does(payoff):
    """The box is that of the domain, and the barrier keeps away from its edge until the end."""
    fed = harmed_federation(3, 17, payoff)
    outcome = fp.ShapleyMechanism().solve(fed)
    assert outcome.certificates["nash"].verdict is not Verdict.VIOLATED
    assert (fed.arrays.lowest_data(outcome.contributions) > fed.payoff.floor).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *([0, 2] if ALL_CASES else [])])
def test_mild_harm_among_many_ends_at_the_edge_of_the_domain(seed):
    """Groups of only those who harm weigh next to nothing among many, so they hold contributions back at the last."""
    rng, n_agents = np.random.default_rng(seed), 36
    weights = rng.uniform(0.1, 1.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    weights *= np.where((rng.random(weights.shape) < 0.1) & ~np.eye(n_agents, dtype=bool), -0.2, 1.0)
    costs = rng.uniform(0.001, 0.01, n_agents)
    outcome = fp.ShapleyMechanism().solve(fp.Federation(weights, costs=costs, caps=400.0, payoff=fp.PowerLaw(0.5)))
    assert outcome.certificates["budget-balance"].holds
    # So close to the edge the certificates' own integral has no digits left: nothing is proved, and nothing refuted.
    assert all(outcome.certificates[claim].verdict is not Verdict.VIOLATED for claim in fp.ShapleyMechanism.claims)

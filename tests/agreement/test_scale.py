"""Many members: sparse weights against dense ones, and certificates at scale."""

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp

pytestmark = pytest.mark.slow

REGRET = 1e-8  # of the payoff scale


def sparse_federation(n_agents, neighbours, rng):
    columns = rng.integers(0, n_agents, (n_agents, neighbours))
    rows = np.repeat(np.arange(n_agents), neighbours)
    weights = sp.lil_array((n_agents, n_agents))
    weights[rows, columns.ravel()] = rng.uniform(1e-3, 1.0, rows.size)
    weights.setdiag(1.0)
    costs, caps = rng.uniform(0.01, 0.05, n_agents), rng.choice([5.0, 50.0, 400.0], n_agents)
    return fp.Federation(weights.tocsr(), costs=costs, caps=caps, payoff=fp.PowerLaw(0.3))


def test_two_thousand_sparse_members_get_a_certified_balanced_deal():
    outcome = fp.ExternalityMechanism().solve(sparse_federation(2000, 10, np.random.default_rng(1)))
    for claim in ("nash", "budget-balance", "social-optimality"):
        assert outcome.certificates[claim].holds, claim
    assert abs(outcome.payments.sum()) <= 1e-12 * np.abs(outcome.payments).sum()


def test_sixty_agents_have_a_certified_shapley_equilibrium_and_a_spoiled_one_is_caught():
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.0, 2.0, (60, 60))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=rng.uniform(0.01, 0.06, 60), caps=400.0, payoff=fp.PowerLaw(0.3))
    outcome = fp.ShapleyMechanism().solve(federation)
    nash = outcome.certificates["nash"]
    assert nash.holds
    assert -nash.margin <= REGRET * outcome.payoffs.sum()
    contributions = outcome.contributions.copy()
    contributions[7] *= 1.1
    spoiled = fp.ShapleyMechanism().outcome_at(federation, contributions)
    assert not spoiled.certificates["nash"].holds
    assert spoiled.certificates["nash"].witness["index"] == 7

"""The certificates' own Shapley values: against enumeration on both sides of every change of method, and searched."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from fedpact.certificates.shapley_check import (
    MAX_COALITION_AGENTS,
    best_own_contributions,
    check_shares,
    domain_limits,
)
from fedpact.shapley.enumeration import enumerate_shapley
from random_cases import some

EXACT = 1e-10  # the integral's nodes are good to about 1e-11
PAYOFFS = (fp.PowerLaw(0.3), fp.PowerLaw(4.0), fp.Log(), fp.Michaelis(30.0), fp.Exponential(0.05))


def federation(n_agents: int, payoff: fp.Payoff, *, harm: float = 0.0, sparse: bool = False) -> fp.Federation:
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents))
    if sparse:
        weights *= rng.random((n_agents, n_agents)) < 0.2
    weights = np.where(rng.random((n_agents, n_agents)) < 0.2, -harm, weights) if harm else weights
    np.fill_diagonal(weights, 1.0)
    given = sp.csr_array(weights) if sparse else weights
    return fp.Federation(given, costs=rng.uniform(0.01, 0.06, n_agents), caps=60.0, payoff=payoff)


@pytest.mark.parametrize("harm", [0.0, 0.02])
@pytest.mark.parametrize("payoff", PAYOFFS, ids=lambda payoff: payoff.family)
@pytest.mark.parametrize("n_agents", [1, 5, MAX_COALITION_AGENTS, MAX_COALITION_AGENTS + 1, 17])
def test_values_and_slopes_are_those_of_all_coalitions(n_agents: int, payoff: fp.Payoff, harm: float) -> None:
    fed = federation(n_agents, payoff, harm=harm)
    s = np.random.default_rng(1).uniform(0.0, 3.0, n_agents)
    found, (values, slopes) = check_shares(fed, s), enumerate_shapley(fed, s)
    assert found is not None and found.proves
    np.testing.assert_allclose(found.values, values, rtol=EXACT, atol=EXACT * np.abs(values).max())
    np.testing.assert_allclose(found.slopes, slopes, rtol=EXACT, atol=EXACT * np.abs(slopes).max())


@pytest.mark.parametrize("harm", [0.0, 1e-3])
@pytest.mark.parametrize("n_agents", some([40, 140], 1))
def test_many_agents_add_up_and_agree_with_the_other_integral(n_agents: int, harm: float) -> None:
    """Beyond 36 senders q is cut, beyond 124 the peak of harmed ones is looked for."""
    fed = federation(n_agents, fp.PowerLaw(0.3), harm=harm)
    s = np.random.default_rng(2).uniform(0.0, 3.0, n_agents)
    found, other = check_shares(fed, s), fp.shapley_values(fed, s)
    assert found is not None and found.proves
    assert found.error <= 1e-11 * fed.payoffs(s).sum()
    np.testing.assert_allclose(found.values, other.values, rtol=1e-9)
    np.testing.assert_allclose(found.slopes, other.gradient, rtol=1e-9)


def test_sparse_weights_give_what_dense_ones_give() -> None:
    thin = federation(30, fp.Log(), sparse=True)
    full = thin.replace(weights=thin.dense_weights())
    s = np.linspace(0.0, 2.0, 30)
    sparse, dense = check_shares(thin, s), check_shares(full, s)
    assert sparse is not None and dense is not None
    np.testing.assert_allclose(sparse.values, dense.values, rtol=1e-13)


def test_outside_the_domain_there_are_no_values() -> None:
    fed = fp.Federation([[1.0, -2.0], [0.0, 1.0]], costs=0.1, caps=5.0, payoff=fp.PowerLaw(0.5))
    assert check_shares(fed, np.array([5.0, 0.6])) is None
    assert check_shares(fed, np.array([5.0, 0.4])) is not None


@pytest.mark.slow
@pytest.mark.parametrize("harm", [0.0, 0.02])
@pytest.mark.parametrize("n_agents", [4, 15])
def test_the_best_own_contribution_is_the_best_on_a_grid(n_agents: int, harm: float) -> None:
    fed = federation(n_agents, fp.PowerLaw(0.4), harm=harm)
    s = np.full(n_agents, 0.5)
    agents, upper = np.array([0, n_agents - 1]), domain_limits(fed, s)
    best, values = best_own_contributions(fed, s, agents, upper[agents])
    for place, agent in enumerate(agents):
        moved = np.tile(s, (41, 1))
        moved[:, agent] = np.linspace(0.0, upper[agent], 41)
        cost = fed.costs.take([agent])
        on_grid = [enumerate_shapley(fed, row)[0][agent] - cost.value(row[[agent]])[0] for row in moved]
        utility = values[place] - cost.value(best[[place]])[0]
        assert utility >= max(on_grid) - 1e-12
        there = s.copy()
        there[agent] = best[place]
        np.testing.assert_allclose(values[place], enumerate_shapley(fed, there)[0][agent], rtol=EXACT)


def test_agents_are_searched_up_to_the_edge_of_the_domain() -> None:
    """Agent 1 takes a weight of -2 from agent 0, which falls out of its domain at s_1 = 1/2."""
    fed = fp.Federation([[1.0, -2.0], [0.0, 1.0]], costs=0.01, caps=5.0, payoff=fp.PowerLaw(0.5))
    np.testing.assert_allclose(domain_limits(fed, np.array([1.0, 0.1])), [5.0, 0.5], rtol=1e-8)

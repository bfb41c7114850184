"""The certificates' own Shapley values: against enumeration on both sides of every change of method, and searched."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from fedpact.certificates import shapley_check
from fedpact.certificates.concave import maximise
from fedpact.certificates.shapley_check import MAX_COALITION_AGENTS, check_shares, own_share_problems
from fedpact.shapley.coalitions import values_and_gradient
from random_cases import some
from strategies import random_lots, random_profile

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
def test_values_and_gradients_are_those_of_all_coalitions(n_agents: int, payoff: fp.Payoff, harm: float) -> None:
    fed = federation(n_agents, payoff, harm=harm)
    s = np.random.default_rng(1).uniform(0.0, 3.0, n_agents)
    found, (values, gradient) = check_shares(fed.arrays, s), values_and_gradient(fed.arrays, s)
    assert found is not None and found.proves
    np.testing.assert_allclose(found.values, values, rtol=EXACT, atol=EXACT * np.abs(values).max())
    np.testing.assert_allclose(found.gradient, gradient, rtol=EXACT, atol=EXACT * np.abs(gradient).max())


@pytest.mark.parametrize("probability", [None, 0.5, 0.2])
def test_every_route_gives_the_same(probability: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coalitions, and points that stand for members, with several lots and tasks."""
    rng = np.random.default_rng(9)
    for _ in range(10):
        fed = random_lots(rng)
        s = random_profile(rng, fed)
        right = check_shares(fed.arrays, s, probability)
        with monkeypatch.context() as patch:
            patch.setattr(shapley_check, "MAX_COALITION_AGENTS", 0)
            found = check_shares(fed.arrays, s, probability)
        assert right is not None and found is not None and found.proves
        np.testing.assert_allclose(found.values, right.values, atol=1e-9 * np.abs(right.values).max())
        np.testing.assert_allclose(found.gradient, right.gradient, atol=1e-8 * np.abs(right.gradient).max())


@pytest.mark.parametrize("harm", [0.0, 1e-3])
@pytest.mark.parametrize("n_agents", some([40, 240], 1))
def test_many_agents_add_up_and_agree_with_the_other_integral(n_agents: int, harm: float) -> None:
    fed = federation(n_agents, fp.PowerLaw(0.3), harm=harm)
    s = np.random.default_rng(2).uniform(0.0, 3.0, n_agents)
    found, other = check_shares(fed.arrays, s), fp.shapley_values(fed, s)
    assert found is not None and found.proves
    assert found.error <= 1e-11 * fed.payoffs(s).sum()
    np.testing.assert_allclose(found.values, other.values, rtol=1e-9)
    np.testing.assert_allclose(found.gradient, other.gradient, rtol=1e-9)


def test_outside_the_domain_there_are_no_values() -> None:
    fed = fp.Federation([[1.0, -2.0], [0.0, 1.0]], costs=0.1, caps=5.0, payoff=fp.PowerLaw(0.5))
    assert check_shares(fed.arrays, np.array([5.0, 0.6])) is None
    assert check_shares(fed.arrays, np.array([5.0, 0.4])) is not None


@pytest.mark.parametrize("harm", [0.0, 0.02])
@pytest.mark.parametrize("n_agents", [4, 14])
def test_the_best_own_contribution_is_the_best_on_a_grid(n_agents: int, harm: float) -> None:
    fed = federation(n_agents, fp.PowerLaw(0.4), harm=harm)
    s = np.full(n_agents, 0.5)
    for agent in (0, n_agents - 1):
        (problem,) = own_share_problems(fed.arrays, s, [agent], np.full(n_agents, 5.0), None)
        found = maximise(problem, s[None, [agent]])
        utility = found.values[0] - problem.value(np.zeros((1, 1)))[0]
        moved = np.tile(s, (9, 1))
        moved[:, agent] = np.linspace(0.0, 5.0, 9)
        moved = np.vstack([moved, np.where(np.arange(n_agents) == agent, found.x[0, 0], s)])
        shares = [values_and_gradient(fed.arrays, row)[0][agent] - fed.spending(row)[agent] for row in moved]
        np.testing.assert_allclose(utility, shares[-1], rtol=EXACT)
        assert utility >= max(shares) - 1e-12

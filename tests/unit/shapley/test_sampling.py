"""Sampling the Shapley values of a federation: unbiased, efficient, honest about its error."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.shapley.sampling import sample_shapley

import fedpact as fp
from random_cases import some

ROUNDING = 1e-12
STANDARD_ERRORS = 5.0


def federation(n_agents: int, *, harm: bool = False) -> tuple[fp.Federation, np.ndarray]:
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents)) - (0.4 if harm else 0.0)
    np.fill_diagonal(weights, 1.0)
    fed = fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(beta=0.5), values=rng.uniform(0.5, 2.0, n_agents))
    return fed, rng.uniform(0.1, 0.2, n_agents) if harm else rng.uniform(1.0, 40.0, n_agents)


def sampled(fed, s, permutations, seed):
    return sample_shapley(fed, s, permutations=permutations, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("n_agents", [1, 2])
def test_one_or_two_agents_leave_nothing_to_chance(n_agents):
    fed, s = federation(n_agents)
    exact = fp.shapley_values(fed, s)
    values, gradient, errors = sampled(fed, s, 4, 0)
    np.testing.assert_allclose(values, exact.values, rtol=ROUNDING)
    np.testing.assert_allclose(gradient, exact.gradient, rtol=ROUNDING)
    np.testing.assert_array_equal(errors, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [False, True])
@pytest.mark.parametrize(("n_agents", "permutations"), some([(6, 5), (3, 4), (9, 50)], 1))
def test_unbiased(n_agents, permutations, harm):
    fed, s = federation(n_agents, harm=harm)
    exact = fp.shapley_values(fed, s)
    runs = [sampled(fed, s, permutations, seed) for seed in range(250)]
    for place, truth in enumerate((exact.values, exact.gradient)):
        drawn = np.array([run[place] for run in runs])
        room = STANDARD_ERRORS * drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn)) + ROUNDING
        assert (np.abs(drawn.mean(axis=0) - truth) <= room).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n_agents", "permutations", "harm"), [(8, 400, False), (8, 400, True), (30, 500, False)])
def test_standard_errors_hold(n_agents, permutations, harm):
    """95 % of a normal distribution lies within two standard errors; theirs are estimates too."""
    fed, s = federation(n_agents, harm=harm)
    truth = fp.shapley_values(fed, s).values
    runs = [sampled(fed, s, permutations, seed) for seed in range(40)]
    scores = np.array([(values - truth) / errors for values, _, errors in runs])
    assert 0.92 <= np.mean(np.abs(scores) <= 2.0) <= 0.98


@pytest.mark.parametrize("permutations", [4, 50, 333])
def test_efficient_whatever_was_drawn(permutations):
    fed, s = federation(15)
    values, _, _ = sampled(fed, s, permutations, 1)
    np.testing.assert_allclose(values.sum(), fed.payoffs(s).sum(), rtol=ROUNDING)


@pytest.mark.slow
def test_many_agents_need_few_orders():
    """Most of a value comes from joining very small coalitions, which n random orders visit once for each agent."""
    fed, s = federation(150)
    truth = fp.shapley_values(fed, s).values
    values, gradient, errors = sampled(fed, s, 300, 2)
    assert np.sqrt(np.mean((values - truth) ** 2)) < 0.01 * truth.mean()
    assert errors.max() < 0.05 * truth.mean()
    np.testing.assert_allclose(gradient, fp.shapley_values(fed, s).gradient, rtol=0.2)


@pytest.mark.parametrize("payoff", [fp.Log(), fp.Michaelis(half=3.0), fp.Exponential(rate=0.02)])
def test_other_payoffs(payoff):
    rng = np.random.default_rng(9)
    fed = fp.Federation(rng.uniform(0.1, 1.0, (9, 9)), costs=0.01, payoff=payoff)
    s = rng.uniform(0.0, 10.0, 9)
    s[4] = 0.0
    truth = fp.shapley_values(fed, s).values
    values, _, errors = sampled(fed, s, 500, 3)
    assert (np.abs(values - truth) <= STANDARD_ERRORS * errors + ROUNDING).all()
    assert values[4] == errors[4] == 0.0  # who brings nothing gets nothing, whatever was drawn


def test_nobody_contributes():
    fed, _ = federation(5)
    values, _, errors = sampled(fed, np.zeros(5), 50, 0)
    np.testing.assert_array_equal(values, 0.0)
    np.testing.assert_array_equal(errors, 0.0)


def test_sparse_weights():
    import scipy.sparse as sp

    fed, s = federation(10)
    kept = np.where(fed.dense_weights() > 0.8, fed.dense_weights(), 0.0)
    dense, sparse = (
        fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(beta=0.5)) for weights in (kept, sp.csr_array(kept))
    )
    for first, second in zip(sampled(dense, s, 40, 0), sampled(sparse, s, 40, 0), strict=True):
        np.testing.assert_array_equal(first, second)

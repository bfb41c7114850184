"""Many agents: the compiled and sparse routes against the plain ones, and certificates at scale."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from fedpact.programs.parts import maximise_sparse
from fedpact.programs.shapley_equilibrium import ShapleyProgram
from fedpact.programs.social_optimum import WelfareProgram
from fedpact.programs.solver import maximise
from fedpact.shapley.potential import ROUGH_TOLERANCE, CompiledPotential, IntegratedPotential

import fedpact as fp
from random_cases import some

pytestmark = pytest.mark.slow

REGRET = 1e-8  # of the payoff scale


def sparse_federation(n_agents, neighbours, rng):
    columns = rng.integers(0, n_agents, (n_agents, neighbours))
    rows = np.repeat(np.arange(n_agents), neighbours)
    weights = sp.lil_array((n_agents, n_agents))
    weights[rows, columns.ravel()] = rng.uniform(0.0, 1.0, rows.size)
    weights.setdiag(1.0)
    costs, caps = rng.uniform(0.01, 0.05, n_agents), rng.choice([5.0, 50.0, 400.0], n_agents)
    return fp.Federation(weights.tocsr(), costs=costs, caps=caps, payoff=fp.PowerLaw(0.3))


def changed(kind, federation, rng):
    """A sparse federation of another kind."""
    n_agents, weights = federation.n_agents, federation.weights.copy()
    if kind == "without caps":
        return replace(federation, caps=np.inf)
    if kind == "costs that rise":
        return replace(federation, costs=fp.Quadratic(0.01, rng.uniform(0.0, 1e-3, n_agents)))
    if kind == "some are of no use":
        weights.data[rng.random(weights.nnz) < 0.5] = 0.0
        return replace(federation, weights=weights, values=rng.choice([1e-6, 1.0, 1e3], n_agents))
    if kind == "some harm a little":
        entries = weights.tocoo()
        weights.data[(rng.random(weights.nnz) < 0.1) & (entries.row != entries.col)] *= -1e-3
        return replace(federation, weights=weights)
    return federation


KINDS = ("caps", "some are of no use", "without caps", "some harm a little", "costs that rise")


@pytest.mark.parametrize("kind", some(KINDS, 2))
def test_the_sparse_welfare_optimum_is_the_dense_one(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    sparse = changed(kind, sparse_federation(520, 8, rng), rng)
    dense = replace(sparse, weights=sparse.dense_weights())
    reference = maximise(WelfareProgram(dense))
    for found in (maximise_sparse(WelfareProgram(sparse)), maximise(WelfareProgram(sparse))):
        assert found is not None
        np.testing.assert_allclose(sparse.data(found.contributions), dense.data(reference.contributions), rtol=1e-6)
        welfares = sparse.welfare(found.contributions), dense.welfare(reference.contributions)
        np.testing.assert_allclose(*welfares, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("payoff", "seed"), [(fp.PowerLaw(0.5), 2), (fp.Log(), 0)], ids=str)
def test_where_sparse_products_lose_their_digits_the_dense_optimum_is_taken(payoff, seed):
    rng, n_agents = np.random.default_rng(seed), 520
    weights = (rng.random((n_agents, n_agents)) < 0.03) * rng.uniform(0.1, 1.0, (n_agents, n_agents))
    weights = np.where(rng.random((n_agents, n_agents)) < 0.1, -3.0 * weights, weights)
    np.fill_diagonal(weights, 1.0)
    costs, caps = 10.0 ** rng.uniform(-4, 0, n_agents), 10.0 ** rng.uniform(-3, 3, n_agents)
    dense, sparse = (fp.Federation(w, costs=costs, caps=caps, payoff=payoff) for w in (weights, sp.csr_array(weights)))
    np.testing.assert_allclose(fp.social_optimum(sparse).welfare, fp.social_optimum(dense).welfare, rtol=1e-9)


def test_ten_thousand_sparse_agents_get_a_certified_balanced_deal():
    outcome = fp.ExternalityMechanism().solve(sparse_federation(10_000, 10, np.random.default_rng(1)))
    for claim in ("nash", "budget-balance", "social-optimality"):
        assert outcome.certificates[claim].holds, claim
    assert abs(outcome.payments.sum()) <= 1e-12 * np.abs(outcome.payments).sum()
    assert outcome.equilibria.unique is None


@pytest.mark.slow
def test_compiled_and_integrated_potentials_have_the_same_maximiser():
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.0, 1.0, (14, 14))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=rng.uniform(0.01, 0.03, 14), caps=60.0, payoff=fp.PowerLaw(0.4))
    plain, exact, rough = (
        ShapleyProgram(federation, potential)
        for potential in (
            IntegratedPotential(federation),
            CompiledPotential(federation),
            CompiledPotential(federation, tolerance=ROUGH_TOLERANCE),
        )
    )
    compiled, plain = maximise(exact, rough=rough), maximise(plain)
    np.testing.assert_allclose(compiled.contributions, plain.contributions, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
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
    spoiled = replace(outcome, contributions=contributions, payments=outcome.payment_rule(federation, contributions))
    assert not spoiled.certificates["nash"].holds
    assert spoiled.certificates["nash"].witness["index"] == 7

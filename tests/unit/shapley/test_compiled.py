"""The quadrature of many against enumeration, against the readable one, and on structures of its own.

Compiled, and in NumPy as tens of agents are integrated.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from fedpact.shapley.compiled import Precision, integrate, own_coefficients, potential_curvature
from fedpact.shapley.enumeration import enumerate_shapley
from fedpact.shapley.potential import CompiledPotential, EnumeratedPotential, IntegratedPotential
from fedpact.shapley.quadrature import quadrature_shapley
from fedpact.shapley.receiver_rows import receiver_rows
from fedpact.utils.compiling import expecting_many

import fedpact as fp
from random_cases import some

pytestmark = pytest.mark.slow

PROMISED = 1e-10
EXACT = Precision.reaching(PROMISED)
FAMILIES = (fp.PowerLaw(0.005), fp.PowerLaw(0.5), fp.PowerLaw(1.0), fp.Exponential(0.3), fp.Log(), fp.Michaelis(3.0))


@pytest.fixture(autouse=True, params=["in NumPy", "compiled"])
def way(request):
    with expecting_many() if request.param == "compiled" else nullcontext():
        yield request.param


def federation_of(n_agents, payoff, rng, *, harm=False, spread=False):
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents))
    contributions = 10.0 ** rng.uniform(-6, 6, n_agents) if spread else rng.uniform(0.0, 1.0, n_agents)
    if harm:
        harmful = rng.random((n_agents, n_agents)) < 0.3
        np.fill_diagonal(harmful, False)
        weights[harmful] *= -1.0
        depth = float((np.minimum(weights, 0.0) @ contributions).min())
        weights[harmful] *= 0.9 / max(0.9, -depth)
    np.fill_diagonal(weights, 1.0)
    contributions[rng.random(n_agents) < 0.2] = 0.0
    return fp.Federation(weights, costs=0.1, payoff=payoff), contributions


def assert_relative(found, reference, tolerance):
    scale = np.where(reference != 0, np.abs(reference), 1.0)
    assert np.max(np.abs(found - reference) / scale) <= tolerance


@pytest.mark.parametrize("payoff", FAMILIES, ids=str)
@pytest.mark.parametrize("harm", [False, True])
@pytest.mark.parametrize("n_agents", some([1, 2, 16, 7], 2))
def test_values_and_slopes_equal_enumeration(payoff, harm, n_agents):
    rng = np.random.default_rng(n_agents)
    federation, contributions = federation_of(n_agents, payoff, rng, harm=harm, spread=not harm)
    found = integrate(receiver_rows(federation), contributions, EXACT)
    values, gradient = enumerate_shapley(federation, contributions)
    assert_relative(found.values, values, PROMISED)
    assert_relative(found.slopes, gradient, PROMISED)


@pytest.mark.parametrize("payoff", some([*FAMILIES, fp.PowerLaw(3.0)]), ids=str)
@pytest.mark.parametrize("n_agents", some([26, 60], 1))
def test_the_series_and_small_times_equal_the_readable_quadrature(payoff, n_agents):
    """Beyond 24 factors products become series, and all small t are summed at once; contributions over 12 decades."""
    federation, contributions = federation_of(n_agents, payoff, np.random.default_rng(n_agents), spread=True)
    found = integrate(receiver_rows(federation), contributions, EXACT)
    values, gradient = quadrature_shapley(federation, contributions)
    assert_relative(found.values, values, PROMISED)
    assert_relative(found.slopes, gradient, PROMISED)


@pytest.mark.parametrize("harm", [False, True])
def test_bends_are_the_derivatives_of_slopes(harm):
    federation, contributions = federation_of(9, fp.PowerLaw(0.5), np.random.default_rng(1), harm=harm)
    step = 1e-5
    bends = integrate(receiver_rows(federation), contributions, EXACT).bends
    for agent in range(9):
        ahead, behind = contributions.copy(), contributions.copy()
        ahead[agent] += step
        behind[agent] -= step
        slopes = [integrate(receiver_rows(federation), point, EXACT).slopes[agent] for point in (ahead, behind)]
        np.testing.assert_allclose(bends[agent], (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("harm", [False, True])
@pytest.mark.parametrize("n_agents", [30, 80])
def test_many_agents_share_exactly_the_total(n_agents, harm):
    federation, contributions = federation_of(n_agents, fp.PowerLaw(0.5), np.random.default_rng(2), harm=harm)
    assert fp.shapley_values(federation, contributions).efficiency_gap < 1e-12


@pytest.mark.parametrize("size", [1e-3, 0.05, 1.0])
def test_shares_of_little_data_add_up_as_well(size):
    """Of a payoff of little data nodes towards t = 0 hold as much as others: payments are to balance to 1e-12."""
    weights = np.where(np.eye(20) > 0, 1.0, -0.025)
    federation = fp.Federation(weights, costs=0.1, payoff=fp.Log())
    assert fp.shapley_values(federation, np.full(20, size)).efficiency_gap < 2e-13


@pytest.mark.slow
def test_rough_nodes_are_rough_and_fine_nodes_are_fine():
    federation, _ = federation_of(120, fp.PowerLaw(0.3), np.random.default_rng(3))
    contributions = np.random.default_rng(4).uniform(1.0, 40.0, 120)
    exact = integrate(receiver_rows(federation), contributions, EXACT).values
    for tolerance in (1e-4, 1e-8):
        assert_relative(
            integrate(receiver_rows(federation), contributions, Precision.reaching(tolerance)).values, exact, tolerance
        )


def test_sparse_and_dense_weights_agree():
    rng = np.random.default_rng(5)
    weights = np.where(rng.random((40, 40)) < 0.2, rng.uniform(0.0, 1.0, (40, 40)), 0.0)
    np.fill_diagonal(weights, 1.0)
    contributions = rng.uniform(0.0, 30.0, 40)
    dense, sparse = (
        fp.shapley_values(fp.Federation(matrix, costs=0.1, payoff=fp.Log()), contributions)
        for matrix in (weights, sp.csr_array(weights))
    )
    np.testing.assert_allclose(sparse.values, dense.values, rtol=1e-12)
    np.testing.assert_allclose(sparse.gradient, dense.gradient, rtol=1e-12)


def test_receivers_in_blocks_change_nothing():
    federation, contributions = federation_of(30, fp.PowerLaw(np.linspace(0.1, 0.9, 30)), np.random.default_rng(6))
    rows = receiver_rows(federation)
    whole = integrate(rows, contributions, EXACT).values
    parts = sum(integrate(block, contributions, EXACT).values for _, block in rows.blocks(7))
    np.testing.assert_allclose(parts, whole, rtol=1e-13)


@pytest.mark.parametrize("harm", [False, True])
def test_own_pieces_rebuild_an_agents_value_at_any_contribution(harm):
    federation, contributions = federation_of(20, fp.PowerLaw(0.5), np.random.default_rng(7), harm=harm)
    lowest = np.asarray(federation.negative_weights() @ contributions)
    log_coefficients, rates, _ = own_coefficients(receiver_rows(federation), contributions, 3, lowest, EXACT)
    for x in (0.0, 0.5 * contributions[3], contributions[3]):
        moved = contributions.copy()
        moved[3] = x
        value = integrate(receiver_rows(federation), moved, EXACT).values[3]
        np.testing.assert_allclose(-np.exp(log_coefficients) @ np.expm1(-rates * x), value, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("harm", [False, True])
def test_approximate_curvature_is_good_enough_for_newton(harm):
    federation, contributions = federation_of(8, fp.PowerLaw(0.5), np.random.default_rng(8), harm=harm)
    exact = EnumeratedPotential(federation).hessian(contributions)
    approximate = potential_curvature(receiver_rows(federation), contributions)
    np.fill_diagonal(approximate, np.diagonal(exact))
    np.testing.assert_allclose(approximate, exact, atol=0.03 * np.abs(exact).max())


def test_the_curvature_close_to_the_edge_of_the_domain_is_definite():
    """Curvatures from 1e-3 to 1e10 by direction: they have to come from the same nodes, or rounding mixes them up."""
    rng = np.random.default_rng(11)
    weights = rng.uniform(0.1, 1.0, (20, 20)) * np.where(rng.random((20, 20)) < 0.4, -1.0, 1.0)
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=0.1, payoff=fp.Log())
    contributions = rng.uniform(0.5, 1.5, 20)
    contributions *= (1.0 - 1e-9) / -np.asarray(federation.negative_weights() @ contributions).min()
    hessian = CompiledPotential(federation).hessian(contributions)
    sizes = np.sqrt(-np.diagonal(hessian))
    assert sizes.max() > 1e6
    assert np.linalg.eigvalsh(hessian).max() < 0
    readable = IntegratedPotential(federation).hessian(contributions)
    np.testing.assert_allclose(hessian / np.outer(sizes, sizes), readable / np.outer(sizes, sizes), atol=1e-3)


def test_compiled_potential_has_the_gradient_of_the_enumerated_one():
    federation, contributions = federation_of(8, fp.PowerLaw(0.5), np.random.default_rng(9))
    compiled = CompiledPotential(federation, tolerance=PROMISED)
    np.testing.assert_allclose(
        compiled.gradient(contributions), EnumeratedPotential(federation).gradient(contributions), rtol=1e-10
    )


@pytest.mark.parametrize(("distance", "reachable"), [(1e-2, True), (1e-4, True), (1e-8, False), (1e-11, False)])
def test_the_edge_of_the_domain_is_met_or_named(distance, reachable):
    weights = np.eye(17)
    weights[0, 1] = -1.0
    federation = fp.Federation(weights, costs=0.1, caps=2.0, payoff=fp.PowerLaw(0.5))
    contributions = np.zeros(17)
    contributions[1] = 1.0 - distance
    if reachable:
        exact = enumerate_shapley(federation, contributions)[0]
        found = fp.shapley_values(federation, contributions, method="quadrature").values
        assert_relative(found, exact, PROMISED)
    else:
        with pytest.raises(fp.NotConverged, match="this close to the edge of the domain") as raised:
            fp.shapley_values(federation, contributions, method="quadrature")
        assert raised.value.result.values.shape == (17,)


def test_nobody_contributes_anything():
    """Warnings are errors: nothing is divided by what is not there."""
    federation = fp.Federation(np.ones((30, 30)), costs=0.01, payoff=fp.Log())
    np.testing.assert_array_equal(fp.shapley_values(federation, np.zeros(30)).values, np.zeros(30))


@pytest.mark.parametrize("harm", [200.0, 700.0, 708.0])
def test_harm_as_deep_as_numbers_go_raises_no_warning(harm):
    weights = np.eye(17)
    weights[0, 1] = -1.0
    contributions = np.ones(17)
    contributions[1] = harm
    federation = fp.Federation(weights, costs=0.01, payoff=fp.Exponential(rate=1.0))
    shares = fp.shapley_values(federation, contributions, method="quadrature")
    np.testing.assert_allclose(shares.values.sum(), federation.payoffs(contributions).sum(), rtol=1e-12)

"""Shapley values by coalitions, by both forms of the integral, and by walking through all orders in plain Python.

Gradients and Hessians are held against finite differences, the potential against what defines it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import FederationArrays, stack
from fedpact.shapley import coalitions, integral
from potentials import average_over_orders, summed_potential
from random_cases import cases, some
from strategies import FAMILIES, random_federation, random_federations, random_lots, random_profile

# The two forms of the integral, relative to the largest value.
BOTH_FORMS = 1e-12
# Of what coalitions earn or lose; enumeration is a plain sum.
BY_ORDERS = 1e-12
# Relative to the largest value, as the quadrature promises with room to spare.
EXACT_ROUTES = 1e-9

CURVES = {
    "power-law": lambda y, beta: 1.0 - (1.0 + y) ** -beta,
    "log": lambda y: math.log(1.0 + y),
    "michaelis": lambda y, half: y / (y + half),
    "exponential": lambda y, rate: 1.0 - math.exp(-rate * y),
}


def by_orders(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    """What each agent adds when it joins, averaged over all orders; formulas written out once more."""
    n, weights = fed.n_agents, fed.weights.tolist()
    curve = CURVES[fed.payoff.family]
    parameters = [[float(np.broadcast_to(p, n)[i]) for p in fed.payoff.parameters.values()] for i in range(n)]

    def total(members: tuple[int, ...]) -> float:
        data = [sum(weights[i][j] * float(s[j]) for j in members) for i in range(n)]
        return sum(float(fed.values[i]) * curve(data[i], *parameters[i]) for i in range(n))

    return average_over_orders(n, total)


def size(values: np.ndarray) -> float:
    return float(np.abs(values).max()) + 1e-300


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_enumeration_agrees_with_all_orders(family):
    rng = np.random.default_rng(0)
    for n_agents in (1, 2, 3, 4, 4, 5):
        fed = random_federation(rng, n_agents=n_agents, family=family)
        s = random_profile(rng, fed)
        expected = by_orders(fed, s)
        found = fp.shapley_values(fed, s, method="enumeration").values
        np.testing.assert_allclose(found, expected, rtol=0, atol=BY_ORDERS * size(expected) * 10)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_quadrature_agrees_with_enumeration(family):
    rng = np.random.default_rng(1)
    for fed in random_federations(111, 60, family=family):
        s = random_profile(rng, fed)
        summed, integrated = (fp.shapley_values(fed, s, method=method) for method in ("enumeration", "quadrature"))
        np.testing.assert_allclose(
            integrated.values, summed.values, rtol=EXACT_ROUTES, atol=1e-3 * EXACT_ROUTES * size(summed.values)
        )
        np.testing.assert_allclose(
            integrated.gradient, summed.gradient, rtol=EXACT_ROUTES, atol=1e-3 * EXACT_ROUTES * size(summed.gradient)
        )


@pytest.mark.parametrize("n_agents", some([13, 9, 17], 1))
@pytest.mark.parametrize("harm", [False, True], ids=["help", "harm"])
def test_quadrature_agrees_with_enumeration_for_more_agents(n_agents, harm):
    """Across the sizes at which the implementation of either route changes."""
    rng = np.random.default_rng(n_agents)
    for family in FAMILIES:
        fed = random_federation(rng, n_agents=n_agents, family=family, harm=harm)
        s = random_profile(rng, fed)
        summed, integrated = (fp.shapley_values(fed, s, method=method) for method in ("enumeration", "quadrature"))
        np.testing.assert_allclose(integrated.values, summed.values, rtol=0, atol=EXACT_ROUTES * size(summed.values))
        np.testing.assert_allclose(
            integrated.gradient, summed.gradient, rtol=0, atol=EXACT_ROUTES * size(summed.gradient)
        )


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_quadrature_agrees_with_enumeration_for_tiny_and_huge_data(scale):
    rng = np.random.default_rng(2)
    for fed in random_federations(112, 16, harm=False, n_agents=4):
        s = scale * rng.random(4)
        wide = fp.Federation(fed.weights, costs=fed.costs, payoff=fed.payoff, values=fed.values)
        summed, integrated = (fp.shapley_values(wide, s, method=method) for method in ("enumeration", "quadrature"))
        np.testing.assert_allclose(integrated.values, summed.values, rtol=EXACT_ROUTES)


@pytest.mark.parametrize("beta", [10.0, 20.0, 50.0])
def test_quadrature_agrees_with_enumeration_for_steep_power_laws(beta):
    fed = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.1, payoff=fp.PowerLaw(beta))
    summed, integrated = (fp.shapley_values(fed, [0.2, 0.1], method=m) for m in ("enumeration", "quadrature"))
    np.testing.assert_allclose(integrated.values, summed.values, rtol=EXACT_ROUTES)


def many(rng: np.random.Generator, n_agents: int, kind: str, family: type[fp.Payoff] = fp.PowerLaw) -> fp.Federation:
    """A federation of more members than are enumerated; `kind` says whose data reaches whom."""
    draws = rng.random((n_agents, n_agents))
    weights = {
        "dense": draws,
        "sparse": np.where(rng.random(draws.shape) < 0.2, draws, 0.0) + np.eye(n_agents),
        "wide": 10.0 ** (7.9 * draws - 5.0),
        "dominant": np.where(np.arange(n_agents) == 0, 1e3, 1e-2 + 1e-2 * draws),
        "harm": np.where(rng.random(draws.shape) < 0.2, -0.8 / n_agents * draws, draws),
    }[kind]
    np.fill_diagonal(weights, np.abs(weights.diagonal()))
    low, high = (0.05, 2.0) if family is fp.PowerLaw else (1.0, 9.0)
    parameters = () if family is fp.Log else (rng.uniform(low, high, n_agents),)
    values = np.exp(rng.normal(size=n_agents))
    return fp.Federation(weights, costs=0.1, payoff=family(*parameters), values=values, caps=9.0)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
@pytest.mark.parametrize("kind", ["dense", "sparse", "wide", "dominant", "harm"])
def test_interpolation_agrees_with_every_factor_at_every_node(kind, family, monkeypatch):
    """Also for a semivalue: both forms of the integral, on members of whom some bring nothing."""
    rng = np.random.default_rng(8)
    federation = many(rng, 45, kind, family)
    profile = np.where(rng.random(45) < 0.1, 0.0, 2.0 * rng.random(45))
    for probability in (None, 0.5):
        found = []
        for most in (0, 1000):
            monkeypatch.setattr(integral, "FINE", integral.FINE._replace(direct=most))
            found.append(integral.integrate(federation.arrays, profile, probability=probability))
        points, direct = found
        if probability is None:
            assert abs(points.values.sum() - federation.payoffs(profile).sum()) <= BOTH_FORMS * size(direct.values) * 45
        np.testing.assert_allclose(points.values, direct.values, rtol=0, atol=BOTH_FORMS * size(direct.values))
        np.testing.assert_allclose(points.gradient, direct.gradient, rtol=0, atol=BOTH_FORMS * size(direct.gradient))


def some_lots(seed: int, count: int) -> list[tuple[FederationArrays, np.ndarray]]:
    """Federations with lots and tasks, harm and none, of any family; and a profile of each, inside the box."""
    rng = np.random.default_rng(seed)
    drawn = [random_lots(rng, n_agents=int(rng.integers(2, 7))) for _ in range(cases(count, 8))]
    return [(fed.arrays, random_profile(rng, fed)) for fed in drawn]


def test_integral_agrees_with_coalitions_on_lots_and_tasks():
    for arrays, profile in some_lots(31, 60):
        for probability in (None, 0.5, 0.9, 1.0):
            by_size = coalitions.size_coefficients(arrays.n_agents, probability)
            values, gradient = coalitions.values_and_gradient(arrays, profile, by_size)
            found = integral.integrate(arrays, profile, probability=probability)
            np.testing.assert_allclose(found.values, values, rtol=0, atol=BOTH_FORMS * size(values))
            np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=BOTH_FORMS * size(gradient))


def test_values_are_what_members_add_to_the_potential():
    for arrays, profile in some_lots(32, 40):
        without = np.where(np.arange(arrays.n_agents)[:, None] == arrays.lot_owners, 0.0, profile)
        values, _ = coalitions.values_and_gradient(arrays, profile)
        whole, rest = (summed_potential(arrays, each) for each in (profile, without))
        # The potential of fewer members has other coefficients: somebody who brings nothing changes none of it.
        np.testing.assert_allclose(whole - rest, values, rtol=0, atol=1e-11 * (size(values) + abs(float(whole))))
        by_task = integral.potential(arrays.member_data(profile), arrays.payoff)
        np.testing.assert_allclose(arrays.values @ by_task, whole, rtol=1e-10)


def test_derivatives_agree_with_finite_differences():
    rng = np.random.default_rng(33)
    for arrays, profile in some_lots(33, 40):
        step = 1e-5 * np.maximum(profile, 1e-2) * rng.random(profile.size)
        at = np.maximum(profile, 2.0 * step)
        gradient, hessian = coalitions.potential_derivatives(arrays, at)
        ahead, behind = (summed_potential(arrays, at + sign * step) for sign in (1.0, -1.0))
        assert float(ahead - behind) / 2.0 == pytest.approx(float(gradient @ step), rel=1e-5, abs=1e-11 * size(ahead))
        ahead, behind = (coalitions.potential_derivatives(arrays, at + sign * step)[0] for sign in (1.0, -1.0))
        np.testing.assert_allclose((ahead - behind) / 2.0, hessian @ step, rtol=1e-5, atol=1e-10 * size(gradient))
        fine = integral.potential_hessian(arrays, at, accuracy=integral.FINE)
        np.testing.assert_allclose(fine, hessian, rtol=0, atol=2e-11 * size(hessian))


@pytest.mark.parametrize("kind", ["dense", "sparse", "harm"])
def test_hessian_of_many_agrees_with_finite_differences(kind):
    rng = np.random.default_rng(34)
    arrays = many(rng, 70, kind).arrays
    at, step = 1.0 + rng.random(70), 1e-4 * rng.random(70)
    ahead, behind = (integral.integrate(arrays, at + sign * step).gradient for sign in (1.0, -1.0))
    fine, rough = (integral.potential_hessian(arrays, at, accuracy=each) for each in (integral.FINE, integral.ROUGH))
    np.testing.assert_allclose(fine @ step, (ahead - behind) / 2.0, rtol=1e-6, atol=1e-9 * size(ahead))
    np.testing.assert_allclose(rough, fine, rtol=0, atol=0.02 * size(fine))
    assert np.linalg.eigvalsh(rough).max() <= 1e-12 * size(fine)


def test_leading_axes_are_federations_side_by_side():
    rng = np.random.default_rng(35)
    federations = [random_federation(rng, n_agents=5, family=fp.Michaelis, harm=harm) for harm in (False, True, True)]
    profiles = np.array([[random_profile(rng, fed) for fed in federations] for _ in range(4)])
    stacked = stack(federations)
    together = (
        *coalitions.values_and_gradient(stacked, profiles),
        *coalitions.potential_derivatives(stacked, profiles),
        summed_potential(stacked, profiles),
    )
    for row in range(4):
        for column, federation in enumerate(federations):
            arrays, profile = federation.arrays, profiles[row, column]
            alone = (
                *coalitions.values_and_gradient(arrays, profile),
                *coalitions.potential_derivatives(arrays, profile),
                summed_potential(arrays, profile),
            )
            for both, one in zip(together, alone, strict=True):
                np.testing.assert_allclose(both[row, column], one, rtol=1e-12, atol=1e-14 * size(one))

"""Shapley values by three routes and, for few agents, by walking through all orders in plain Python."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

import fedpact as fp
from cases import GAMES
from random_cases import some
from strategies import FAMILIES, random_federation, random_federations, random_profile

# Of what coalitions earn or lose; enumeration is a plain sum.
BY_ORDERS = 1e-12
# Relative to the largest value, as the quadrature promises with room to spare.
EXACT_ROUTES = 1e-9
STANDARD_ERRORS = 5.0

CURVES = {
    "power-law": lambda y, beta: 1.0 - (1.0 + y) ** -beta,
    "log": lambda y: math.log(1.0 + y),
    "michaelis": lambda y, half: y / (y + half),
    "exponential": lambda y, rate: 1.0 - math.exp(-rate * y),
}


def by_orders(fed: fp.Federation, s: np.ndarray) -> list[float]:
    """What each agent adds when it joins, averaged over all orders; formulas written out once more."""
    n, weights = fed.n_agents, fed.dense_weights().tolist()
    curve = CURVES[fed.payoff.family]
    parameters = [[float(np.broadcast_to(p, n)[i]) for p in fed.payoff.parameters.values()] for i in range(n)]

    def total(members: set[int]) -> float:
        data = [sum(weights[i][j] * float(s[j]) for j in members) for i in range(n)]
        return sum(float(fed.values[i]) * curve(data[i], *parameters[i]) for i in range(n))

    values = [0.0] * n
    for order in permutations(range(n)):
        for place, agent in enumerate(order):
            values[agent] += total({*order[: place + 1]}) - total({*order[:place]})
    return [value / math.factorial(n) for value in values]


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


def test_known_games_agree_with_all_orders():
    for game in GAMES.values():
        expected = by_orders(game.federation, np.asarray(game.contributions))
        np.testing.assert_allclose(game.values, expected, rtol=1e-12, atol=1e-14)


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


def test_sampling_agrees_within_five_standard_errors():
    rng = np.random.default_rng(3)
    for fed in random_federations(113, 30):
        s = random_profile(rng, fed)
        exact = fp.shapley_values(fed, s, method="enumeration")
        drawn = fp.shapley_values(fed, s, method="sampling", permutations=400, rng=7)
        # Antithetic pairs are exact for one or two agents: what is left is rounding.
        room = STANDARD_ERRORS * drawn.standard_errors + 1e-12 * size(exact.values)
        assert (np.abs(drawn.values - exact.values) <= room).all()

"""Agents with several lots and tasks: every quantity by two routes that share as little as possible."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import fedpact as fp
from fedpact.shapley.adapters import coalition_game
from fedpact.shapley.compiled import Precision, integrate, receiver_rows
from fedpact.shapley.own_share import own_lots
from fedpact.shapley.potential import CompiledPotential, EnumeratedPotential, IntegratedPotential
from random_cases import cases
from strategies import FAMILIES, random_lots, random_profile

EXACT_ROUTES = 1e-10  # of the largest value
DIFFERENCES = 1e-5  # what finite differences can tell
ROUGH_CURVATURE = 0.1  # off its blocks, the compiled Hessian is good enough for a direction


def instances(seed: int, count: int, **pinned: object):
    rng = np.random.default_rng(seed)
    for family in FAMILIES:
        for _ in range(cases(count, few=2)):
            fed = random_lots(rng, family=family, **pinned)  # type: ignore[arg-type]
            yield fed, random_profile(rng, fed)


def close(one: np.ndarray, other: np.ndarray, tolerance: float = EXACT_ROUTES) -> None:
    np.testing.assert_allclose(one, other, rtol=0.0, atol=tolerance * (float(np.abs(other).max(initial=0.0)) + 1e-300))


def by_orders(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    """What each agent adds with all its lots when it joins, averaged over all orders."""
    weights, values = fed.dense_weights(), np.zeros(fed.n_agents)

    def total(members: tuple[int, ...]) -> float:
        return float(fed.values @ fed.payoff.value(weights @ np.where(np.isin(fed.lot_owners, members), s, 0.0)))

    for order in permutations(range(fed.n_agents)):
        for place, agent in enumerate(order):
            values[agent] += total(order[: place + 1]) - total(order[:place])
    return values / math.factorial(fed.n_agents)


def test_shapley_values_by_all_routes() -> None:
    for fed, s in instances(0, 20):
        listed = fp.shapley_values(fed, s, method="enumeration")
        close(listed.values, by_orders(fed, s))
        integral = fp.shapley_values(fed, s, method="quadrature")
        close(integral.values, listed.values)
        close(integral.gradient, listed.gradient)
        compiled = integrate(receiver_rows(fed), s, Precision.reaching(EXACT_ROUTES))
        close(compiled.values, listed.values)
        close(compiled.slopes, listed.gradient)
        assert listed.gradient.shape == (fed.n_lots,) and listed.efficiency_gap < 1e-12


@pytest.mark.parametrize("n_agents", [9, 14])
def test_shapley_values_of_more_agents(n_agents: int) -> None:
    rng = np.random.default_rng(n_agents)
    for harm in (False, True):
        fed = random_lots(rng, n_agents=n_agents, harm=harm, family=fp.PowerLaw, sparse=harm)
        s = random_profile(rng, fed)
        listed = fp.shapley_values(fed, s, method="enumeration")
        integral = fp.shapley_values(fed, s, method="quadrature")
        close(integral.values, listed.values)
        close(integral.gradient, listed.gradient)
        compiled = integrate(receiver_rows(fed), s, Precision.reaching(EXACT_ROUTES))
        close(compiled.values, listed.values)
        close(compiled.slopes, listed.gradient)


def test_potential_and_its_derivatives() -> None:
    for fed, s in instances(1, 10):
        listed, integral, compiled = EnumeratedPotential(fed), IntegratedPotential(fed), CompiledPotential(fed)
        assert listed.value(s) == pytest.approx(integral.value(s), rel=1e-9, abs=1e-12)
        gradient, hessian = listed.gradient(s), listed.hessian(s)
        close(integral.gradient(s), gradient)
        close(integral.hessian(s), hessian, 1e-8)
        close(compiled.gradient(s), gradient)
        own = fed.lot_owners[:, None] == fed.lot_owners
        close(compiled.hessian(s)[own], hessian[own], 1e-8)
        close(compiled.hessian(s), hessian, ROUGH_CURVATURE)
        inside = np.maximum(s, 1e-3)
        for lot in range(fed.n_lots):
            numeric = approx_fprime(inside, lambda x, lot=lot, of=listed: of.gradient(x)[lot], 1e-6)
            close(numeric, listed.hessian(inside)[lot], 1e-3)


def test_a_potential_without_an_agent_is_free_of_its_lots() -> None:
    """phi_j = P(N) - P(N without j)."""
    for fed, s in instances(2, 5, n_agents=4):
        values, whole = fp.shapley_values(fed, s).values, EnumeratedPotential(fed).value(s)
        for agent in range(fed.n_agents):
            others = np.where(fed.lot_owners == agent, 0.0, s)
            # The federation in which the agent brings nothing still counts it as a player; the potential is the same.
            assert whole - EnumeratedPotential(fed).value(others) == pytest.approx(values[agent], rel=1e-9, abs=1e-11)


def test_own_lots_follow_the_value() -> None:
    for fed, s in instances(3, 5, n_agents=4):
        for agent in np.unique(fed.lot_owners):
            own = fed.lots_of(agent)
            upper = np.where(np.isfinite(fed.caps[own]), fed.caps[own], 50.0)
            moved = s.copy()
            moved[own] = 0.5 * upper
            there = fp.shapley_values(fed, moved, method="enumeration")
            for method in ("enumeration", "quadrature"):
                share = own_lots(fed, s, int(agent), upper, method=method)
                u = share.weights @ moved[own]
                assert share.value(u) == pytest.approx(there.values[agent], rel=1e-8, abs=1e-10)
                close(share.weights.T @ share.slopes(u), there.gradient[own], 1e-8)
                steps = 1e-6 * (1.0 + np.abs(u))
                numeric = (share.slopes(u + steps) - share.slopes(u - steps)) / (2.0 * steps)
                close(numeric, share.bends(u), DIFFERENCES)


def test_splitting_an_agents_data_into_lots_changes_nothing() -> None:
    """Two lots with the weights of one are that one."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.0, 1.0, (4, 4)) + np.eye(4)
    whole = fp.Federation(weights, costs=0.01, caps=30.0, payoff=fp.PowerLaw(0.2))
    parts = fp.Federation(
        np.repeat(weights, 2, axis=1), lot_owners=np.repeat(np.arange(4), 2), costs=0.01, payoff=fp.PowerLaw(0.2)
    )
    s = rng.uniform(0.0, 10.0, 8)
    one, two = fp.shapley_values(whole, s.reshape(4, 2).sum(axis=1)), fp.shapley_values(parts, s)
    close(two.values, one.values, 1e-13)
    close(two.gradient, np.repeat(one.gradient, 2), 1e-13)


def test_the_game_of_a_profile() -> None:
    fed, s = next(instances(8, 1, n_agents=3))
    game = coalition_game(fed, s)
    assert game([0, 1, 2]) == pytest.approx(float(fed.payoffs(s).sum()), rel=1e-12)
    only = np.where(fed.lot_owners == 0, s, 0.0)
    assert game.values([[0]])[0] == pytest.approx(float(fed.payoffs(only).sum()), rel=1e-12)

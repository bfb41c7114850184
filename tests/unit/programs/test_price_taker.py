"""The best profile of one agent at given prices: against a general solver, and where the domain ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.federation import Payoff
from fedpact.programs.price_taker import PriceTaker
from random_cases import cases

# What SLSQP leaves on the table.
LOOSE = 1e-6


def shopper(rng: np.random.Generator, payoff: Payoff, *, bend: float = 0.0) -> PriceTaker:
    weights = np.where(rng.random(5) < 0.3, -rng.uniform(0.0, 0.02, 5), rng.uniform(0.0, 2.0, 5))
    weights[2] = 1.0
    cost = fp.Quadratic(0.05, bend) if bend else fp.Linear(0.05)
    return PriceTaker(weights=weights, own=2, value=1.5, payoff=payoff, cost=cost)


@pytest.mark.parametrize("payoff", [fp.PowerLaw(0.5), fp.Log(), fp.Michaelis(2.0), fp.Exponential(0.3)])
@pytest.mark.parametrize("bend", [0.0, 0.01])
def test_no_general_solver_does_better(payoff: Payoff, bend: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(cases(10)):
        agent = shopper(rng, payoff, bend=bend)
        prices, low = rng.uniform(-0.02, 0.3, 5), rng.uniform(0.0, 1.0, 5)
        high = low + rng.uniform(0.0, 9.0, 5)
        best = agent.best(prices, low, high)
        assert (best >= low).all() and (best <= high).all()
        other = minimize(
            lambda s, agent=agent, prices=prices: -agent.utility(s, prices),
            0.5 * (low + high),
            bounds=list(zip(low, high, strict=True)),
            method="SLSQP",
        )
        assert agent.utility(best, prices) >= -other.fun - LOOSE


def test_prices_at_which_nothing_is_decided_fill_up_to_what_is_wanted() -> None:
    """At prices m w every sample is worth its price when the marginal payoff is m: y = 1 / m - 1 for the logarithm."""
    weights = np.array([1.0, 2.0, 0.5])
    agent = PriceTaker(weights=weights, own=0, value=1.0, payoff=fp.Log(), cost=fp.Linear(0.1))
    prices = 0.1 * weights - np.array([0.1, 0.0, 0.0])
    best = agent.best(prices, np.zeros(3), np.full(3, 50.0))
    np.testing.assert_allclose(weights @ best, 9.0, rtol=1e-9)


def test_an_agent_that_cannot_get_inside_reaches_for_all_it_can() -> None:
    agent = PriceTaker(weights=np.array([1.0, -1.0]), own=0, value=1.0, payoff=fp.Log(), cost=fp.Linear(0.1))
    best = agent.best(np.zeros(2), np.array([0.0, 9.0]), np.array([2.0, 10.0]))
    np.testing.assert_array_equal(best, [2.0, 9.0])
    assert agent.utility(best, np.zeros(2)) == -np.inf


def test_an_agent_that_just_gets_inside_does() -> None:
    agent = PriceTaker(weights=np.array([1.0, -1.0]), own=0, value=1.0, payoff=fp.Log(), cost=fp.Linear(0.1))
    best = agent.best(np.zeros(2), np.array([0.0, 9.0]), np.array([8.001, 10.0]))
    np.testing.assert_allclose(best, [8.001, 9.0])


def test_harm_without_a_floor_does_not_overflow() -> None:
    agent = PriceTaker(weights=np.array([1.0, -1.0]), own=0, value=1.0, payoff=fp.Exponential(5.0), cost=fp.Linear(1.0))
    best = agent.best(np.zeros(2), np.array([0.0, 0.0]), np.array([500.0, 900.0]))
    assert np.isfinite(agent.utility(best, np.zeros(2)))


def test_an_agent_with_enough_wants_no_more() -> None:
    agent = PriceTaker(weights=np.array([1.0, 1.0]), own=0, value=1.0, payoff=fp.Exponential(1.0), cost=fp.Linear(1e-9))
    best = agent.best(np.array([0.0, 1e-9]), np.array([0.0, 2000.0]), np.array([1000.0, 3000.0]))
    np.testing.assert_array_equal(best, [0.0, 2000.0])

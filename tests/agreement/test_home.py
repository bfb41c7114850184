"""Data at home: everything is that of value (g(h + y) - g(h)), for every family, with lots and tasks too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.federation import Payoff
from fedpact.mechanisms import resolve_mechanism
from fedpact.scenario.uncertainty import Uncertainty
from potentials import average_over_orders
from random_cases import cases
from strategies import FAMILIES, payoff_of, random_profile


def curve(fed: fp.Federation, y: np.ndarray) -> np.ndarray:
    """g as the paper's readers would write it."""
    parameter = np.asarray(next(iter(fed.payoff.parameters.values()), 0.0))
    return {
        fp.PowerLaw: lambda: 1.0 - (1.0 + y) ** -parameter,
        fp.Log: lambda: np.log(1.0 + y),
        fp.Michaelis: lambda: y / (parameter + y),
        fp.Exponential: lambda: 1.0 - np.exp(-parameter * y),
    }[type(fed.payoff)]()


def raw_payoffs(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    """What members gain on their data at home, from the numbers as they were given."""
    own = fed.task_owners[:, None] == fed.lot_owners
    at_home = np.where(own, np.maximum(fed.weights, 0.0), 0.0) @ fed.home
    shared = np.where(own, 0.0, fed.weights) @ s
    gained = fed.values * (curve(fed, at_home + shared) - curve(fed, at_home))
    return np.bincount(fed.task_owners, gained, fed.n_agents)


def raw_costs(fed: fp.Federation, s: np.ndarray) -> float:
    return float(np.sum(fed.costs.linear * s + fed.costs.quadratic * s**2))


def by_orders(fed: fp.Federation, s: np.ndarray) -> np.ndarray:
    def total(members: tuple[int, ...]) -> float:
        return float(raw_payoffs(fed, np.where(np.isin(fed.lot_owners, members), s, 0.0)).sum())

    return average_over_orders(fed.n_agents, total)


def at_home(family: type[Payoff], seed: int, *, lots: bool) -> fp.Federation:
    """Four members with data at home, some of which is of no use to others or, shared, harms them a little."""
    rng = np.random.default_rng(seed)
    lot_owners = np.array([0, 0, 1, 2, 3, 3] if lots else range(4))
    task_owners = np.array([0, 1, 1, 2, 3] if lots else range(4))
    shape = (task_owners.size, lot_owners.size)
    weights = rng.uniform(-0.005, 1.5, shape) * (rng.random(shape) < 0.8)
    weights[task_owners[:, None] == lot_owners] = rng.uniform(0.5, 1.5)
    if lots:  # the second member's data harms one of its own tasks
        weights[2, 2] = -0.5
    low, high = {fp.PowerLaw: (0.1, 1.0), fp.Michaelis: (3.0, 30.0), fp.Exponential: (0.01, 0.1)}.get(family, (1, 1))
    payoff = payoff_of(family, rng.uniform(low, high, shape[0]))
    values, caps = rng.uniform(0.5, 2.0, shape[0]), rng.uniform(5.0, 30.0, shape[1])
    worth = (values * payoff.slope(np.full(shape[0], 20.0))) @ np.maximum(weights, 0.0)
    costs = fp.Quadratic(rng.uniform(0.1, 1.0, shape[1]) * worth + 1e-4, rng.uniform(0.0, 0.02, shape[1]) * worth)
    owners = {"lot_owners": lot_owners.tolist(), "task_owners": task_owners.tolist()} if lots else {}
    home = rng.uniform(0.0, 30.0, shape[1]) if seed % 2 else "all"
    return fp.Federation(weights, costs=costs, caps=caps, payoff=payoff, values=values, home=home, **owners)


def instances(count: int):
    for family in FAMILIES:
        for lots in (False, True):
            for seed in range(cases(count, few=2)):
                fed = at_home(family, seed, lots=lots)
                yield fed, random_profile(np.random.default_rng(seed), fed)


def test_payoffs_count_from_home() -> None:
    for fed, s in instances(20):
        expected = raw_payoffs(fed, s)
        size = float(np.abs(expected).max())
        np.testing.assert_allclose(fed.payoffs(s), expected, rtol=0.0, atol=1e-11 * max(size, 1e-3))
        assert fed.welfare(s) == pytest.approx(expected.sum() - raw_costs(fed, s), abs=1e-10)
        assert fp.Standalone().solve(fed).utilities.tolist() == [0.0] * fed.n_agents


def test_all_at_home_is_what_could_be_shared() -> None:
    fed = at_home(fp.Log, 0, lots=False)
    np.testing.assert_array_equal(fed.home, fed.caps)
    assert fed == fed.replace(home=fed.caps) and fed != fed.replace(home=None)
    with pytest.raises(fp.InvalidInput, match=r"home\[0\] can only be all of a finite cap"):
        fed.replace(caps=np.inf, home="all")
    with pytest.raises(fp.InvalidInput, match=r'home must be "all", an amount or one per lot, or None'):
        fed.replace(home="most")


def test_the_welfare_optimum_is_that_of_the_raw_formula() -> None:
    for fed, s in instances(10):
        best = fp.social_optimum(fed)

        def lost(x: np.ndarray, fed: fp.Federation = fed) -> float:
            return raw_costs(fed, x) - float(raw_payoffs(fed, x).sum())

        bounds, options = [(0.0, cap) for cap in fed.caps], {"ftol": 1e-14, "gtol": 1e-10}
        found = min(minimize(lost, at, bounds=bounds, options=options).fun for at in (s, best.contributions))
        assert best.welfare == pytest.approx(-lost(best.contributions), abs=1e-10)
        assert best.welfare == pytest.approx(-found, abs=1e-7)


def test_shapley_values_are_those_of_the_raw_formula() -> None:
    for fed, s in instances(10):
        expected = by_orders(fed, s)
        for method in ("enumeration", "quadrature"):
            found = fp.shapley_values(fed, s, method=method).values
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9 * float(np.abs(expected).max()))


@pytest.mark.parametrize("lots", [False, True])
def test_draws_and_points_of_a_sweep_count_from_home(lots: bool) -> None:
    for family in FAMILIES:
        fed = at_home(family, 1, lots=lots)
        errors = Uncertainty(weights=0.1 * np.abs(fed.weights), values=0.1, parameter=0.0, signs="any")
        s, drawn = 0.5 * fed.caps, errors.draws(fed, 3, rng=0)
        plain = errors.draws(fed.replace(home=None), 3, rng=0)
        for draw in range(3):
            same = fed.replace(weights=plain.weights[draw], values=plain.values[draw])
            np.testing.assert_allclose(drawn.payoffs(np.tile(s, (3, 1)))[draw], raw_payoffs(same, s), atol=1e-11)
        swept = fp.sweep(fed, "values=0.5,1.5", metrics=["welfare"], mechanisms=["externality"])
        alone = [fp.ExternalityMechanism().solve(fed.replace(values=value)).welfare for value in (0.5, 1.5)]
        np.testing.assert_allclose(swept.metrics["externality"]["welfare"], alone, rtol=1e-8)


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [("externality", "price-discovery"), ("externality", "sums"), ("shapley", "price-discovery")],
)
@pytest.mark.parametrize("lots", [False, True])
def test_negotiation_reaches_the_solved_deal(mechanism: str, protocol: str, lots: bool) -> None:
    """Nothing that others share helps the first member."""
    fed = at_home(fp.PowerLaw, 1, lots=lots)
    fed = fed.replace(weights=np.where((fed.task_owners[:, None] == 0) & (fed.lot_owners != 0), 0.0, fed.weights))
    solved = resolve_mechanism(mechanism).solve(fed)
    deal = fp.negotiate(fed, mechanism=mechanism, protocol=protocol, least_gain=None)
    size = float(np.abs(solved.payoffs).sum() + solved.costs.sum())
    np.testing.assert_allclose(deal.payments, solved.payments, rtol=0.0, atol=1e-6 * size)
    assert fed.welfare(deal.contributions) == pytest.approx(fed.welfare(solved.contributions), abs=1e-6 * size)

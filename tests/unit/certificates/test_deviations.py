"""Deviations under each rule: bounds hold on random actions, and actions give what they are said to."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.deviations import (
    Deviations,
    free_riding,
    isolation,
    price_taking,
    semivalue_sharing,
    sharing_total,
)
from random_cases import cases
from strategies import random_federation, random_lots, random_profile

ROUNDING = 1e-9  # of payoffs and costs


def utility(federation: fp.Federation, rule: str, profile: np.ndarray, moved: np.ndarray, agent: int) -> float:
    """What a member has where it alone moves from a profile, by the definitions; minus infinity outside the domain."""
    arrays, own = federation.arrays, federation.lot_owners == agent
    if rule == "isolation":
        alone = np.where(own, moved, 0.0)
        return float(arrays.without_sharing().payoffs(alone)[agent] - arrays.spending(alone)[agent])
    spent = arrays.spending(moved)[agent]
    if rule == "price_taking":
        prices = arrays.prices(profile)
        return float(arrays.payoffs(moved)[agent] - spent - np.asarray(prices[agent]) @ moved)
    if rule == "free_riding":
        return float(arrays.payoffs(moved)[agent] - spent)
    if rule == "sharing_total":
        return float(0.5 * arrays.payoffs(moved).sum() - spent + agent)
    return float(fp.shapley_values(federation, moved, method="enumeration").values[agent] - spent)


def deviations(federation: fp.Federation, rule: str, profile: np.ndarray) -> Deviations:
    if rule == "sharing_total":
        return sharing_total(federation, profile, np.arange(federation.n_agents, dtype=float), share=0.5)
    if rule == "shapley":
        return semivalue_sharing(federation, profile, None)
    return {"price_taking": price_taking, "free_riding": free_riding, "isolation": isolation}[rule](federation, profile)


@pytest.mark.parametrize("rule", ["price_taking", "free_riding", "isolation", "sharing_total", "shapley"])
def test_no_action_beats_the_bound_and_the_best_gives_what_is_said(rule: str) -> None:
    rng = np.random.default_rng(11)
    for number in range(cases(24)):
        draw = random_lots if number % 2 else random_federation
        federation = draw(rng, n_agents=int(rng.integers(1, 5)))
        profile = random_profile(rng, federation)
        found = deviations(federation, rule, profile)
        size = 1.0 + np.abs(federation.payoffs(profile)).sum() + federation.spending(profile).sum()
        if rule != "price_taking":  # where a member's problem is solved, the best action gives what nobody can exceed
            assert (found.shortfalls <= 1e-8 * size).all()
        for agent in range(federation.n_agents):
            own = federation.lot_owners == agent
            best = np.where(own, found.actions, profile)
            there = utility(federation, rule, profile, best, agent)
            np.testing.assert_allclose(found.reached[agent], there, atol=ROUNDING * size)
            for _ in range(10):
                tried = np.where(own, random_profile(rng, federation), profile)
                assert utility(federation, rule, profile, tried, agent) <= found.utilities[agent] + ROUNDING * size


def test_who_cannot_reach_the_domain_has_nothing_to_gain() -> None:
    harmed = fp.Federation([[1.0, -5.0], [0.0, 1.0]], costs=0.1, caps=[2.0, 1.0], payoff=fp.Log())
    best = free_riding(harmed, np.array([2.0, 1.0]))
    assert best.utilities[0] == -np.inf


def test_who_needs_its_own_data_brings_it() -> None:
    """Without its own two samples a member is outside its payoff's domain."""
    harmed = fp.Federation([[1.0, -2.0], [0.0, 1.0]], costs=0.1, caps=[20.0, 1.0], payoff=fp.Log())
    for start in (0.0, 15.0):
        best = free_riding(harmed, np.array([start, 1.0]))
        np.testing.assert_allclose(best.actions[0], 11.0, rtol=1e-6)  # 1 / (1 + x - 2) = 0.1


def test_agents_without_lots_or_tasks_have_what_the_others_give() -> None:
    fed = fp.Federation(
        [[1.0, 0.5], [0.5, 0.2]], lot_owners=["A", "B"], task_owners=["A", "C"], costs=0.1, payoff=fp.Log(), caps=5.0
    )
    best = free_riding(fed, np.array([1.0, 2.0]))
    assert best.actions[1] == 0.0 and best.utilities[1] == 0.0  # B has nothing to gain from its own data
    assert best.utilities[2] == pytest.approx(np.log1p(0.9), rel=1e-12)
    # A wants 1 / (1 + y) = 0.1 and has 1 from B.
    assert best.actions[0] == pytest.approx(5.0)


def test_prices_are_taken_as_given() -> None:
    """A member that states a lower cap moves prices, and may gain; the scope says that this is not looked at."""
    federation = fp.Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    outcome = fp.ExternalityMechanism().solve(federation)
    assert outcome.certificates["nash"].holds
    assert "takes as given" in outcome.certificates["nash"].scope

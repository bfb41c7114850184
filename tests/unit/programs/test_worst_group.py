"""The worst group: exact when small; beyond, a bracket that holds the truth, from whichever side it is open."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

import fedpact as fp
from fedpact.programs import group_relaxation, worst_group
from fedpact.programs.group_relaxation import GroupRelaxation, relaxation_obstacle
from fedpact.programs.groups import group_optima
from fedpact.programs.worst_group import BRACKET_TOLERANCE, WorstGroup, price_bounds, subsets_by_sum
from fedpact.programs.worst_group import worst_group as find
from strategies import FAMILIES, random_federation, random_federations

ROUNDING = 1e-12  # of what all reach together
LONG = 60.0  # seconds a search may take; none of these needs it


@dataclass(frozen=True, eq=False)
class HomeMade(fp.Log):
    """A logarithm that has no cone."""

    def hyperbola(self):
        return None


def searched(federation: fp.Federation, utilities: np.ndarray, *, proper: bool = False) -> WorstGroup:
    """What the search for many agents makes of a few."""
    search = worst_group._Search(federation, utilities, time.monotonic() + LONG, None, proper=proper)
    return search.run()


def drawn_utilities(rng: np.random.Generator, federation: fp.Federation) -> np.ndarray:
    """Shares of what all have together, so that some groups gain and some lose."""
    total = fp.social_optimum(federation).welfare
    return rng.dirichlet(np.full(federation.n_agents, 3.0)) * total


def test_the_search_agrees_with_all_groups():
    rng = np.random.default_rng(0)
    for federation in random_federations(21, 40, n_agents=7, harm=False):
        utilities, scale = drawn_utilities(rng, federation), group_optima(federation).values[-1]
        all_of_them, found = find(federation, utilities), searched(federation, utilities)
        assert found.exact
        assert found.upper_bound >= all_of_them.gain - ROUNDING * scale
        np.testing.assert_allclose(found.gain, all_of_them.gain, rtol=0, atol=BRACKET_TOLERANCE * scale)
        np.testing.assert_allclose(found.gain, found.value - utilities[found.members].sum(), rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("proper", [False, True])
def test_with_harm_the_bracket_holds_the_truth(proper):
    rng = np.random.default_rng(1)
    for federation in random_federations(22, 40, n_agents=6, harm=True):
        utilities, scale = drawn_utilities(rng, federation), abs(group_optima(federation).values).max()
        truth = find(federation, utilities, proper=proper).gain
        found = searched(federation, utilities, proper=proper)
        assert found.gain <= truth + ROUNDING * scale
        assert found.upper_bound >= truth - ROUNDING * scale
        assert found.exact == (found.upper_bound - found.gain <= BRACKET_TOLERANCE * scale)


@pytest.mark.slow
def test_with_harm_the_worst_group_of_many_is_found():
    rng = np.random.default_rng(11)
    for federation in random_federations(24, 20, n_agents=10, harm=True):
        utilities, scale = drawn_utilities(rng, federation), abs(group_optima(federation).values).max()
        truth = find(federation, utilities).gain
        np.testing.assert_allclose(searched(federation, utilities).gain, truth, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_relaxation_bounds_every_group_and_is_tight_for_one_that_is_decided(family):
    rng = np.random.default_rng(2)
    for quadratic in (False, True):
        federation = random_federation(rng, n_agents=5, harm=False, family=family, quadratic=quadratic)
        utilities, optima = drawn_utilities(rng, federation), group_optima(federation)
        gains, scale = optima.gains(utilities), optima.values[-1]
        relaxation, nobody = GroupRelaxation(federation, utilities, scale), np.zeros(5, dtype=bool)
        anything = relaxation.solve(nobody, nobody, time_limit=LONG)
        assert anything is not None
        assert anything.bound >= gains[1:].max()
        for place in (5, 22, 31):
            group = optima.members[place]
            decided = relaxation.solve(group, ~group, time_limit=LONG)
            assert decided is not None
            np.testing.assert_allclose(decided.bound, gains[place], rtol=0, atol=2e-6 * scale)


def test_no_group_gains_more_than_the_prices_of_any_profile_say():
    rng = np.random.default_rng(3)
    for federation in random_federations(23, 60, n_agents=5):
        optima, utilities = group_optima(federation), rng.normal(size=5)
        profile = rng.random(5) * np.minimum(federation.caps, 20.0)
        bounds = optima.members @ price_bounds(federation, utilities, profile)
        assert (optima.gains(utilities) <= bounds + ROUNDING * (1.0 + np.abs(bounds))).all()


@pytest.mark.parametrize("mechanism", [fp.ShapleyMechanism(), fp.Voluntary()], ids=lambda each: each.name)
def test_where_nearly_everybody_leaves_the_order_of_bounds_settles_it(mechanism):
    """Who is left behind costs the group its bound by prices: leaving two behind already costs more than is open."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.0, 1.0, (30, 30)) + np.eye(30)
    federation = fp.Federation(weights, costs=rng.uniform(0.05, 0.2, 30), caps=5.0, payoff=fp.PowerLaw(1.5))
    utilities = np.asarray(mechanism.solve(federation).utilities)
    found = find(federation, utilities, proper=True, max_relaxations=0)
    all_but_one = group_optima(federation, ~np.eye(30, dtype=bool)).gains(utilities)
    assert found.exact and found.members.sum() == 29
    np.testing.assert_allclose(found.gain, all_but_one.max(), rtol=1e-9)


def test_subsets_come_in_the_order_of_their_sums():
    numbers = np.random.default_rng(4).uniform(0.0, 1.0, 9)
    listed = list(subsets_by_sum(numbers))
    totals = [total for total, _ in listed]
    assert totals == sorted(totals)
    assert len({frozenset(places) for _, places in listed}) == len(listed) == 2**9
    np.testing.assert_allclose(totals, [numbers[places].sum() for _, places in listed], atol=1e-12)


def test_of_groups_that_gain_alike_it_is_the_smallest():
    federation = fp.Federation(np.eye(4), costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.3))
    alone = group_optima(federation).values[1]
    found = find(federation, [alone, alone - 0.1, alone, alone])
    assert found.members.tolist() == [False, True, False, False]
    np.testing.assert_allclose(found.gain, 0.1)


def test_many_agents_under_the_externality_mechanism_are_settled_by_prices():
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.0, 1.0, (30, 30))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=0.005, caps=30.0, payoff=fp.PowerLaw(0.1))
    found = find(federation, fp.ExternalityMechanism().solve(federation).utilities)
    assert found.exact
    assert abs(found.gain) < 1e-9
    assert "prices" in found.method


def many(payoff: fp.Payoff | None = None) -> tuple[fp.Federation, np.ndarray]:
    """Eighteen agents paid equally, of whom six have more to offer each other."""
    weights = np.full((18, 18), 0.05)
    weights[:6, :6] = 0.9
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=0.01, caps=20.0, payoff=payoff or fp.Log())
    return federation, np.full(18, fp.social_optimum(federation).welfare / 18)


def test_branch_and_bound_names_those_who_give_most():
    federation, utilities = many()
    told: list[tuple[int, int]] = []
    found = find(federation, utilities, progress=lambda done, total: told.append((done, total)))
    assert found.members.tolist() == [True] * 6 + [False] * 12
    assert found.exact
    assert "branch and bound" in found.method
    assert told
    reached = federation.take(found.members).welfare(found.contributions[found.members])
    np.testing.assert_allclose(found.value, reached)


def test_without_time_the_bracket_is_wide_but_true():
    federation, utilities = many()
    found, truth = find(federation, utilities, time_limit=0.0), find(federation, utilities)
    assert found.gain <= truth.gain <= found.upper_bound


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["no cone", "not installed", "negative", "too many"])
def test_without_a_relaxation_it_says_why(monkeypatch, reason):
    federation, utilities = many(HomeMade() if reason == "no cone" else None)
    if reason == "not installed":
        monkeypatch.setattr(group_relaxation, "find_spec", lambda name: None)
    if reason == "too many":
        monkeypatch.setattr(group_relaxation, "MAX_RELAXED_WEIGHTS", 10)
    if reason == "negative":
        weights = federation.dense_weights().copy()
        weights[0, 17] = -0.001
        federation = federation.replace(weights=weights)
    found = find(federation, utilities)
    assert reason in relaxation_obstacle(federation)
    assert reason in found.method
    assert found.members[:6].all()
    assert found.gain <= found.upper_bound


def test_one_number_per_agent_is_asked_for():
    federation, _ = many()
    with pytest.raises(fp.InvalidInput, match="utilities"):
        find(federation, [1.0, 2.0])

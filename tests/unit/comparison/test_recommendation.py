"""Which mechanism is recommended, and the words of the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.recommendation import CLOSE_SHARE
from fedpact.scenario import example as built_in
from old_hospitals import example


@pytest.fixture(scope="module")
def hospitals() -> fp.Comparison:
    return fp.compare(example("hospitals").federation)


def test_reason_on_the_hospitals(hospitals: fp.Comparison) -> None:
    recommended = hospitals.recommendation
    assert recommended.mechanism == "externality"
    for part in (
        "It reaches 100.0 % of the best welfare",
        "Nobody would leave, and no group gains by leaving together",
        "Clinic gets 72 % of its fair share of the gain",
        "Shapley loses Children's, Clinic and County and reaches 87.5 %",
        "Fair raises the lowest share of a fair gain from 72 % to 100 % with fixed sums between members",
        "Voluntary is nearly as good, 96.2 %, and nobody pays anybody, though",
    ):
        assert part in recommended.reason


def test_shares_of_gains_are_of_what_members_have(hospitals: fp.Comparison) -> None:
    found = hospitals.blocking_groups["voluntary"]
    percent = 100.0 * found.gain / sum(found.utilities.values())
    assert f"would gain {percent:.2g} % in total by leaving together, to be shared" in hospitals.recommendation.reason


def test_a_group_that_would_leave_is_named_where_nobody_would_alone() -> None:
    federation = example("paper-w2").federation
    reason = fp.compare(federation).recommendation.reason
    assert (
        "Under Shapley, which reaches 92.8 %, agent 1 and agent 2 would gain 4.3 % in total by leaving together"
        in reason
    )
    alone = fp.compare(federation, ["shapley"]).recommendation.reason
    assert "Nobody would leave alone, but agent 1 and agent 2 would gain" in alone


def test_voluntary_is_named_only_where_nearly_as_good(hospitals: fp.Comparison) -> None:
    homogeneous = fp.compare(example("paper-w1").federation)
    assert homogeneous["voluntary"].welfare < 0.95 * homogeneous["externality"].welfare
    assert "nobody pays" not in homogeneous.recommendation.reason


def test_fairness_decides_between_equally_good_mechanisms() -> None:
    """With data of no use to others both mechanisms are standing alone; the more reciprocal is chosen, or the first."""
    federation = fp.Federation(np.eye(3), costs=0.01, caps=50.0, payoff=fp.PowerLaw(beta=0.5))
    comparison = fp.compare(federation)
    stable = comparison.after_departures
    best = max(settled.welfare for settled in stable.values())
    near = [name for name, settled in stable.items() if settled.welfare >= best * (1 - CLOSE_SHARE)]
    assert near == ["externality", "shapley", "fair"]
    chosen = comparison.recommendation.mechanism
    assert comparison[chosen].reciprocity == max(comparison[name].reciprocity for name in near)
    assert chosen != "fair", "fixed sums that change nothing are not recommended"


def test_fixed_sums_are_recommended_only_where_nothing_else_was_compared() -> None:
    federation = example("hospitals").federation
    assert fp.compare(federation, ["fair", "externality"]).recommendation.mechanism == "externality"
    alone = fp.compare(federation, ["fair"]).recommendation
    assert alone.mechanism == "fair"
    assert "where these are known, not just claimed" in alone.reason
    assert "posing as two" not in alone.reason, "that is a matter of manipulation, not of the headline"


def test_what_fixed_sums_to_members_alone_invite() -> None:
    """Fair to members keeps every member, not every group; the reason says which would go."""
    rng = np.random.default_rng(4)
    sparse = np.where(rng.uniform(size=(6, 6)) < 0.4, rng.uniform(size=(6, 6)), 0.0)
    federation = fp.Federation(sparse + np.eye(6), costs=0.002, caps=100.0, payoff=fp.PowerLaw(beta=0.1))
    compared = fp.compare(federation, ["externality", "fair-members"])
    assert compared.blocking_groups["fair-members"].blocks
    assert "Under Fair to members," in compared.recommendation.reason


def test_where_everybody_would_leave_the_advice_is_to_stay_apart() -> None:
    federation = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, payoff=fp.Log())
    recommendation = fp.compare(federation).recommendation
    assert recommendation.mechanism == "standalone"
    assert "Under Shapley, agent 0 and agent 1 would leave." in recommendation.reason


def test_where_all_at_once_leave_nobody_the_worst_off_leave_first() -> None:
    """North and South harm each other: without South, North stays, and all have more than alone."""
    weights = [[1.0, -2.0, 0.5], [-2.0, 1.0, 0.4], [0.3, 0.2, 1.0]]
    names = ["North", "South", "West"]
    federation = fp.Federation(weights, costs=0.01, caps=50.0, payoff=fp.Log(), names=names)
    assert fp.stable_federation(federation, "externality").members in {(), ("West",)}
    comparison = fp.compare(federation)
    assert comparison.after_departures["externality"].members == ("North", "West")
    assert comparison.recommendation.mechanism == "externality"
    assert comparison.recommendation.members == ("North", "West")
    assert "With everybody in, South would leave Externality" in comparison.recommendation.reason
    assert comparison.best_welfare > comparison["standalone"].welfare > comparison.best_welfare_together
    reached = [comparison.share_of_best(outcome.welfare) for outcome in comparison]
    assert max(reached) < 1.0 == comparison.share_of_best(comparison.best_welfare)


def test_with_data_at_home_the_gain_is_said_in_money() -> None:
    compared = fp.compare(built_in("hospitals"))
    gained = compared["externality"].welfare
    assert f"100.0 % of the best welfare, EUR {gained:,.0f} more than everybody alone" in compared.recommendation.reason


def test_where_nobody_stays_it_is_said_who_leaves_first() -> None:
    scenario = built_in("hospitals")
    dearer = replace(scenario, federation=scenario.federation.replace(joining_costs=5000.0))
    assert "Shapley loses everybody, Clinic first, and reaches 0.0 %." in fp.compare(dearer).recommendation.reason


def test_the_deal_without_whom_should_stay_out() -> None:
    """Berg's joining costs more than it adds: what is recommended, its numbers and its deal are those of the others."""
    weights = [[1.0, 0.6, 0.4, 0.1], [0.7, 1.0, 0.3, 0.1], [0.8, 0.5, 1.0, 0.02], [0.5, 0.4, 0.2, 1.0]]
    names, joining = ["Nord", "Sued", "Tal", "Berg"], [0.005, 0.005, 0.005, 0.4]
    given = {"costs": 0.001, "caps": 50.0, "payoff": fp.PowerLaw(beta=0.25), "home": "all"}
    federation = fp.Federation(weights, names=names, joining_costs=joining, **given)
    compared = fp.compare(federation)
    recommended, without = compared.recommendation, federation.take([0, 1, 2])
    assert (tuple(recommended.members), tuple(recommended.out)) == (("Nord", "Sued", "Tal"), ("Berg",))
    assert recommended.whose == ", among Nord, Sued and Tal, without Berg"
    own = compared.recommended_outcome
    alone = fp.compare(without)
    assert recommended.mechanism == alone.recommendation.mechanism
    np.testing.assert_allclose(own.payments, alone[recommended.mechanism].payments, atol=1e-12)
    assert recommended.sentences[-len(alone.recommendation.sentences) :] == alone.recommendation.sentences
    deal = compared.recommended_deal
    assert deal.agents == ("Nord", "Sued", "Tal") and "its joining costs 0.4 units of payoff" in deal.excluded["Berg"]
    everybody = fp.compare(fp.Federation(weights, names=names, joining_costs=0.005, **given))
    assert everybody.among_best is None and everybody.recommendation.whose == ""


def test_a_deal_that_loses_a_member_and_gains_nothing_is_not_recommended_for_its_budget() -> None:
    federation = fp.Federation(
        [[0.86, 0.0], [0.47, 0.57]],
        costs=fp.Quadratic([0.0233, 0.0078], 0.0005),
        caps=[55.8, 52.4],
        joining_costs=[0.1, 0.01],
        budgets=[0.05, 0.0],
        payoff=fp.Exponential([0.076, 0.127]),
    )
    recommended = fp.compare(federation).recommendation
    assert recommended.mechanism == "standalone"
    assert "No deal stays within the budgets" in recommended.reason
    assert "agent 1 is asked for" in recommended.reason


def test_the_recommended_deal_is_that_of_those_who_stay() -> None:
    compared = fp.compare(example("hospitals").federation, ["shapley"])
    settled = compared.after_departures["shapley"]
    assert settled.leavers and compared.recommended_deal.agents == tuple(settled.members)


def test_free_riding_out_of_the_domain_is_no_outcome() -> None:
    federation = fp.Federation(
        [[0.108, 0.17, 0.83], [-0.052, 0.0, -0.272], [-0.048, 0.55, 0.74], [1.2, -0.034, 1.37]],
        costs=[0.0029, 0.0162, 0.0275],
        caps=[31.8, 54.3, 8.1],
        values=[1.0, 2.0, 1.0, 2.0],
        payoff=fp.Log(),
        lot_owners=["A", "B", "C"],
        task_owners=["A", "B", "C", "C"],
    )
    compared = fp.compare(federation)
    assert "harmed more than its payoff curve describes" in compared.unsolved["voluntary"]
    assert compared.recommendation.members == ("A", "C")

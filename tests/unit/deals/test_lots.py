"""Deals between agents with several lots: contributions per lot, payments per agent, in and out of files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.lies import best_lies
from fedpact.deals.deal_file import contradictions, deal_from_record, deal_record, outcome_record
from fedpact.mechanisms import AccuracyShaping, ProportionalSharing
from old_hospitals import example, hospitals_with_privacy

FEDERATION = example("hospitals-lots").federation


@pytest.fixture(scope="module")
def outcome() -> fp.Outcome:
    return fp.ExternalityMechanism().solve(FEDERATION)


def test_an_outcome_is_per_lot_and_per_agent(outcome: fp.Outcome) -> None:
    assert outcome.contributions.shape == (10,) and outcome.task_payoffs.shape == (7,)
    for name in ("payoffs", "costs", "payments", "utilities", "standalone", "shapley_values"):
        assert getattr(outcome, name).shape == (5,), name
    np.testing.assert_allclose(outcome.payoffs.sum(), outcome.task_payoffs.sum(), rtol=1e-14)
    np.testing.assert_allclose(outcome.shapley_values.sum(), outcome.payoffs.sum(), rtol=1e-12)
    assert all(outcome.certificates[claim].holds for claim in fp.ExternalityMechanism().promises(FEDERATION))


def test_a_deal_comes_back_from_its_file(outcome: fp.Outcome, tmp_path) -> None:
    deal = outcome.deal
    deal.save(tmp_path / "deal.json")
    loaded = fp.load_deal(tmp_path / "deal.json")
    assert loaded.has_lots and loaded.differences(deal) == []
    assert loaded.lot_owners == deal.lot_owners and loaded.lot_names == FEDERATION.lot_names
    agreed, members = loaded.belonging_to(FEDERATION)
    np.testing.assert_array_equal(agreed.contributions, outcome.contributions)
    assert members is FEDERATION
    assert deal_from_record(deal_record(deal)).differences(deal) == []


def test_lots_in_another_order_are_the_same_deal(outcome: fp.Outcome) -> None:
    deal = outcome.deal
    order = np.arange(10)[::-1]
    turned = replace(
        deal,
        contributions=deal.contributions[order],
        prices=deal.prices[:, order],
        lot_owners=tuple(deal.lot_owners[lot] for lot in order),
        lot_names=tuple(deal.lot_names[lot] for lot in order),
    )
    agreed, _ = turned.belonging_to(FEDERATION)
    np.testing.assert_array_equal(agreed.contributions, deal.contributions)
    assert agreed.price_contradiction() == ""


def test_a_deal_about_other_lots_is_refused(outcome: fp.Outcome) -> None:
    other = replace(outcome.deal, lot_names=("x", *outcome.deal.lot_names[1:]), scenario=None)
    with pytest.raises(fp.InvalidInput, match="must be about the lots of the scenario"):
        other.belonging_to(FEDERATION)
    with pytest.raises(fp.InvalidInput, match="lot_owners must be members of the deal, got 'Nobody'"):
        replace(outcome.deal, lot_owners=("Nobody", *outcome.deal.lot_owners[1:]))
    with pytest.raises(fp.InvalidInput, match="lot_names must be one per lot, those of one owner different"):
        replace(outcome.deal, lot_names=("a",) * 10)


def test_who_differs_is_told_by_owner(outcome: fp.Outcome) -> None:
    changed = outcome.contributions.copy()
    changed[3] += 1.0
    assert replace(outcome.deal, contributions=changed).differences(outcome.deal) == ["City"]


def test_those_who_stay_keep_their_lots(outcome: fp.Outcome) -> None:
    stable = fp.stable_federation(FEDERATION, "shapley")
    assert "Clinic" in stable.leavers and stable.outcome is not None
    part = stable.outcome.deal
    assert set(part.lot_owners or ()) <= set(stable.members)
    agreed, members = part.belonging_to(FEDERATION)
    assert members.names == stable.members and agreed.differences(part) == []


def test_money_follows_payments(outcome: fp.Outcome) -> None:
    settlement = fp.settle(outcome, money=example("hospitals-lots").money)
    assert settlement.transfers


@pytest.mark.parametrize(
    ("refuses", "what"),
    [
        (lambda: ProportionalSharing().solve(FEDERATION), "the mechanism proportional"),
        (lambda: AccuracyShaping().solve(FEDERATION), "the mechanism accuracy-shaping"),
        (lambda: best_lies(FEDERATION, "externality"), "the search for lies"),
    ],
)
def test_what_does_not_know_lots_refuses(refuses, what: str) -> None:
    with pytest.raises(fp.InvalidInput, match=f"{what}.* knows members with one lot of data and one task only"):
        refuses()


def test_samples_by_member_are_refused(outcome: fp.Outcome) -> None:
    with pytest.raises(fp.InvalidInput, match="a count of samples by member knows members with one lot"):
        outcome.deal.samples()


def test_those_left_with_nothing_to_share_do_not_federate() -> None:
    """Data harms its only buyer, who leaves: the owner of the data is left without anybody to use it."""
    federation = fp.Federation(
        [[1.0, -0.05], [1.0, 0.2]],
        lot_owners=["A", "B"],
        task_owners=["A", "A"],
        costs=0.05,
        caps=[5.0, 3.0],
        payoff=fp.PowerLaw(0.5),
        names=["A", "B"],
    )
    for mechanism in ("externality", "shapley", "voluntary"):
        stable = fp.stable_federation(federation, mechanism)
        assert set(stable.members) | set(stable.leavers) == {"A", "B"}
        assert stable.members != ("B",)


@pytest.mark.parametrize(
    ("key", "forged"),
    [
        ("shared_caps", "zzz"),
        ("shared_cap_prices", [9.0, 9.0, 9.0]),
        ("task_payoffs", [9.0, 9.0, 9.0]),
        ("task_owners", ["County"] * 3),
        ("task_names", ["q"] * 3),
    ],
)
def test_what_a_file_states_of_lots_and_tasks_is_compared(key: str, forged: object) -> None:
    outcome = fp.ExternalityMechanism().solve(hospitals_with_privacy().federation)
    record = outcome_record(outcome)
    assert contradictions(record, outcome) == []
    assert contradictions(record | {key: forged}, outcome) != []

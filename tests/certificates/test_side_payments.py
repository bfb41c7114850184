"""Side payments judged by duality: the right ones pass, spoiled ones do not, and files of deals are held to them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Verdict
from fedpact.certificates.side_payments import check_side_payments
from fedpact.deals.deal_file import deal_record, outcome_record
from fedpact.deals.ledger import AGREED, Ledger
from fedpact.mechanisms.payment_check import check_payments
from fedpact.negotiation.deal_check import check_deal
from fedpact.scenario.examples import hospitals
from fedpact.utils.jsonl import jsonable
from random_cases import cases, some
from strategies import random_federations

ROUNDING = 1e-10  # of what is at stake
BOTH = [fp.FairMechanism(), fp.FairMechanism(keep="members")]
MOVED = 0.01  # units of payoff


def judge(rules: fp.FairMechanism, outcome: fp.Outcome):
    found = check_side_payments(outcome, outcome.side_payments, groups=rules.keep == "groups")
    assert found is not None
    return found


def spoil(outcome: fp.Outcome, giver: int, taker: int) -> fp.Outcome:
    moved = np.zeros(len(outcome.agents))
    moved[taker], moved[giver] = MOVED, -MOVED
    return replace(outcome, payments=outcome.payments + moved, side_payments=outcome.side_payments + moved)


@pytest.mark.parametrize("rules", BOTH, ids=repr)
def test_duality_proves_what_was_solved(rules: fp.FairMechanism) -> None:
    for federation in random_federations(77, cases(27, few=10), harm=False):
        outcome = rules.solve(federation)
        stake = max(float(np.abs(outcome.payoffs).sum() + outcome.costs.sum()), 1e-300)
        found = judge(rules, outcome)
        assert abs(found.sum) <= ROUNDING * stake
        assert found.share_bound - found.lowest_share <= ROUNDING
        assert found.shortfall <= ROUNDING * stake
        assert found.distance <= ROUNDING * stake


@pytest.mark.parametrize("rules", BOTH, ids=repr)
@pytest.mark.parametrize("giver", range(5))
@pytest.mark.parametrize("taker", some(range(5), 2))
def test_any_other_side_payments_are_found_out(rules: fp.FairMechanism, giver: int, taker: int) -> None:
    """A sum moved from one member to another: somebody leaves, a larger lowest share is possible, or a closer one."""
    if giver == taker:
        return
    outcome = rules.solve(hospitals().federation)
    found = judge(rules, spoil(outcome, giver, taker))
    missed = max(found.shortfall, found.share_bound - found.lowest_share, found.distance)
    assert missed > MOVED / 10
    checked = check_payments(rules, spoil(outcome, giver, taker))
    assert checked.error == pytest.approx(MOVED, rel=1e-6)
    assert checked.exceeds


@pytest.mark.parametrize("rules", BOTH, ids=repr)
def test_the_money_is_certified(rules: fp.FairMechanism) -> None:
    checked = check_payments(rules, rules.solve(hospitals().federation))
    assert checked.is_certified
    assert checked.error < checked.tol


def test_keeping_members_does_not_keep_groups() -> None:
    outcome = BOTH[1].solve(hospitals().federation)
    assert outcome.certificates["core"].verdict is Verdict.VIOLATED
    assert BOTH[0].solve(hospitals().federation).certificates["core"].holds


def test_without_shares_nothing_is_said() -> None:
    weights = [[1.0, 1.0, -1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    federation = fp.Federation(weights, costs=0.001, caps=[0.5, 50.0, 5.0], payoff=fp.PowerLaw(0.5))
    outcome = fp.ExternalityMechanism().outcome_at(federation, [0.0, 4.5, 5.0])
    assert check_side_payments(outcome, np.zeros(3), groups=False) is None


@pytest.mark.parametrize("rules", BOTH, ids=repr)
def test_deal_files_are_held_to_the_side_payments(rules: fp.FairMechanism, tmp_path: Path) -> None:
    scenario = hospitals()
    outcome = rules.solve(scenario.federation)
    path = tmp_path / "deal.json"
    path.write_text(json.dumps(outcome_record(outcome)), encoding="utf-8")
    assert not check_deal(path, scenario.federation, money=scenario.money).failures
    np.testing.assert_allclose(fp.load_deal(path).side_payments, outcome.side_payments, rtol=1e-15)
    outcome.deal.save(path)
    assert not check_deal(path, scenario.federation, money=scenario.money).failures
    wrong = jsonable(outcome_record(outcome))
    wrong["side_payments"][0] += MOVED
    wrong["side_payments"][1] -= MOVED
    path.write_text(json.dumps(wrong), encoding="utf-8")
    failures = check_deal(path, scenario.federation, money=scenario.money).failures
    assert {"prices", "stated"} <= failures.keys()
    wrong["payments"][0] += MOVED
    wrong["payments"][1] -= MOVED
    path.write_text(json.dumps(wrong), encoding="utf-8")
    assert "payments" in check_deal(path, scenario.federation, money=scenario.money).failures


@pytest.mark.parametrize("rules", BOTH, ids=repr)
def test_settlements_carry_them(rules: fp.FairMechanism) -> None:
    scenario = hospitals()
    outcome = rules.solve(scenario.federation)
    settlement = fp.settle(outcome, money=scenario.money)
    plain = fp.settle(fp.ExternalityMechanism().solve(scenario.federation), money=scenario.money)
    assert sum(settlement.cents) == 0
    moved = np.subtract(settlement.cents, plain.cents) / 100.0
    np.testing.assert_allclose(moved, outcome.side_payments * scenario.money.per_payoff, atol=0.02)


def test_ledgers_carry_them(tmp_path: Path) -> None:
    scenario = hospitals()
    outcome = fp.FairMechanism().solve(scenario.federation)
    path = tmp_path / "run.ledger"
    with Ledger(path) as ledger:
        ledger.append("begun", {"agents": list(outcome.agents)})
        ledger.append(AGREED, {"deal": deal_record(outcome.deal)})
    np.testing.assert_allclose(fp.load_deal(path).side_payments, outcome.side_payments, rtol=1e-15)
    assert not check_deal(path, scenario.federation, money=scenario.money).failures

"""Settled by delivery: balanced whatever arrived, nobody's report moves its own money, and what it asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedpact as fp

FLOOR, CEILING = 0.1, 0.95
WEIGHTS = 0.01 * np.array([[2.0, 0.9, 0.7, 0.4], [0.8, 2.0, 1.0, 0.5], [0.6, 1.0, 2.0, 0.6], [0.5, 0.6, 0.7, 2.0]])
LABS = fp.Federation(WEIGHTS, costs=4e-4, caps=300.0, payoff=fp.PowerLaw(0.7), names=["N", "S", "E", "W"])
SUBSETS = np.random.default_rng(5).random((60, 4)) < 0.5


def measured(federation: fp.Federation, delivered: Any, *, noise: int | None = None) -> NDArray[np.float64]:
    reached = (SUBSETS * np.asarray(delivered)) @ federation.weights.T
    exact = FLOOR + (CEILING - FLOOR) * federation.payoff.value(reached)
    return np.asarray(exact if noise is None else np.random.default_rng(noise).binomial(300, exact) / 300)


def judge(deal: Any, accuracies: Any) -> fp.Delivery:
    return fp.estimate_delivery(LABS, deal.contributions, SUBSETS, accuracies, 300, FLOOR, CEILING)


def paid(settled: fp.Settlement) -> NDArray[np.float64]:
    """In units of payoff."""
    return np.array(settled.amounts, dtype=float) / settled.per_payoff


@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.FairMechanism(keep="members")])
def test_what_arrived_is_what_is_paid_for(mechanism: Any) -> None:
    deal = mechanism.solve(LABS).deal
    shares = np.array([0.5, 1.0, 0.0, 1.0])
    settled = judge(deal, measured(LABS, deal.contributions * shares)).settle(deal, decimals=9)
    owed = np.array(fp.ExternalityMechanism().solve(LABS).deal.prices) * deal.contributions
    np.fill_diagonal(owed, 0.0)
    side = np.zeros(4) if deal.side_payments is None else deal.side_payments
    due = (owed * shares).sum(axis=0) - (owed * shares).sum(axis=1) + side
    np.testing.assert_allclose(paid(settled), due, atol=2e-3 * np.abs(owed).sum())
    assert sum(settled.cents) == 0


def test_payments_balance_whatever_is_measured() -> None:
    deal = fp.ExternalityMechanism().solve(LABS).deal
    rng = np.random.default_rng(3)
    wild = measured(LABS, deal.contributions * rng.uniform(0.0, 2.0, 4), noise=3) + rng.uniform(-0.05, 0.05, (60, 4))
    settled = judge(deal, np.clip(wild, 0.0, 1.0)).settle(deal, money=fp.Money("EUR", 1e6))
    assert sum(settled.cents) == 0 and any(settled.cents)


@pytest.mark.slow
def test_nobodys_report_moves_what_it_pays_or_is_paid_per_sample() -> None:
    deal = fp.ExternalityMechanism().solve(LABS).deal
    honest = measured(LABS, deal.contributions, noise=1)
    before = judge(deal, honest)
    for liar in (0, 3):
        false = honest.copy()
        false[:, liar] = np.clip(false[:, liar] + np.random.default_rng(liar).uniform(-0.2, 0.2, len(false)), 0.0, 1.0)
        after = judge(deal, false)
        old, new = before.leave_out_shares(), after.leave_out_shares()
        np.testing.assert_array_equal(new[liar], old[liar])
        np.testing.assert_array_equal(new[:, liar], old[:, liar])
        was, now = before.settle(deal, decimals=9), after.settle(deal, decimals=9)
        assert paid(now)[liar] == pytest.approx(paid(was)[liar], abs=2e-9)
        assert now.cents != was.cents


def test_a_negotiated_deal_is_settled_by_its_own_prices() -> None:
    deal = fp.negotiate(LABS)
    settled = judge(deal, measured(LABS, deal.contributions)).settle(deal, decimals=9)
    np.testing.assert_allclose(paid(settled), deal.payments, atol=1e-3)
    assert settled.record()["currency"] == "units of payoff"


def test_two_members_cannot_settle_by_delivery() -> None:
    two = fp.Federation(WEIGHTS[:2, :2], costs=4e-4, caps=300.0, payoff=fp.PowerLaw(0.7), names=["N", "S"])
    deal = fp.ExternalityMechanism().solve(two).deal
    subsets = SUBSETS[:, :2]
    accuracies = FLOOR + (CEILING - FLOOR) * two.payoff.value((subsets * deal.contributions) @ WEIGHTS[:2, :2].T)
    with pytest.raises(fp.InvalidInput, match="needs a third member: besides N, who pays, and S, who is paid"):
        fp.estimate_delivery(two, deal.contributions, subsets, accuracies, 300, FLOOR, CEILING).settle(deal)


def test_a_deal_without_prices_is_refused() -> None:
    deal = fp.ShapleyMechanism().solve(LABS).deal
    with pytest.raises(fp.InvalidInput, match="deal must have prices to be settled by delivery, and that of 'shapley'"):
        judge(deal, measured(LABS, deal.contributions)).settle(deal)


def test_a_deal_between_others_is_refused() -> None:
    deal = fp.ExternalityMechanism().solve(LABS.replace(names=["A", "B", "C", "D"])).deal
    with pytest.raises(fp.InvalidInput, match=r"in their order \(N, S, E, W\), got A, B, C, D"):
        judge(deal, measured(LABS, deal.contributions)).settle(deal)

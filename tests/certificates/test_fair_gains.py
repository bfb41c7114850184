"""The certificate of fair gains: it holds where deals are fair, and spoiled payments fail with who has too little."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.scenario import example

# A sparse federation: by fair gains A and B would leave together.
SPARSE = fp.Federation(
    [[1.0, 1.5, 0.0, 0.0], [1.2, 1.0, 0.0, 0.1], [0.1, 0.0, 1.0, 0.0], [0.0, 0.8, 0.0, 1.0]],
    costs=0.01,
    caps=40.0,
    payoff=fp.PowerLaw(0.4),
    names=["A", "B", "C", "D"],
)


def spoiled(rules: fp.Mechanism, federation: fp.Federation, change: list[float]) -> fp.Outcome:
    fair = rules.solve(federation)
    return rules.outcome_at(federation, fair.contributions, fair.payments + np.array(change))


@pytest.mark.parametrize("keep", ["groups", "members"])
@pytest.mark.parametrize("federation", [example("hospitals").federation, SPARSE], ids=["hospitals", "sparse"])
def test_a_fair_deal_holds_and_a_spoiled_one_does_not(federation: fp.Federation, keep: str) -> None:
    rules = fp.FairMechanism(keep=keep)
    fair = rules.solve(federation)
    certificate = fair.certificates["fair-gains"]
    assert certificate.holds and certificate.scope == "all groups, by multipliers of those that would leave"
    moved = 0.05 * float(np.abs(fair.ir_gaps).max())
    change = np.zeros(federation.n_agents)
    change[[0, 1]] = -moved, moved
    found = spoiled(rules, federation, change.tolist()).certificates["fair-gains"]
    assert found.verdict == "violated" and -found.margin >= 0.5 * moved
    gains = fair.ir_gaps + change
    lowest = int(np.argmin(gains / fair.fair_gains))
    assert found.witness["agent"] == federation.names[lowest]
    assert found.witness["member_gain"] == pytest.approx(gains[lowest], abs=1e-9)
    assert found.witness["fair_gain"] == pytest.approx(fair.fair_gains[lowest], abs=1e-9)


def test_groups_that_bind_are_named() -> None:
    fair = fp.FairMechanism().solve(SPARSE)
    kept = fair.certificates["fair-gains"].witness["groups_that_bind"]
    assert kept and np.abs(fair.ir_gaps - fair.fair_gains).max() > 1e-3
    for group in kept:
        inside = np.isin(SPARSE.names, group)
        there = fp.social_optimum(SPARSE.take(inside)).welfare
        assert fair.utilities[inside].sum() == pytest.approx(there, abs=1e-9)
    free = fp.FairMechanism(keep="members").solve(SPARSE)
    np.testing.assert_allclose(free.ir_gaps, free.fair_gains, atol=1e-9)
    assert free.certificates["fair-gains"].witness["groups_that_bind"] == []
    assert free.certificates["core"].verdict == "violated"


def test_other_mechanisms_are_judged_and_promise_nothing() -> None:
    federation = example("hospitals").federation
    for rules in (fp.ExternalityMechanism(), fp.FairMechanism(by="reciprocity")):
        assert fp.Claim.FAIR_GAINS not in rules.promises(federation)
        assert rules.solve(federation).certificates["fair-gains"].verdict == "violated"
    alike = fp.Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    assert fp.ExternalityMechanism().solve(alike).certificates["fair-gains"].holds


def test_a_budget_that_is_overdrawn_is_lacking() -> None:
    federation = example("hospitals").federation
    fair = fp.FairMechanism().solve(federation)
    payer = int(np.argmin(fair.payments))
    budgets = np.full(federation.n_agents, np.inf)
    budgets[payer] = -0.9 * fair.payments[payer]
    limited = federation.replace(budgets=budgets)
    found = fp.FairMechanism().outcome_at(limited, fair.contributions, fair.payments)
    assert found.over_budget == (federation.names[payer],)
    certificate = found.certificates["fair-gains"]
    assert certificate.verdict == "violated"
    assert certificate.witness["lacking"] == pytest.approx(-0.1 * fair.payments[payer], rel=1e-6)
    kept = fp.FairMechanism().solve(limited)
    assert kept.payments[payer] == pytest.approx(-budgets[payer], rel=1e-9)
    assert kept.certificates["fair-gains"].holds

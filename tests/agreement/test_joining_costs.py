"""Joining costs: utilities, welfare and gains are net of them; alone nobody pays; groups and departures know them."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from old_hospitals import hospitals
from strategies import random_lots

FREE = hospitals().federation
FEES = np.array([0.03, 0.02, 0.01, 0.04, 0.0])  # about a fifth of what there is to gain
FED = FREE.replace(joining_costs=FEES)
FEDERATED = [fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.NashBargaining(), fp.VCGMechanism()]


@pytest.mark.parametrize("rules", FEDERATED, ids=repr)
def test_everything_is_net_of_them(rules: fp.Mechanism) -> None:
    free, outcome = rules.solve(FREE), rules.solve(FED)
    np.testing.assert_allclose(outcome.contributions, free.contributions, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(outcome.joining_costs, FEES)
    expected = outcome.payoffs - outcome.costs + outcome.payments - FEES
    np.testing.assert_allclose(outcome.utilities, expected, rtol=1e-12)
    assert outcome.welfare == pytest.approx(free.welfare - FEES.sum(), rel=1e-9)
    np.testing.assert_allclose(outcome.standalone, free.standalone, rtol=1e-12)
    np.testing.assert_allclose(outcome.ir_gaps, outcome.utilities - free.standalone, rtol=1e-9, atol=1e-6)
    for claim in rules.promises(FED):
        assert outcome.certificates[claim].holds, claim


def test_alone_nobody_pays_them() -> None:
    alone = fp.Standalone().solve(FED)
    np.testing.assert_array_equal(alone.joining_costs, 0.0)
    np.testing.assert_allclose(alone.utilities, fp.Standalone().solve(FREE).utilities, rtol=1e-12)
    one = fp.ExternalityMechanism().solve(FED.take([0]))
    assert one.joining_costs.tolist() == [0.0] and one.ir_gaps[0] == pytest.approx(0.0, abs=1e-6)


def test_nobody_promises_to_keep_members_then() -> None:
    kept = {fp.Claim.INDIVIDUAL_RATIONALITY, fp.Claim.CORE}
    rules = fp.ExternalityMechanism()
    assert kept <= set(rules.promises(FREE)) and not kept & set(rules.promises(FED))
    assert rules.solve(FED.replace(joining_costs=1e-3)).certificates["individual-rationality"].holds
    dear = rules.solve(FED.replace(joining_costs=1.0))
    assert dear.leavers == FED.names
    assert dear.certificates["individual-rationality"].verdict == "violated"
    core = dear.certificates["core"]
    assert core.verdict == "violated"
    gained = float(-dear.ir_gaps.min())
    assert -core.margin >= gained - 1e-6 * gained


def test_the_group_that_gains_most_knows_them() -> None:
    rng = np.random.default_rng(3)
    for federation in (FED, random_lots(rng, n_agents=4, harm=True).replace(joining_costs=[0.1, 0.0, 0.3, 0.05])):
        outcome, most = fp.ExternalityMechanism().solve(federation), -np.inf
        for group in range(1, 1 << federation.n_agents):
            inside = np.array([bool(group >> agent & 1) for agent in range(federation.n_agents)])
            lots, tasks = inside[federation.lot_owners].any(), inside[federation.task_owners].any()
            there = fp.social_optimum(federation.take(inside)).welfare if lots and tasks else 0.0
            fees = federation.joining_costs[inside].sum() if inside.sum() > 1 else 0.0
            most = max(most, float(there - fees - outcome.utilities[inside].sum()))
        found = fp.blocking_group(outcome)
        assert found.exact and found.gain == pytest.approx(max(most, 0.0), abs=1e-8 * abs(outcome.welfare))


def test_departures_know_them() -> None:
    """The one who pays too much leaves; the others, who pay little, stay."""
    fees = np.zeros(FED.n_agents)
    fees[3] = 1.0
    federation = FREE.replace(joining_costs=fees)
    found = fp.stable_federation(federation, "externality")
    assert found.outcome.agents == tuple(name for name in FED.names if name != FED.names[3])
    assert not fp.stable_federation(FREE, "externality").departures and found.outcome.leavers == ()
    nobody = fp.stable_federation(FREE.replace(joining_costs=1.0), "externality")
    assert nobody.outcome is None


def test_a_sweep_over_them() -> None:
    swept = fp.sweep(FREE, "joining_costs=0,0.02", metrics=["welfare", "ir_gaps"], mechanisms=["externality"])
    welfare, gaps = (swept.metrics["externality"][each] for each in ("welfare", "ir_gaps"))
    assert welfare[0] - welfare[1] == pytest.approx(0.02 * FREE.n_agents, rel=1e-9)
    np.testing.assert_allclose(gaps[0] - gaps[1], 0.02, rtol=1e-6)


@pytest.mark.parametrize(("field", "given"), [("joining_costs", -1.0), ("joining_costs", np.inf), ("budgets", -1.0)])
def test_amounts_are_at_least_zero(field: str, given: float) -> None:
    with pytest.raises(fp.InvalidInput, match=f"^{field} must be a.* at least zero|^{field} must be at least zero"):
        FREE.replace(**{field: given})


def test_shares_of_no_gain_are_not_numbers() -> None:
    """Where joining costs eat up what a member adds, it has no fair gain to have a share of."""
    outcome = fp.ExternalityMechanism().solve(FREE.replace(joining_costs=1.0))
    assert (outcome.fair_gains == 0).all() and np.isnan(outcome.gain_shares).all()
    assert np.isnan(outcome.lowest_gain_share)

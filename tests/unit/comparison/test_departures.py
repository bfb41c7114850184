"""Who stays when the dissatisfied leave, in either order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.members import StableFederation
from fedpact.scenario import example

ORDERS = ["all", "worst"]


def hospitals() -> fp.Federation:
    return example("hospitals").federation


def at_odds() -> fp.Federation:
    """Two agents whose data only harms the other: together neither contributes, so both leave."""
    names = ["North", "South"]
    return fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, caps=50.0, payoff=fp.Log(), names=names)


@pytest.mark.parametrize("leave", ORDERS)
def test_nobody_leaves_a_deal_that_suits_all(leave: str) -> None:
    federation = hospitals()
    stable = fp.stable_federation(federation, fp.ExternalityMechanism(), leave=leave)
    assert stable.members == federation.names
    assert stable.departures == ()
    assert stable.leavers == ()
    assert stable.endowment_to_keep_all == 0.0
    assert stable.welfare == stable.welfare_all_stay == stable.outcome.welfare


@pytest.mark.parametrize("leave", ORDERS)
def test_bookkeeping_of_departures(leave: str) -> None:
    federation = hospitals()
    stable = fp.stable_federation(federation, fp.ShapleyMechanism(), leave=leave)
    first = fp.ShapleyMechanism().solve(federation)
    assert sorted((*stable.members, *stable.leavers)) == sorted(federation.names)
    assert stable.outcome.agents == tuple(stable.members)
    assert stable.outcome.leavers == ()
    assert stable.welfare_all_stay == pytest.approx(first.welfare, rel=1e-12)
    assert stable.endowment_to_keep_all == pytest.approx(float(np.maximum(0.0, -first.ir_gaps).sum()), rel=1e-9)
    gone = [federation.names.index(name) for name in stable.leavers]
    expected = stable.outcome.welfare + first.standalone[gone].sum()
    assert stable.welfare == pytest.approx(expected, rel=1e-12)
    _check_rounds(federation, stable, leave)


def _check_rounds(federation: fp.Federation, stable: StableFederation, leave: str) -> None:
    """Every round is a deal among those left, and those leave it who would (the worst off of them)."""
    members = list(federation.names)
    for departure in stable.departures:
        assert list(departure.outcome.agents) == members
        unhappy = departure.outcome.leavers
        if leave == "all":
            assert tuple(departure.leavers) == tuple(unhappy)
        else:
            worst = departure.outcome.agents[int(np.argmin(departure.outcome.ir_gaps))]
            assert tuple(departure.leavers) == (worst,)
        np.testing.assert_allclose(departure.endowments, np.maximum(0.0, -departure.outcome.ir_gaps))
        members = [name for name in members if name not in departure.leavers]
    assert members == list(stable.members)


@pytest.mark.parametrize("leave", ORDERS)
def test_everybody_may_leave(leave: str) -> None:
    federation = at_odds()
    stable = fp.stable_federation(federation, fp.ExternalityMechanism(), leave=leave)
    alone = fp.Standalone().solve(federation).welfare
    assert stable.welfare == pytest.approx(alone, rel=1e-12)
    assert stable.welfare_all_stay == 0.0
    if leave == "all":
        assert stable.members == ()
        assert stable.outcome is None
        assert stable.leavers == ("North", "South")
    else:  # once one has left, the other has nobody to quarrel with
        assert stable.members == ("South",)
        assert stable.leavers == ("North",)


def test_a_lone_agent_stays() -> None:
    federation = fp.Federation([[1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(beta=0.5), names=["Only"])
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone()):
        assert fp.stable_federation(federation, mechanism).members == ("Only",)


class Taxed(fp.Standalone):
    """Everybody trains alone, and pays: a rich member what is rounding to it, a poor one more than that."""

    name, title, claims = "taxed", "Taxed", ()

    def __init__(self) -> None:
        self.deals = 0

    def solve(self, federation: fp.Federation) -> fp.Outcome:
        self.deals += 1
        assert self.deals < 10, "the same deal again and again"
        taxes = {"rich": -2e-3, "poor": -1e-3}
        return replace(fp.Standalone().solve(federation), payments=[taxes[name] for name in federation.names])


def test_the_worst_off_is_one_who_would_leave() -> None:
    federation = fp.Federation(
        np.eye(2),
        costs=[1e4, 1e-3],
        caps=400.0,
        payoff=fp.PowerLaw(beta=0.02),
        values=[1e7, 1.0],
        names=["rich", "poor"],
    )
    assert Taxed().solve(federation).leavers == ("poor",)
    assert fp.stable_federation(federation, Taxed(), leave="worst").members == ("rich",)


def test_unknown_order_is_refused() -> None:
    with pytest.raises(fp.InvalidInput, match=r"leave must be one of all, worst, groups, got 'best'"):
        fp.stable_federation(hospitals(), fp.ExternalityMechanism(), leave="best")

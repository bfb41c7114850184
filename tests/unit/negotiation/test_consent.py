"""Nobody is taken below what it has alone: who would be refuses, and the others go on without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import Agent, InProcess, agents_of, coordinate, recompute
from old_hospitals import hospitals

HOSPITALS = hospitals()
FEDERATION = HOSPITALS.federation
CLINIC = 4
HONEST = fp.ExternalityMechanism().solve(FEDERATION)


def liars_table(least_gain: float | None) -> list[Agent]:
    """The Clinic says that everybody's data harms it, more than it helps."""
    agents = agents_of(FEDERATION, least_gain=least_gain)
    harm = np.where(np.arange(5) == CLINIC, 1.0, -1.8) * agents[CLINIC].weights
    agents[CLINIC] = replace(agents[CLINIC], weights=harm, least_gain=None)
    return agents


def true_gains(deal: fp.Deal) -> np.ndarray:
    """What everybody has more than alone, in euros; who is out trains alone."""
    given = np.array(deal.contributions)
    utilities = FEDERATION.payoffs(given) - FEDERATION.costs.value(given) + deal.payments
    inside = np.isin(np.arange(5), deal.members)
    return np.where(inside, utilities - HONEST.standalone, 0.0) * HOSPITALS.money.per_payoff


def test_a_lie_about_harm_takes_nobody_below_standing_alone() -> None:
    before = true_gains(coordinate(InProcess(liars_table(None))))
    honest = HONEST.ir_gaps * HOSPITALS.money.per_payoff
    assert before[CLINIC] > honest[CLINIC] + 100_000  # without a refusal the lie pays
    assert (np.delete(before, CLINIC) < 0.0).all()  # and all the others are worse off than alone
    deal = coordinate(InProcess(liars_table(0.0)))
    after = true_gains(deal)
    assert "it refuses the deal" in deal.excluded["University"]
    assert after.min() > -1.0
    assert after[CLINIC] < honest[CLINIC]


def test_who_loses_by_the_shapley_mechanism_stays_out_unless_it_takes_any_deal(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    deal = fp.negotiate(FEDERATION, mechanism="shapley", transcript=path)
    assert "Clinic" in deal.excluded
    assert true_gains(deal).min() > -1.0
    np.testing.assert_array_equal(recompute(path).payments, deal.payments)
    assert not fp.negotiate(FEDERATION, mechanism="shapley", least_gain=None).excluded


def test_the_deal_of_honest_members_is_accepted() -> None:
    assert not fp.negotiate(FEDERATION).excluded
    least = float(HONEST.ir_gaps.min())
    out = set(fp.negotiate(FEDERATION, least_gain=1.01 * least).excluded)
    assert FEDERATION.names[int(HONEST.ir_gaps.argmin())] in out


def test_what_an_agent_accepts() -> None:
    for agent in agents_of(FEDERATION):
        place, given = agent.index, HONEST.contributions
        assert agent.standalone == pytest.approx(HONEST.standalone[place], rel=1e-9)
        paid, gap = float(HONEST.payments[place]), float(HONEST.ir_gaps[place])
        assert agent.accepts(given, paid - 0.999 * gap)
        assert not agent.accepts(given, paid - 1.001 * gap)
        assert not replace(agent, least_gain=1.001 * gap).accepts(given, paid)
        assert replace(agent, least_gain=None).accepts(given, paid - 1e6)
        harmed = replace(agent, weights=np.where(np.arange(5) == place, 1.0, -10.0)[None])
        assert not harmed.accepts(given, 1e6)  # beyond the domain of its payoff

"""The participation certificate against standalone optima found on a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from certificates import hand
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict

GRID_ERROR = 1e-9


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_margin_is_the_smallest_gain_or_the_surest_loss(instance: str, mechanism: fp.Mechanism) -> None:
    federation = INSTANCES[instance]
    outcome = mechanism.solve(federation)
    certificate = outcome.certificates[Claim.INDIVIDUAL_RATIONALITY]
    gaps, tols = outcome.utilities - hand.standalone(federation), outcome.tolerances
    named = certificate.witness["index"]
    np.testing.assert_allclose(certificate.margin, gaps[named], atol=GRID_ERROR)
    np.testing.assert_allclose(certificate.tol, tols[named])
    if certificate.holds:
        assert gaps[named] <= gaps.min() + GRID_ERROR
    else:
        assert gaps[named] / tols[named] <= (gaps / tols).min() + GRID_ERROR / tols.min()
    assert certificate.holds == bool((gaps >= -tols - GRID_ERROR).all())


@pytest.mark.parametrize("agent", [0, 1, 2])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_exploited_agent_is_named_with_its_endowment(mechanism: fp.Mechanism, agent: int) -> None:
    """Whoever is charged a hundredth more than taking part is worth to it would leave."""
    shortfall = 0.01
    federation = INSTANCES["paper-w1"]
    outcome = mechanism.solve(federation)
    gap = (outcome.utilities - hand.standalone(federation))[agent]
    charged = hand.moved(outcome.payments, agent, (agent + 1) % 3, gap + shortfall)
    spoiled = replace(outcome, payments=charged)
    certificate = spoiled.certificates[Claim.INDIVIDUAL_RATIONALITY]
    name = federation.names[agent]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == name
    np.testing.assert_allclose(certificate.margin, -shortfall, atol=GRID_ERROR)
    np.testing.assert_allclose(certificate.witness["ir_gap"], -shortfall, atol=GRID_ERROR)
    assert list(certificate.witness["endowments"]) == [name]
    np.testing.assert_allclose(certificate.witness["endowments"][name], shortfall, atol=GRID_ERROR)
    by_hand = hand.payoffs(spoiled.federation, spoiled.contributions) if outcome.federated else spoiled.payoffs
    utility = by_hand[agent] - 0.001 * spoiled.contributions[agent] + charged[agent]
    np.testing.assert_allclose(certificate.witness["utility"], utility, atol=1e-14)
    assert spoiled.leavers == (name,)


def test_shapley_loses_the_hospitals_it_overcharges() -> None:
    outcome = MECHANISMS["shapley"].solve(INSTANCES["hospitals"])
    certificate = outcome.certificates[Claim.INDIVIDUAL_RATIONALITY]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == "Clinic"
    assert set(certificate.witness["endowments"]) == {"Children's", "Clinic"}


def test_a_poor_agent_beside_a_rich_one_still_counts() -> None:
    """Agent 1 is robbed of twice its payoff; beside agent 0's millions that is no rounding."""
    federation = fp.Federation(
        np.eye(3), costs=[5e4, 1e-3, 1e-3], caps=400.0, payoff=fp.PowerLaw(beta=0.02), values=[5e7, 1.0, 1.0]
    )
    outcome = MECHANISMS["externality"].solve(federation)
    spoiled = replace(outcome, payments=np.array([0.1, -0.1, 0.0]))
    assert spoiled.utilities[1] < 0
    assert spoiled.certificates[Claim.INDIVIDUAL_RATIONALITY].verdict is Verdict.VIOLATED
    assert spoiled.leavers == ("agent 1",)

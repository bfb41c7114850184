"""Verdicts on deals of members with several lots: a right deal holds, and "violated" needs an action that gains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import Claim, Verdict

LOTS = 3
CLAIMS = (Claim.NASH, Claim.INDIVIDUAL_RATIONALITY, Claim.SOCIAL_OPTIMALITY)
CHARGED = 1e-3  # units of payoff beyond what taking part is worth
SAME_UTILITY = 1e-7  # of a utility: two ways to the same optimum


def members_with_lots(n_agents: int, seed: int, *, shared: bool = False) -> fp.Federation:
    """Members of little use to each other, so that they gain little, whose own lots can replace each other."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n_agents), LOTS)
    weights = np.zeros((n_agents, owners.size))
    for row in weights:
        row[rng.choice(owners.size, 30, replace=False)] = 0.02 * rng.uniform(0.0, 1.0, 30)
    weights[owners, np.arange(owners.size)] = rng.uniform(0.3, 1.0, owners.size)
    caps = [([LOTS * i, LOTS * i + 1], float(np.exp(rng.uniform(0.0, 6.0)))) for i in range(n_agents)] if shared else ()
    return fp.Federation(
        weights,
        costs=np.exp(rng.uniform(-8.0, -2.0, owners.size)),
        caps=np.exp(rng.uniform(0.0, 7.0, owners.size)),
        payoff=fp.PowerLaw(np.exp(rng.uniform(-5.0, 0.0, n_agents))),
        lot_owners=owners.tolist(),
        values=rng.uniform(0.5, 2.0, n_agents),
        shared_caps=caps,
    )


@pytest.mark.parametrize(
    ("n_agents", "seed", "shared"),
    [
        (100, 0, False),
        pytest.param(100, 0, True, marks=pytest.mark.slow),
        pytest.param(300, 2, False, marks=pytest.mark.slow),
        pytest.param(1000, 3, False, marks=pytest.mark.slow),
    ],
)
def test_a_right_deal_of_members_with_three_lots_holds(n_agents: int, seed: int, shared: bool) -> None:
    outcome = fp.ExternalityMechanism().solve(members_with_lots(n_agents, seed, shared=shared))
    assert {claim: outcome.certificates[claim].verdict for claim in CLAIMS} == dict.fromkeys(CLAIMS, Verdict.HOLDS)
    assert outcome.leavers == ()


@pytest.mark.parametrize("shared", [False, True])
def test_a_member_charged_more_than_taking_part_is_worth_is_found(shared: bool) -> None:
    federation = members_with_lots(20, 1, shared=shared)
    outcome = fp.ExternalityMechanism().solve(federation)
    member = int(np.argmin(outcome.ir_gaps))
    charge = float(outcome.ir_gaps[member]) + CHARGED
    payments = outcome.payments + charge * ((np.arange(20) == (member + 1) % 20) * 1.0 - (np.arange(20) == member))
    spoiled = replace(outcome, payments=payments).certificates[Claim.INDIVIDUAL_RATIONALITY]
    assert spoiled.verdict is Verdict.VIOLATED
    assert spoiled.witness["agent"] == federation.names[member]
    alone = fp.Standalone().solve(federation.take([member])).utilities[0]
    np.testing.assert_allclose(spoiled.witness["standalone"], alone, rtol=SAME_UTILITY)
    np.testing.assert_allclose(spoiled.margin, spoiled.witness["utility"] - alone, rtol=SAME_UTILITY / CHARGED)


def test_a_lot_brought_short_of_what_pays_is_found_with_what_would_be_better() -> None:
    federation = members_with_lots(20, 1)
    outcome = fp.ExternalityMechanism().solve(federation)
    lot = int(np.argmax(outcome.contributions))
    short = outcome.contributions.copy()
    short[lot] *= 0.5
    spoiled = fp.ExternalityMechanism().outcome_at(federation, short).certificates
    assert spoiled[Claim.SOCIAL_OPTIMALITY].verdict is Verdict.VIOLATED
    better = np.array(spoiled[Claim.SOCIAL_OPTIMALITY].witness["better_contributions"])
    assert federation.welfare(better) > federation.welfare(short)
    assert spoiled[Claim.NASH].verdict is Verdict.VIOLATED


def test_where_nothing_bounds_a_gain_and_nothing_shows_one_it_is_not_refuted() -> None:
    """The third's data takes the first out of the domain of its payoff where the second is not there to help.

    So there are no Shapley values to be paid, and nothing bounds what somebody would gain; no action shows a gain.
    """
    federation = fp.Federation(
        [[1.0, 2.0, -2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], costs=0.1, caps=1.0, payoff=fp.PowerLaw(0.5)
    )
    outcome = fp.ExternalityMechanism().solve(federation)
    there = replace(
        outcome,
        contributions=np.array([0.1, 1.0, 1.0]),
        payments=np.zeros(3),
        rules=fp.ShapleyMechanism(),
    )
    certificate = there.certificates[Claim.NASH]
    assert certificate.verdict is Verdict.NOT_REFUTED
    assert certificate.scope == "no Shapley values: a coalition leaves the domain"

"""The kept counterexamples are what they are said to be: equilibria that lack just the one assumption."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.deviations import free_riding
from fedpact.paper import theorems
from fedpact.paper.theorems import Instance
from theorems import claims


def shapley(instance: Instance) -> fp.Outcome:
    outcome = fp.ShapleyMechanism().outcome_at(instance.federation, instance.contributions)
    assert outcome.certificates["nash"].verdict == "holds"
    return outcome


def externality(instance: Instance) -> fp.Outcome:
    outcome = fp.ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
    assert outcome.certificates["social-optimality"].verdict == "holds"
    return outcome


def lacking(outcome: fp.Outcome) -> set[str]:
    return {assumption.name for assumption in outcome.assumptions if not assumption.holds}


HARM = {"non-negative weights"}


def test_with_harm_a_shapley_equilibrium_can_be_optimal() -> None:
    outcome = shapley(claims.OPTIMAL_RING)
    assert outcome.certificates["social-optimality"].verdict == "holds"
    assert lacking(outcome) == HARM


def test_with_harm_everybody_can_contribute_too_little() -> None:
    outcome = shapley(claims.TIMID_RING)
    optimum = fp.social_optimum(outcome.federation).contributions
    assert (outcome.contributions < 0.6 * optimum).all()
    assert lacking(outcome) == HARM


def test_where_all_is_given_both_mechanisms_agree() -> None:
    outcome = shapley(claims.ALL_CAPPED)
    assert outcome.certificates["social-optimality"].verdict == "holds"
    assert lacking(outcome) >= {"interior equilibrium"}


def test_equal_agents_may_all_lose_under_shapley() -> None:
    """Eight equal agents with equal costs, no harm: each contributes four times what it would alone, and loses."""
    outcome = shapley(claims.STRANGERS)
    assert lacking(outcome) == set()
    assert len(outcome.leavers) == 8
    np.testing.assert_allclose(outcome.ir_gaps, -0.23728, atol=1e-5)
    alone = fp.Standalone().solve(outcome.federation)
    assert outcome.welfare < 0.71 * alone.welfare
    assert (outcome.contributions > 4.0 * alone.contributions).all()


def test_an_agent_of_little_use_loses_under_shapley() -> None:
    outcome = shapley(claims.NARROW)
    assert lacking(outcome) == set()
    assert outcome.leavers == ("agent 0",)


def test_equation_12_at_caps_drives_everybody_out_and_multipliers_keep_them() -> None:
    outcome = externality(claims.SCARCE)
    assert lacking(outcome) == {"interior equilibrium", "interior standalone optimum"}
    assert outcome.leavers == ()
    assert theorems.interior_gap(claims.SCARCE) < -0.2


def test_who_harms_on_net_leaves() -> None:
    outcome = externality(claims.HARMFUL)
    assert lacking(outcome) == HARM
    assert outcome.leavers == ("agent 0",)


def test_who_harms_and_is_harmed_may_gain() -> None:
    outcome = externality(claims.HARMED)
    assert lacking(outcome) == HARM
    assert outcome.federation.reach(outcome.contributions)[0] < 1
    assert outcome.net_externality[0] < 0 < outcome.ir_gaps[0]
    assert outcome.payments[0] > outcome.costs[0], "it is paid for the harm it suffers"


def test_who_would_harm_but_contributes_nothing_gains() -> None:
    outcome = externality(claims.IDLE)
    assert lacking(outcome) == HARM | {"interior equilibrium"}
    assert outcome.contributions[0] == 0
    assert outcome.net_externality[0] < 0 < outcome.ir_gaps[0]


def test_lopsided_optima_of_equal_agents_are_not_reciprocal() -> None:
    """Table 1's first row: by its definition the reciprocity of M^E is at most 0.511, not 1.000."""
    outcome = externality(claims.LOPSIDED)
    assert lacking(outcome) == set()
    np.testing.assert_allclose(outcome.reciprocity, 0.510, atol=1e-3)
    solved = fp.ExternalityMechanism().solve(outcome.federation)
    np.testing.assert_allclose(solved.reciprocity, 1.0, rtol=1e-12)
    np.testing.assert_allclose(solved.worst_reciprocity.value, 0.48996, atol=1e-5)


def test_a_ring_of_unlike_neighbours_is_perfectly_reciprocal() -> None:
    outcome = externality(claims.RING)
    assert lacking(outcome) == set()
    np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, rtol=1e-12)
    solved = fp.ExternalityMechanism().solve(outcome.federation)
    assert solved.equilibria.unique
    np.testing.assert_allclose(solved.contributions, 10.0, rtol=1e-9)


def test_a_negative_share_lets_balanced_payments_exceed_all_shares() -> None:
    instance = claims.PENALTY
    outcome = fp.ExternalityMechanism().outcome_at(instance.federation, instance.contributions, instance.payments)
    assert outcome.certificates["budget-balance"].verdict == "holds"
    assert outcome.shapley_values[0] < 0 < outcome.shapley_values[1]
    assert outcome.reciprocity > 2


@pytest.mark.parametrize("profile", [claims.FREE_RIDERS.contributions, claims.FREE_RIDERS.other])
def test_without_payments_there_are_several_equilibria(profile: np.ndarray) -> None:
    federation = claims.FREE_RIDERS.federation
    best = free_riding(federation, profile)
    np.testing.assert_allclose(best.actions, profile, atol=1e-12)


def test_one_agent_can_do_all_the_work_at_an_optimum() -> None:
    externality(claims.ONE_DOES_ALL)

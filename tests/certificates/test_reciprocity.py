"""The reciprocity certificate against Shapley values by permutations, and the search over the face of optima."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fedpact as fp
from certificates import hand
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict
from fedpact.certificates.reciprocity import certify_reciprocity, reciprocity_ratios
from fedpact.certificates.shapley_check import check_shares

SMALL = [name for name, federation in INSTANCES.items() if federation.n_agents <= 4]
POINTS = ["paper-w2", "paper-w3", "capped", "single"]  # the optimum is unique


def gaps_by_hand(outcome: fp.Outcome) -> np.ndarray:
    federation = outcome.federation if outcome.federated else outcome.federation.without_sharing()
    profile = outcome.contributions
    if (np.minimum(federation.weights, 0.0) @ profile <= -1.0).any():  # some coalition leaves the domain
        return np.full(federation.n_agents, np.nan)
    return hand.payoffs(federation, profile) + outcome.payments - hand.shapley(federation, profile)


@pytest.mark.parametrize("instance", POINTS)
@pytest.mark.parametrize("mechanism", ["externality", "shapley", "standalone"])
def test_margin_is_the_smallest_gap(instance: str, mechanism: str) -> None:
    outcome = MECHANISMS[mechanism].solve(INSTANCES[instance])
    certificate = outcome.certificates[Claim.RECIPROCITY]
    gaps = gaps_by_hand(outcome)
    worst = certificate.witness["index"]
    np.testing.assert_allclose(certificate.margin, gaps.min(), atol=1e-12)
    np.testing.assert_allclose(gaps[worst], gaps.min(), atol=1e-12)
    np.testing.assert_allclose(
        certificate.witness["benefit"] - certificate.witness["shapley_value"], certificate.margin, atol=1e-15
    )
    assert certificate.witness["agent"] == outcome.agents[worst]
    assert certificate.holds == bool(gaps.min() >= -certificate.tol)


@pytest.mark.parametrize("agent", [0, 1, 2])
@pytest.mark.parametrize("instance", ["paper-w1", "paper-w2", "hospitals"])
def test_shapley_short_of_a_share_names_the_agent(instance: str, agent: int) -> None:
    amount = 0.004
    outcome = MECHANISMS["shapley"].solve(INSTANCES[instance])
    spoiled = replace(outcome, payments=hand.moved(outcome.payments, agent, (agent + 1) % 3, amount))
    certificate = spoiled.certificates[Claim.RECIPROCITY]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == outcome.agents[agent]
    np.testing.assert_allclose(certificate.margin, -amount, rtol=1e-9)
    np.testing.assert_allclose(
        certificate.witness["shapley_value"], hand.shapley(spoiled.federation, spoiled.contributions)[agent], atol=1e-13
    )
    np.testing.assert_allclose(
        certificate.witness["benefit"],
        (hand.payoffs(spoiled.federation, spoiled.contributions) + spoiled.payments)[agent],
        atol=1e-13,
    )


def test_equal_agents_are_reciprocal_at_the_canonical_point_and_not_at_a_vertex() -> None:
    """W1: one agent contributing all 54.37 samples gets back half of what the Shapley value credits it with."""
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w1"])
    worst = outcome.worst_reciprocity
    np.testing.assert_allclose(outcome.reciprocity, 1.0, atol=1e-12)
    np.testing.assert_allclose(np.sort(worst.contributions), [0.0, 0.0, 54.3714], atol=1e-4)
    np.testing.assert_allclose(worst.value, 0.48996, atol=5e-6)
    np.testing.assert_allclose(worst.contributions.sum(), outcome.contributions.sum(), rtol=1e-12)
    np.testing.assert_allclose(worst.payments.sum(), 0.0, atol=1e-15)
    # By hand: reach 55.37, everybody's payoff 1 - 55.37^-0.02; two agents pay a' 54.37 each; all three payoffs are the
    # contributor's Shapley value, since without it there is nothing.
    reach = 1.0 + worst.contributions.sum()
    payoff, price = 1.0 - reach**-0.02, 0.02 * reach**-1.02
    np.testing.assert_allclose(worst.value, (payoff + 2.0 * price * (reach - 1.0)) / (3.0 * payoff), rtol=1e-9)
    np.testing.assert_allclose(worst.gap, 2.0 * price * (reach - 1.0) - 2.0 * payoff, rtol=1e-9)
    assert worst.agent == int(np.argmax(worst.contributions))
    assert outcome.certificates[Claim.RECIPROCITY].verdict is Verdict.VIOLATED
    np.testing.assert_allclose(outcome.certificates[Claim.RECIPROCITY].margin, worst.gap, rtol=1e-12)


def test_no_random_point_of_the_face_is_worse_than_the_worst_found() -> None:
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w1"])
    rng = np.random.default_rng(3)
    for split in rng.dirichlet(np.full(3, 0.4), size=60):
        profile = outcome.contributions.sum() * split
        payments = outcome.rules.payments(outcome.arrays, profile)
        benefits = hand.payoffs(outcome.federation, profile) + payments
        assert (benefits / hand.shapley(outcome.federation, profile)).min() >= outcome.worst_reciprocity.value - 1e-9


@pytest.mark.parametrize("instance", ["paper-w1", "figure 5", "tied"])
def test_margin_over_a_face_follows_from_the_witness(instance: str) -> None:
    """The witness names an optimum and an agent; payments there follow from the prices."""
    federation = INSTANCES[instance]
    certificate = MECHANISMS["externality"].solve(federation).certificates[Claim.RECIPROCITY]
    witness = certificate.witness
    profile = np.array(witness["worst_gap_contributions"])
    payments = -hand.prices(federation, profile) @ profile
    gaps = hand.payoffs(federation, profile) + payments - hand.shapley(federation, profile)
    optimum = fp.social_optimum(federation).welfare
    np.testing.assert_allclose(hand.welfare(federation, profile), optimum, rtol=1e-8)
    np.testing.assert_allclose(gaps[federation.names.index(witness["worst_gap_agent"])], gaps.min(), atol=1e-9)
    np.testing.assert_allclose(certificate.margin, gaps.min(), atol=1e-9)
    np.testing.assert_allclose(witness["worst_gap"], gaps.min(), atol=1e-9)
    assert certificate.verdict is Verdict.VIOLATED


def test_margin_over_a_face_is_the_worst_gap_at_its_vertices() -> None:
    """Figure 5's optima: one of agents 1 to 3 may contribute for all three, and is then paid far below its share."""
    outcome = MECHANISMS["externality"].solve(INSTANCES["figure 5"])
    contributions = np.array(outcome.contributions)
    contributions[1:] = [contributions[1:].sum(), 0.0, 0.0]
    payments = outcome.rules.payments(outcome.arrays, contributions)
    vertex = replace(outcome, contributions=contributions, payments=payments, is_solved=False)
    assert vertex.certificates[Claim.SOCIAL_OPTIMALITY].verdict is Verdict.HOLDS
    np.testing.assert_allclose(gaps_by_hand(vertex).min(), -0.66, atol=1e-3)
    assert outcome.certificates[Claim.RECIPROCITY].margin <= gaps_by_hand(vertex).min() + 1e-9


def test_a_profile_off_the_face_is_judged_by_itself() -> None:
    """Ten samples from each of three equals: no optimum, and everybody gets exactly its share."""
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w1"])
    spoiled = outcome.with_profile(np.full(3, 10.0), np.zeros(3))
    np.testing.assert_allclose(gaps_by_hand(spoiled), 0.0, atol=1e-15)
    assert spoiled.certificates[Claim.RECIPROCITY].holds


def test_a_search_that_finds_nothing_does_not_prove() -> None:
    """Several equilibria searched, no violation: not refuted. One equilibrium: holds."""
    verdicts = {}
    for searched in (1, 2):
        worst = SimpleNamespace(
            value=1.0,
            agent=0,
            contributions=np.ones(2),
            gap_contributions=np.ones(2),
            gap_payments=np.zeros(2),
            searched=searched,
        )
        federation = fp.Federation(np.eye(2), costs=1.0, payoff=fp.Log())
        outcome = SimpleNamespace(
            federation=federation,
            played=federation.arrays,
            contributions=np.ones(2),
            payoffs=federation.payoffs(np.ones(2)),
            payments=np.zeros(2),
            tolerances=np.full(2, 1e-9),
            worst_reciprocity=worst,
        )
        verdicts[searched] = certify_reciprocity(outcome, check_shares(federation.arrays, np.ones(2))).verdict
    assert verdicts == {1: Verdict.HOLDS, 2: Verdict.NOT_REFUTED}


def test_without_shapley_values_there_is_nothing_to_refute() -> None:
    """Agent 0 is harmed by 1 and helped by 2: together they are admissible, 1 alone is not."""
    federation = fp.Federation(
        [[1.0, -2.0, 4.0], [0.0, 1.0, 0.0], [0.0, 4.0, 1.0]], costs=0.02, caps=5.0, payoff=fp.PowerLaw(beta=0.5)
    )
    outcome = MECHANISMS["externality"].solve(federation)
    assert (np.minimum(federation.weights, 0.0) @ outcome.contributions <= -1.0).any()
    certificate = outcome.certificates[Claim.RECIPROCITY]
    assert certificate.verdict is Verdict.UNDEFINED
    assert np.isnan(certificate.margin)
    assert np.isnan(outcome.shapley_values).all()
    assert "leaves the domain" in certificate.scope


@pytest.mark.parametrize(
    ("benefit", "share", "ratio"),
    [(0.5, 0.25, 2.0), (0.3, 0.0, np.inf), (-0.3, 0.0, -np.inf), (0.0, 0.0, 1.0), (0.2, -0.1, -2.0), (0.0, 0.4, 0.0)],
)
def test_ratios_at_the_edges(benefit: float, share: float, ratio: float) -> None:
    ratios = reciprocity_ratios(np.array([1.0, benefit]), np.array([1.0, share]))
    np.testing.assert_allclose(ratios, [1.0, ratio])


def test_rounding_is_no_share() -> None:
    """A share of 1e-17 beside shares of order one is zero, not the divisor of a huge ratio."""
    np.testing.assert_array_equal(reciprocity_ratios(np.array([1.0, 1e-17]), np.array([1.0, 1e-18])), [1.0, 1.0])


@pytest.mark.parametrize("instance", SMALL)
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_ratios_and_gaps_of_every_outcome(instance: str, mechanism: fp.Mechanism) -> None:
    outcome = mechanism.solve(INSTANCES[instance])
    np.testing.assert_allclose(outcome.reciprocity_gaps, gaps_by_hand(outcome), atol=1e-12)
    shares = outcome.shapley_values
    if np.isnan(shares).any():
        assert np.isnan(outcome.reciprocity)
        return
    clear = np.abs(shares) > 1e-9
    benefits = outcome.payoffs + outcome.payments
    np.testing.assert_allclose(outcome.reciprocity_ratios[clear], benefits[clear] / shares[clear])
    assert outcome.worst_reciprocity.value <= outcome.reciprocity

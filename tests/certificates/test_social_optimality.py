"""The welfare certificate: a better profile where there is one, a bound that no profile passes where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from certificates import hand
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict
from fedpact.certificates.certificates import welfare_bound
from random_cases import cases
from strategies import random_federations, random_profile

ROUNDING = 1e-9  # of the payoffs at stake


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("instance", ["paper-w1", "paper-w2", "paper-w3", "figure 5", "capped", "hospitals", "tied"])
def test_spoiled_optimum_fails_with_a_better_profile(instance: str, factor: float) -> None:
    federation = INSTANCES[instance]
    outcome = MECHANISMS["externality"].solve(federation)
    contributions = np.minimum(outcome.contributions * factor, federation.caps)
    payments = outcome.rules.payments(federation.arrays, contributions)
    certificate = replace(outcome, contributions=contributions, payments=payments).certificates[Claim.SOCIAL_OPTIMALITY]
    witness = certificate.witness
    better = np.array(witness["better_contributions"])
    assert certificate.verdict is Verdict.VIOLATED
    assert (better >= 0).all()
    assert (better <= federation.caps).all()
    np.testing.assert_allclose(witness["welfare"], hand.welfare(federation, contributions), atol=1e-12)
    np.testing.assert_allclose(witness["better_welfare"], hand.welfare(federation, better), atol=1e-12)
    assert witness["upper_bound"] >= witness["better_welfare"] - 1e-12
    np.testing.assert_allclose(certificate.margin, witness["welfare"] - witness["upper_bound"], atol=1e-15)
    np.testing.assert_allclose(
        certificate.margin, hand.welfare(federation, contributions) - hand.welfare(federation, better), atol=1e-9
    )


@pytest.mark.parametrize("name", ["shapley", "voluntary", "standalone"])
def test_other_mechanisms_fall_short_by_the_witness(name: str) -> None:
    federation = INSTANCES["paper-w2"]
    outcome = MECHANISMS[name].solve(federation)
    certificate = outcome.certificates[Claim.SOCIAL_OPTIMALITY]
    better = np.array(certificate.witness["better_contributions"])
    assert certificate.verdict is Verdict.VIOLATED
    np.testing.assert_allclose(certificate.margin, outcome.welfare - hand.welfare(federation, better), atol=1e-9)


def test_payments_do_not_matter_to_welfare() -> None:
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w2"])
    spoiled = replace(outcome, payments=np.array([5.0, -1.0, 7.0]))
    assert spoiled.certificates[Claim.SOCIAL_OPTIMALITY].margin == outcome.certificates[Claim.SOCIAL_OPTIMALITY].margin


def test_other_points_of_the_face_are_optimal_too() -> None:
    """W1: any split of the 54.37 samples is an optimum."""
    outcome = MECHANISMS["externality"].solve(INSTANCES["paper-w1"])
    total = outcome.contributions.sum()
    for split in ([1.0, 0.0, 0.0], [0.2, 0.3, 0.5]):
        contributions = total * np.array(split)
        payments = outcome.rules.payments(outcome.arrays, contributions)
        certificates = replace(outcome, contributions=contributions, payments=payments).certificates
        for claim in (Claim.NASH, Claim.BUDGET_BALANCE, Claim.SOCIAL_OPTIMALITY, Claim.INDIVIDUAL_RATIONALITY):
            assert certificates[claim].verdict is Verdict.HOLDS, (split, certificates[claim])


def test_standing_alone_may_beat_every_federated_profile() -> None:
    """Where data only harms, the bound on federated welfare lies below what agents have alone: nothing is violated."""
    federation = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, caps=50.0, payoff=fp.Log())
    certificate = MECHANISMS["standalone"].solve(federation).certificates[Claim.SOCIAL_OPTIMALITY]
    assert certificate.verdict is Verdict.HOLDS
    assert certificate.margin > 1.0


def admissible_profiles(rng: np.random.Generator, federation: fp.Federation, count: int) -> np.ndarray:
    """Profiles of very different size within the caps, all of them in the domain."""
    drawn = np.array([random_profile(rng, federation) for _ in range(count)]) * rng.uniform(0.0, 1.0, (count, 1)) ** 3
    return np.array([profile for profile in drawn if federation.admits(profile)])


def test_dual_bound_is_never_passed() -> None:
    """At the optimum and anywhere else, over all families, with harm, zero and infinite caps: thousands of profiles."""
    rng = np.random.default_rng(5)
    checked = 0
    for federation in random_federations(seed=23, count=40):
        profiles = admissible_profiles(rng, federation, 80)
        welfare = max(federation.welfare(profile) for profile in profiles)
        optimum = fp.social_optimum(federation)
        stake = ROUNDING * (np.abs(federation.payoffs(optimum.contributions)).sum() + 1e-300)
        bounds = [welfare_bound(federation.arrays, profile) for profile in (optimum.contributions, *profiles[:5])]
        assert min(bounds) >= welfare - stake
        assert min(bounds) >= optimum.welfare - stake
        np.testing.assert_allclose(bounds[0], optimum.welfare, atol=stake, err_msg="tight at the optimum")
        checked += len(profiles)
    assert checked > cases(2500)


def test_saturated_payoffs_have_a_bound() -> None:
    """Where e^-y underflows marginal payoffs are exactly zero; the bound stays finite and true."""
    federation = fp.Federation(np.ones((3, 3)), costs=1e-3, caps=1e6, payoff=fp.Exponential(rate=1.0))
    optimum = fp.social_optimum(federation)
    bound = welfare_bound(federation.arrays, np.full(3, 1e5))
    assert optimum.welfare <= bound < np.inf

"""The core certificate: right outcomes pass, spoiled ones fail with a group that shows it, and no bound is too low."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates import core
from fedpact.certificates.core import GroupProfiles, group_gains, member_bounds
from fedpact.deals import outcome as outcomes
from fedpact.solvers.groups import GroupOptima, group_optima
from old_hospitals import hospitals
from strategies import FAMILIES, random_federation, random_federations, random_profile

ROUNDING = 1e-12  # of the largest value of a group


def size_of(federation: fp.Federation) -> float:
    return float(np.abs(group_optima(federation).values).max())


def many(n_agents: int, *, harm: float = 0.0, seed: int = 0) -> fp.Federation:
    """More agents than groups are listed for."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.0, 1.0, (n_agents, n_agents))
    weights = np.where(rng.random(weights.shape) < harm, -0.01 * weights, weights)
    np.fill_diagonal(weights, 1.0)
    return fp.Federation(weights, costs=0.02, caps=20.0, payoff=fp.PowerLaw(0.3))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("quadratic", [False, True])
def test_the_externality_mechanism_is_proved_to_be_in_the_core(family, quadratic):
    for federation in random_federations(41, 12, family=family, quadratic=quadratic, harm=False):
        certificate = fp.ExternalityMechanism().solve(federation).certificates["core"]
        assert certificate.holds
        assert certificate.scope == "all groups, by prices"


def test_the_verdict_is_that_of_all_groups():
    """With harm too, and under every mechanism: the margin is minus the largest gain of all groups."""
    for federation in random_federations(42, 40, harm=True, n_agents=5):
        optima = group_optima(federation)
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Standalone()):
            outcome = mechanism.solve(federation)
            certificate, gains = outcome.certificates["core"], optima.gains(outcome.utilities)[1:]
            assert (certificate.verdict == "violated") == (gains.max() > certificate.tol)
            assert certificate.witness["gain_upper_bound"] >= gains.max() - ROUNDING * size_of(federation)
            if certificate.verdict == "violated":
                np.testing.assert_allclose(-certificate.margin, gains.max(), rtol=0, atol=1e-9 * size_of(federation))


def test_the_witness_lets_a_reader_work_out_the_margin():
    outcome = fp.ShapleyMechanism().solve(hospitals().federation)
    certificate = outcome.certificates["core"]
    witness = certificate.witness
    gain = sum(witness["group_utilities"].values()) - sum(witness["utilities"].values())
    np.testing.assert_allclose(-certificate.margin, gain, rtol=1e-9)
    members = outcome.federation.take([outcome.agents.index(name) for name in witness["group"]])
    profile = np.array(list(witness["group_contributions"].values()))
    own = members.payoffs(profile) - members.costs.value(profile)
    np.testing.assert_allclose(own, list(witness["group_utilities"].values()))


def test_money_taken_from_two_members_makes_them_leave():
    right = fp.ExternalityMechanism().solve(hospitals().federation)
    worth = 0.05 * right.welfare
    spoiled = replace(right, payments=right.payments + worth * np.array([-1.0, -1.0, 2.0, 0.0, 0.0]))
    certificate = spoiled.certificates["core"]
    assert certificate.verdict == "violated"
    assert set(right.agents[:2]) <= set(certificate.witness["group"])
    assert right.agents[2] not in certificate.witness["group"]


@pytest.mark.slow
@pytest.mark.parametrize("n_agents", [12, 30])
def test_larger_federations_are_refuted_by_a_likely_group(n_agents):
    federation = many(n_agents)
    assert fp.ExternalityMechanism().solve(federation).certificates["core"].holds
    outcome = fp.ShapleyMechanism().solve(federation)
    refuted, everybody = outcome.certificates["core"], fp.social_optimum(federation).welfare - outcome.welfare
    assert refuted.verdict == "violated"
    assert everybody - ROUNDING <= refuted.witness["gain"] <= refuted.witness["gain_upper_bound"] < np.inf


@pytest.mark.slow
def test_where_harm_leaves_it_open_the_bracket_is_told():
    certificate = fp.ExternalityMechanism().solve(many(20, harm=0.1)).certificates["core"]
    assert certificate.verdict == "not refuted"
    assert certificate.witness["gain"] <= certificate.witness["gain_upper_bound"] < np.inf


def test_no_bound_is_below_a_gain_whatever_the_profile():
    rng = np.random.default_rng(43)
    for _ in range(8):
        federation = random_federation(rng, n_agents=5)
        utilities, optima = rng.normal(size=5), group_optima(federation)
        gains, profile = optima.gains(utilities), random_profile(rng, federation)
        leeway = ROUNDING * (1.0 + size_of(federation))
        assert (optima.members @ member_bounds(federation, utilities, profile) >= gains - leeway).all()
        anything = np.where(optima.members, rng.random(optima.members.shape) * np.minimum(federation.caps, 9.0), 0.0)
        found, most = group_gains(federation, utilities, GroupProfiles(members=optima.members, contributions=anything))
        assert (found <= gains + leeway).all()
        assert (most >= gains - leeway).all()


def test_profiles_that_are_wrong_prove_nothing(monkeypatch):
    """A solver that stops early, or leaves out groups, must not make the claim hold."""
    federation = next(each for each in random_federations(45, 120, harm=True, n_agents=4) if is_open(each))
    right = group_optima(federation)
    lazy = GroupOptima(members=right.members, values=right.values, contributions=0.5 * right.contributions)
    fewer = GroupOptima(members=right.members[:-2], values=right.values[:-2], contributions=right.contributions[:-2])
    monkeypatch.setattr(core, "MAX_AGENTS_LISTED", 0)
    for wrong, verdict in ((lazy, "holds"), (fewer, "not refuted")):  # what the first lacks, an ascent adds
        monkeypatch.setattr(outcomes, "group_optima", lambda _, wrong=wrong: wrong)
        certificate = fp.ExternalityMechanism().solve(federation).certificates["core"]
        assert certificate.verdict == verdict


def is_open(federation: fp.Federation) -> bool:
    """Whether prices do not decide, and no group gains."""
    certificate = fp.ExternalityMechanism().solve(federation).certificates["core"]
    return certificate.holds and certificate.scope != "all groups, by prices"


def test_an_agent_alone_is_in_the_core_of_its_own():
    federation = fp.Federation([[1.0]], costs=0.01, caps=50.0, payoff=fp.Log())
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Standalone()):
        assert mechanism.solve(federation).certificates["core"].holds


def test_it_is_promised_where_nobody_harms_only():
    mechanism, harmless = fp.ExternalityMechanism(), many(4)
    harmful = harmless.replace(weights=np.where(np.eye(4) > 0, 1.0, -0.01))
    assert {"core", "individual-rationality"} <= set(mechanism.promises(harmless))
    assert not {"core", "individual-rationality"} & set(mechanism.promises(harmful))

    class Other(fp.ExternalityMechanism):
        name = "other"
        claims = (fp.Claim.NASH,)

    assert Other().promises(harmless) == (fp.Claim.NASH,)


def test_the_size_up_to_which_all_groups_are_listed_changes_no_verdict(monkeypatch):
    for federation in random_federations(46, 20, n_agents=5):
        before = [mechanism.solve(federation).certificates["core"].verdict for mechanism in (fp.ShapleyMechanism(),)]
        monkeypatch.setattr(core, "MAX_AGENTS_LISTED", 2)
        after = [mechanism.solve(federation).certificates["core"].verdict for mechanism in (fp.ShapleyMechanism(),)]
        monkeypatch.undo()
        assert before == after

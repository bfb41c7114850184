"""Which group would leave a deal, with names and numbers; and federations that groups leave."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.groups import group_optima
from old_hospitals import hospitals
from strategies import random_federations


def test_certificate_and_search_name_the_same_group():
    for federation in random_federations(32, 40, n_agents=5):
        outcome = fp.ShapleyMechanism().solve(federation)
        found, certificate = fp.blocking_group(outcome), outcome.certificates["core"]
        assert found.blocks == (certificate.verdict == "violated")
        if found.blocks:
            np.testing.assert_allclose(certificate.witness["gain"], found.gain, rtol=1e-6, atol=1e-12)


def test_a_proper_group_leaves_somebody_behind():
    federation = hospitals().federation
    outcome = fp.ShapleyMechanism().solve(federation)
    gains = group_optima(federation).gains(outcome.utilities)
    found = fp.blocking_group(outcome, proper=True)
    assert len(found.group) < federation.n_agents
    np.testing.assert_allclose(found.gain, gains[1:-1].max())
    with pytest.raises(fp.InvalidInput, match="at least two members"):
        fp.blocking_group(fp.Voluntary().solve(federation.take([0])), proper=True)


def test_groups_leave_until_none_gains_and_everybody_is_counted():
    for federation in random_federations(33, 40, n_agents=5):
        stable = fp.stable_federation(federation, "shapley", leave="groups")
        for departure in stable.departures:
            assert departure.gain > 0
            assert 0 < len(departure.leavers) < len(departure.outcome.agents) or len(departure.outcome.agents) == 1
            np.testing.assert_allclose(departure.endowments.sum(), departure.gain)
        assert sorted((*stable.members, *stable.leavers)) == sorted(federation.names)
        if stable.outcome is not None and len(stable.members) > 1:
            assert not fp.blocking_group(stable.outcome, proper=True).blocks
        groups = [np.isin(federation.names, departure.leavers) for departure in stable.departures]
        parts = sum(fp.social_optimum(federation.take(group)).welfare for group in groups)
        inside = stable.outcome.welfare if stable.outcome is not None else 0.0
        np.testing.assert_allclose(stable.welfare, inside + parts, rtol=1e-9, atol=1e-12)


def test_two_who_give_leave_together_though_neither_would_alone():
    """A and B share useful data, C and D only take it. Kept halfway between alone and together, A and B leave."""
    weights = np.array([[1.0, 0.9, 0.0, 0.0], [0.9, 1.0, 0.0, 0.0], [0.9, 0.9, 1.0, 0.0], [0.9, 0.9, 0.0, 1.0]])
    federation = fp.Federation(weights, costs=0.01, caps=40.0, payoff=fp.PowerLaw(0.5), names=["A", "B", "C", "D"])
    optimum, values = fp.ExternalityMechanism().solve(federation), group_optima(federation).values
    halfway = (values[0b01] + values[0b11] / 2.0) / 2.0
    rest = (optimum.welfare - 2.0 * halfway) / 2.0
    wanted = np.array([halfway, halfway, rest, rest])
    outcome = optimum.with_profile(optimum.contributions, wanted - (optimum.payoffs - optimum.costs))
    assert outcome.leavers == ()
    found = fp.blocking_group(outcome)
    assert found.group == ("A", "B") and found.blocks
    np.testing.assert_allclose(found.gain, values[0b11] - 2.0 * halfway)


@pytest.mark.slow
def test_many_members_get_a_bracket():
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((20, 20)) < 0.3, rng.uniform(-0.1, 0.5, (20, 20)), 0.0)
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=0.3, caps=15.0, payoff=fp.Log())
    found = fp.blocking_group(fp.Voluntary().solve(federation))
    assert 0 < found.gain < found.upper_bound
    assert not found.exact


def test_a_given_group_is_asked_what_it_gains():
    federation = hospitals().federation
    outcome = fp.ShapleyMechanism().solve(federation)
    every = group_optima(federation)
    gains = every.gains(outcome.utilities)
    for row in range(1, len(gains)):
        names = [name for name, inside in zip(federation.names, every.members[row], strict=True) if inside]
        found = fp.blocking_group(outcome, group=names[::-1])
        assert found.group == tuple(names)
        assert found.gain == found.upper_bound
        assert found.exact
        np.testing.assert_allclose(found.gain, gains[row], rtol=1e-9, atol=1e-12)
        now, then = sum(found.utilities.values()), sum(found.group_utilities.values())
        np.testing.assert_allclose(found.gain, then - now, rtol=1e-9, atol=1e-12)
    alone = fp.blocking_group(outcome, group=["Clinic"])
    np.testing.assert_allclose(alone.gain, -outcome.ir_gaps[outcome.agents.index("Clinic")], atol=1e-12)


@pytest.mark.parametrize("group", [[], ["City", "City"], ["City", "Nowhere"], "Nowhere", [99], ["City", 1.5]])
def test_a_group_has_members_of_the_federation_each_once(group):
    outcome = fp.ShapleyMechanism().solve(hospitals().federation)
    with pytest.raises(fp.InvalidInput, match="must"):
        fp.blocking_group(outcome, group=group)


def test_what_is_no_deal_is_refused_in_words():
    with pytest.raises(fp.InvalidInput, match=r"outcome must be a deal.*got Federation"):
        fp.blocking_group(hospitals().federation)


def test_endowments_keep_every_leaver_from_leaving_alone_and_the_group_together():
    for federation in random_federations(34, 40, n_agents=4):
        for departure in fp.stable_federation(federation, "shapley", leave="groups").departures:
            outcome = departure.outcome
            going = np.isin(outcome.agents, departure.leavers)
            assert (departure.endowments[~going] == 0).all()
            assert (departure.endowments >= np.where(going, outcome.endowments, 0.0)).all()
            least = max(departure.gain, outcome.endowments[going].sum())
            np.testing.assert_allclose(departure.endowments.sum(), least)


def test_where_a_group_cannot_be_solved_the_certificate_says_what_it_looked_at(monkeypatch):
    def fail(self):
        raise fp.NotConverged("a group has no optimum that can be worked out", result=None)

    monkeypatch.setattr(fp.Outcome, "group_profiles", property(fail))
    federation = fp.Federation([[1.0, -0.9], [-0.35, 1.0]], costs=0.001, caps=4.0, payoff=fp.Exponential(rate=0.5))
    certificate = fp.ExternalityMechanism().solve(federation).certificates["core"]
    assert certificate.verdict == "violated"
    assert certificate.witness["group"] in (["agent 0"], ["agent 1"])

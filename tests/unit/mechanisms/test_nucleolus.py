"""Nucleolus: the division furthest from losing a group, as an equilibrium."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.programs.groups import group_optima

import fedpact as fp
from fedpact.comparison.federation_kinds import draw_federations
from strategies import random_federations


def test_no_deal_leaves_the_least_content_group_more() -> None:
    for federation in random_federations(106, 12, harm=False):
        if federation.n_agents == 1:
            continue
        groups = group_optima(federation)

        def least(outcome: fp.Outcome, groups=groups) -> float:
            return float(-groups.gains(outcome.utilities)[1:-1].max())

        ours = fp.Nucleolus().solve(federation)
        for other in (fp.ExternalityMechanism(), fp.FairMechanism(), fp.NashBargaining()):
            assert least(ours) >= least(other.solve(federation)) - 1e-8 * np.abs(groups.values).max()


def many_members(n_agents: int) -> fp.Federation:
    return draw_federations("dense", 0, 1, n_agents=n_agents, seed=21)[0]


@pytest.mark.slow
def test_more_members_than_groups_are_listed_for() -> None:
    federation = many_members(17)
    outcome = fp.Nucleolus().solve(federation)
    assert "nucleolus of the groups found" in outcome.equilibria.note
    assert all(outcome.certificates[claim].holds for claim in ("nash", "budget-balance", "social-optimality"))
    worst = fp.blocking_group(outcome, proper=True, max_relaxations=0)
    assert worst.gain <= 1e-9 * outcome.welfare  # every group found is content
    order = np.random.default_rng(1).permutation(17)
    renamed = fp.Nucleolus().solve(federation.take(order))
    np.testing.assert_allclose(renamed.utilities, outcome.utilities[order], atol=1e-8 * outcome.welfare)


def test_a_search_without_time_says_so() -> None:
    outcome = fp.Nucleolus(time_limit=0.0).solve(many_members(17))
    assert "the search ended after 0 seconds" in outcome.equilibria.note
    with pytest.raises(fp.InvalidInput, match="time_limit must be a number of seconds"):
        fp.Nucleolus(time_limit=-1.0)


def test_more_members_than_groups_can_be_searched() -> None:
    many = fp.Federation(np.eye(65), costs=0.01, caps=5.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="federation must have at most 64 members for the mechanism nucleolus"):
        fp.Nucleolus().solve(many)

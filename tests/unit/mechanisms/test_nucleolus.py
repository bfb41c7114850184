"""Nucleolus: the division furthest from losing a group, as an equilibrium."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.groups import group_optima
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


def test_more_members_than_groups_can_be_searched() -> None:
    many = fp.Federation(np.eye(17), costs=0.01, caps=5.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="federation must have at most 16 members for the mechanism nucleolus"):
        fp.Nucleolus().solve(many)

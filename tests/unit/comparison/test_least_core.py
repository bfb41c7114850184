"""The least core: its level against all groups."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.groups import group_optima
from strategies import random_federations


def test_every_group_has_the_level_and_no_division_has_more() -> None:
    for federation in random_federations(107, 12):
        if federation.n_agents == 1:
            continue
        found, groups = fp.least_core(federation), group_optima(federation)
        size = np.abs(groups.values).max()
        np.testing.assert_allclose(found.level, -groups.gains(found.utilities)[1:-1].max(), atol=1e-9 * size)
        other = fp.ExternalityMechanism().solve(federation)
        assert -groups.gains(other.utilities)[1:-1].max() <= found.level + 1e-9 * size


def test_two_members_share_what_they_gain_evenly() -> None:
    federation = fp.Federation([[1.0, 0.5], [0.7, 1.0]], costs=[0.01, 0.02], caps=50.0, payoff=fp.PowerLaw(0.5))
    groups = group_optima(federation).values
    gained = groups[3] - groups[1] - groups[2]
    np.testing.assert_allclose(fp.least_core(federation).level, gained / 2.0, rtol=1e-9)


def test_of_one_member_or_too_many_it_is_refused() -> None:
    with pytest.raises(fp.InvalidInput, match="federation must have two to 16 members, got 17"):
        fp.least_core(fp.Federation(np.eye(17), costs=0.1, caps=9.0, payoff=fp.Log()))
    with pytest.raises(fp.InvalidInput, match="two to 16 members, got 1: "):
        fp.least_core(fp.Federation([[1.0]], costs=0.1, caps=9.0, payoff=fp.Log()))

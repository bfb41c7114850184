"""The least core: its level against all groups, and its bracket where these are too many."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.programs.groups import group_optima

import fedpact as fp
from fedpact.comparison.federation_kinds import draw_federations
from strategies import random_federations


def test_every_group_has_the_level_and_no_division_has_more() -> None:
    for federation in random_federations(107, 12):
        if federation.n_agents == 1:
            continue
        found, groups = fp.least_core(federation), group_optima(federation)
        size = np.abs(groups.values).max()
        assert found.exact and found.level == found.lower_bound == found.upper_bound
        np.testing.assert_allclose(found.level, -groups.gains(found.utilities)[1:-1].max(), atol=1e-9 * size)
        other = fp.ExternalityMechanism().solve(federation)
        assert -groups.gains(other.utilities)[1:-1].max() <= found.level + 1e-9 * size


def test_two_members_share_what_they_gain_evenly() -> None:
    federation = fp.Federation([[1.0, 0.5], [0.7, 1.0]], costs=[0.01, 0.02], caps=50.0, payoff=fp.PowerLaw(0.5))
    groups = group_optima(federation).values
    gained = groups[3] - groups[1] - groups[2]
    np.testing.assert_allclose(fp.least_core(federation).level, gained / 2.0, rtol=1e-9)


@pytest.mark.slow
def test_a_bracket_where_groups_are_too_many_to_list() -> None:
    federation = draw_federations("dense", 0, 1, n_agents=17, seed=21)[0]
    found = fp.least_core(federation, time_limit=2.0)
    assert found.lower_bound <= found.upper_bound
    np.testing.assert_allclose(found.utilities.sum(), fp.ExternalityMechanism().solve(federation).welfare, rtol=1e-9)


def test_nobody_can_leave_a_federation_of_one() -> None:
    with pytest.raises(fp.InvalidInput, match="at least two members"):
        fp.least_core(fp.Federation([[1.0]], costs=0.1, caps=9.0, payoff=fp.Log()))

"""Groups of many federations together: the same as of each alone, and one that is not solved leaves the others."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.comparison import solve_batch
from fedpact.comparison.federation_kinds import FEDERATION_KINDS, draw_federations
from fedpact.programs import group_batch
from fedpact.programs.group_batch import groups_together, lists_together, some_groups_together
from fedpact.programs.groups import GroupSolver, group_optima
from fedpact.utils.errors import NotConverged

SAME = 1e-10  # of the largest value: rounding of two solvers


@pytest.mark.parametrize("kind", FEDERATION_KINDS)
def test_the_groups_of_each_federation(kind: str) -> None:
    batch = draw_federations(kind, 0, 3, n_agents=4, seed=1)
    for federation, found in zip(batch, groups_together(batch), strict=True):
        alone = group_optima(federation)
        np.testing.assert_array_equal(found.members, alone.members)
        np.testing.assert_allclose(found.values, alone.values, atol=SAME * alone.values.max())
        assert not found.contributions[~found.members].any()


def test_groups_of_one_size_alone_are_those_of_all() -> None:
    batch = draw_federations("dense", 0, 3, n_agents=4, seed=1)
    without = ~np.eye(4, dtype=bool)
    rows = (without * 2 ** np.arange(4)).sum(axis=1)
    everything = np.array([each.values for each in groups_together(batch)])
    np.testing.assert_allclose(some_groups_together(batch, without)[1], everything[:, rows], rtol=SAME)


def test_a_group_that_is_not_solved_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: GroupSolver, agents: np.ndarray) -> np.ndarray:
        raise NotConverged("on purpose", result=None)

    def climb(self: GroupSolver, agents: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        profiles, gains = found(self, agents, start)
        return profiles, np.where(agents[:, 0] // 3 == 1, np.inf, gains)  # nothing of the second federation is solved

    found = GroupSolver._climb  # the step that compiled code takes
    monkeypatch.setattr(GroupSolver, "solve_alone", fail)
    monkeypatch.setattr(GroupSolver, "_climb", climb)
    batch = draw_federations("dense", 0, 3, n_agents=3, seed=2)
    first, second, third = groups_together(batch)
    assert np.isnan(second.values[1:]).all()
    assert np.isfinite(first.values).all()
    assert np.isfinite(third.values).all()


def test_nobody_is_left_without_the_only_member() -> None:
    batch = draw_federations("dense", 0, 2, n_agents=1, seed=0)
    found = solve_batch(batch, "vcg")
    np.testing.assert_allclose(found.utilities, found.standalone, rtol=1e-12)


@pytest.mark.parametrize("mechanism", ["fair", "nucleolus", "vcg"])
def test_mechanisms_that_ask_for_groups_pay_the_same_in_a_batch(mechanism: str) -> None:
    batch = draw_federations("sparse", 0, 4, n_agents=4, seed=3)
    together = solve_batch(batch, mechanism)
    alone = np.array([together.mechanism.solve(federation).payments for federation in batch])
    np.testing.assert_allclose(together.payments, alone, atol=1e-8)


def test_many_large_federations_are_not_listed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = draw_federations("dense", 0, 5, n_agents=3, seed=0)
    whole = solve_batch(batch, "voluntary").certificates["core"].margins
    assert lists_together(batch)
    monkeypatch.setattr(group_batch, "MAX_GROUPS_TOGETHER", 16)
    assert not lists_together(batch)
    again = draw_federations("dense", 0, 5, n_agents=3, seed=0)
    np.testing.assert_allclose(solve_batch(again, "voluntary").certificates["core"].margins, whole, rtol=1e-9)

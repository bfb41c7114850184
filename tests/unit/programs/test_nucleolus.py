"""The nucleolus, against published divisions and against moves away from it."""

from __future__ import annotations

import numpy as np
import pytest

from fedpact.programs.groups import GroupOptima, all_groups, group_optima
from fedpact.programs.nucleolus import nucleolus
from strategies import random_federations


def bankruptcy(estate: float, claims: list[float]) -> GroupOptima:
    """What a group is left with once all others have been paid."""
    members = all_groups(len(claims))
    values = np.maximum(0.0, estate - ~members @ np.array(claims))
    return GroupOptima(members=members, values=values, contributions=np.zeros(members.shape))


@pytest.mark.parametrize(
    ("estate", "division"),
    [(100.0, [100 / 3, 100 / 3, 100 / 3]), (200.0, [50.0, 75.0, 75.0]), (300.0, [50.0, 100.0, 150.0])],
)
def test_the_divisions_of_the_talmud(estate: float, division: list[float]) -> None:
    # Aumann and Maschler, "Game theoretic analysis of a bankruptcy problem from the Talmud", 1985.
    np.testing.assert_allclose(nucleolus(bankruptcy(estate, [100.0, 200.0, 300.0])), division, rtol=1e-9)


def test_every_move_hurts_a_group_that_has_less() -> None:
    rng = np.random.default_rng(5)
    for federation in random_federations(105, 12):
        groups = group_optima(federation)
        division = nucleolus(groups)
        np.testing.assert_allclose(division.sum(), groups.values[-1], rtol=1e-9, atol=1e-12)
        here = np.sort(-groups.gains(division)[1:-1])
        for size in (1e-3, 1e-2, 0.1):
            move = rng.normal(size=division.size)
            moved = division + size * np.abs(division).max() * (move - move.mean())
            there = np.sort(-groups.gains(moved)[1:-1])
            apart = np.flatnonzero(np.abs(there - here) > 1e-9 * np.abs(groups.values).max())
            assert apart.size == 0 or there[apart[0]] < here[apart[0]]


def test_one_agent_has_everything() -> None:
    members = all_groups(1)
    alone = GroupOptima(members=members, values=np.array([0.0, 0.7]), contributions=np.zeros(members.shape))
    np.testing.assert_allclose(nucleolus(alone), [0.7])

"""The nucleolus, against published divisions and against moves away from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from fedpact.comparison.federation_kinds import FEDERATION_KINDS, draw_federations
from fedpact.federation.identities import interchangeable_agents
from fedpact.programs.groups import GroupOptima, all_groups, group_optima
from fedpact.programs.nucleolus import nucleolus, nucleolus_among_many
from random_cases import cases, some
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
    found = nucleolus(bankruptcy(estate, [100.0, 200.0, 300.0]))
    np.testing.assert_allclose(found.utilities, division, rtol=1e-9)


def test_every_move_hurts_a_group_that_has_less() -> None:
    rng = np.random.default_rng(5)
    for federation in random_federations(105, 12):
        groups = group_optima(federation)
        division = nucleolus(groups).utilities
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
    np.testing.assert_allclose(nucleolus(alone).utilities, [0.7])


def all_levels_at_once(groups: GroupOptima) -> np.ndarray:
    """The nucleolus with every group in every linear program (Kopelowitz 1967), by other settings of the solver."""
    members, values = groups.members[1:-1].astype(float), groups.values[1:-1] / np.abs(groups.values).max()
    settled, totals = np.ones((1, members.shape[1])), groups.values[-1:] / np.abs(groups.values).max()
    while np.linalg.matrix_rank(settled) < members.shape[1]:
        found = linprog(
            np.append(np.zeros(members.shape[1]), -1.0),
            A_ub=np.hstack([-members, np.ones((len(values), 1))]),
            b_ub=-values,
            A_eq=np.hstack([settled, np.zeros((len(settled), 1))]),
            b_eq=totals,
            bounds=(None, None),
            method="highs-ipm",
        )
        binding = found.ineqlin.marginals < -1e-7
        settled = np.vstack([settled, members[binding]])
        totals = np.append(totals, values[binding] + found.x[-1])
        free = [np.linalg.matrix_rank(np.vstack([settled, row])) > np.linalg.matrix_rank(settled) for row in members]
        members, values = members[free], values[free]
    return np.abs(groups.values).max() * np.linalg.lstsq(settled, totals, rcond=None)[0]


@pytest.mark.parametrize("kind", some(FEDERATION_KINDS))
def test_a_few_groups_at_a_time_or_all_at_once(kind: str) -> None:
    for place in range(cases(8, few=1)):
        federation = draw_federations(kind, place, place + 1, n_agents=6, seed=11)[0]
        groups = group_optima(federation)
        expected = all_levels_at_once(groups)
        for alike in (None, interchangeable_agents(federation)):
            found = nucleolus(groups, alike)
            np.testing.assert_allclose(found.utilities, expected, atol=1e-6 * np.abs(groups.values).max())
            level = float(-groups.gains(found.utilities)[1:-1].max())
            np.testing.assert_allclose(found.level, level, atol=1e-9 * np.abs(groups.values).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", some(FEDERATION_KINDS))
def test_a_search_finds_the_groups_that_settle_it(kind: str) -> None:
    for place in range(cases(4, few=1)):
        federation = draw_federations(kind, place, place + 1, n_agents=9, seed=12)[0]
        groups = group_optima(federation)
        listed, searched = nucleolus(groups), nucleolus_among_many(federation)
        size = np.abs(groups.values).max()
        np.testing.assert_allclose(searched.utilities, listed.utilities, atol=1e-8 * size)
        np.testing.assert_allclose(searched.level, listed.level, atol=1e-8 * size)


def test_a_game_of_members_who_are_all_alike() -> None:
    members = all_groups(4)
    values = members.sum(axis=1) ** 2.0 - 2.0 * (members.sum(axis=1) == 2)
    groups = GroupOptima(members=members, values=values, contributions=np.zeros(members.shape))
    found = nucleolus(groups, np.zeros(4, dtype=np.intp))
    np.testing.assert_allclose(found.utilities, 4.0)
    np.testing.assert_allclose(found.level, 3.0)  # of three members: 12 - 9, less than of one, 4 - 1, or two, 8 - 2

"""Groups among many members: what is known of them is right, stays known, and leads to the worst of all."""

from __future__ import annotations

import time

import numpy as np
import pytest

import fedpact as fp
from fedpact.programs.groups import group_optima
from fedpact.programs.known_groups import KnownGroups
from fedpact.utils.progress import listen_to_progress
from random_cases import cases
from strategies import random_federations

N_AGENTS = 9  # few enough to list all groups, and compare


@pytest.fixture(scope="module")
def federations() -> list[fp.Federation]:
    return list(random_federations(31, cases(12), n_agents=N_AGENTS))


def some_utilities(federation: fp.Federation, seed: int) -> np.ndarray:
    """About what groups reach, shared out unevenly, so that one of them gains."""
    rng = np.random.default_rng(seed)
    return fp.ExternalityMechanism().solve(federation).utilities * rng.uniform(0.7, 1.1, federation.n_agents)


def test_everybody_is_known_from_the_start_and_nothing_is_solved_twice(federations, monkeypatch):
    known = KnownGroups(federations[0])
    assert known.members.all() and known.values.size == 1
    pair = np.arange(N_AGENTS)[None] < 2
    (place,) = known.look_at(np.concatenate([pair, pair]))[:1]
    assert known.values.size == 2, "the same group twice is one"
    monkeypatch.setattr("fedpact.programs.known_groups.group_optima", lambda *given, **options: pytest.fail("solved"))
    assert known.look_at(pair).tolist() == [place]


def test_values_are_those_of_the_groups(federations):
    for federation in federations:
        known = KnownGroups(federation)
        known.look_at_likely()
        assert known.values.size == 1 + 2 * N_AGENTS + N_AGENTS * (N_AGENTS - 1)  # all, one, all but one, pairs, rest
        alone = group_optima(federation, known.members)
        np.testing.assert_allclose(known.values, alone.values, rtol=1e-9, atol=1e-12)
        utilities = np.arange(1.0, N_AGENTS + 1)
        np.testing.assert_allclose(known.gains(utilities), alone.gains(utilities), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_the_search_reaches_the_worst_of_all_groups(federations):
    for seed, federation in enumerate(federations):
        utilities = some_utilities(federation, seed)
        worst = group_optima(federation).gains(utilities)[1:].max()
        known = KnownGroups(federation)
        known.look_at_likely()
        for search in (known.walk, known.grow_and_shrink, known.climb_from_best):
            search(utilities)
        assert known.gains(utilities).max() <= worst + 1e-9 * known.values[0]
        np.testing.assert_allclose(known.gains(utilities).max(), worst, rtol=1e-9, atol=1e-9 * known.values[0])


def test_estimates_of_neighbours_are_lower_bounds(federations):
    for seed, federation in enumerate(federations):
        utilities, known = some_utilities(federation, seed), KnownGroups(federation)
        places = known.look_at(np.random.default_rng(seed).random((4, N_AGENTS)) < 0.5)
        promised = known._estimates(places, utilities)
        for row, place in enumerate(places):
            flipped = known.members[place] ^ np.eye(N_AGENTS, dtype=np.bool_)
            some = flipped.any(axis=1)
            gains = group_optima(federation, flipped[some]).gains(utilities)
            assert (promised[row, some] <= gains + 1e-9 * known.values[0]).all()


def test_nothing_is_looked_for_once_the_time_is_over(federations):
    known = KnownGroups(federations[0], deadline=time.monotonic())
    assert known.is_late and known.time_left <= 0
    for search in (known.walk, known.grow_and_shrink):
        search(np.zeros(N_AGENTS))
    assert known.values.size == 1


def test_it_says_how_many_were_looked_at(federations):
    told: list[str] = []
    with listen_to_progress(told.append):
        KnownGroups(federations[0]).look_at_likely()
    assert told[0] == "1 groups looked at" and told[-1] == "91 groups looked at"

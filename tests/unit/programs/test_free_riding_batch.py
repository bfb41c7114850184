"""Free-riding equilibria of many federations at once, against each federation by itself."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.federation_kinds import FEDERATION_KINDS, draw_federations
from fedpact.federation import Batch
from fedpact.programs.free_riding import free_riding_equilibrium
from fedpact.programs.free_riding_batch import follows_together, free_riding_equilibria
from random_cases import cases


@pytest.mark.parametrize("kind", FEDERATION_KINDS)
def test_together_or_one_by_one(kind: str) -> None:
    batch = draw_federations(kind, 0, cases(13, few=4), n_agents=4, seed=31)
    assert follows_together(batch)
    found = free_riding_equilibria(batch)
    solved = np.flatnonzero(~np.isnan(found).any(axis=1))
    assert solved.size >= len(batch) // 2
    for place in solved.tolist():
        alone = free_riding_equilibrium(batch[place])
        np.testing.assert_allclose(found[place], alone, rtol=1e-8, atol=1e-8 * max(1.0, alone.max()))


def test_an_equilibrium_out_of_the_domain_is_left_to_be_solved_alone() -> None:
    rivals = fp.Federation([[1.0, -1.4], [-1.4, 1.0]], costs=0.05, caps=60.0, payoff=fp.Log())
    friends = rivals.replace(weights=np.array([[1.0, 0.4], [0.4, 1.0]]))
    found = free_riding_equilibria(Batch.of([rivals, friends]))
    assert np.isnan(found[0]).all() or rivals.admits(found[0])
    np.testing.assert_allclose(found[1], free_riding_equilibrium(friends), rtol=1e-9)


@pytest.mark.parametrize("changes", [{"caps": [0.0, 5.0]}, {"costs": fp.Quadratic(0.1, 0.1)}])
def test_costs_that_bend_and_members_without_data_are_solved_alone(changes: dict) -> None:
    federation = fp.Federation([[1.0, 0.4], [0.4, 1.0]], costs=0.05, caps=60.0, payoff=fp.Log()).replace(**changes)
    assert not follows_together(Batch.of([federation]))


def test_bounds_of_many_under_proportional_sharing_are_those_of_each() -> None:
    batch = draw_federations("dense", 0, 4, n_agents=4, seed=32)
    profile = np.random.default_rng(33).uniform(0.0, 30.0, (4, 4))
    rules = fp.ProportionalSharing()
    together = rules.deviation_bounds(batch, profile)
    for place, federation in enumerate(batch):
        alone = rules.deviations(federation, profile[place]).utilities
        np.testing.assert_allclose(together[place], alone, rtol=1e-9, atol=1e-9)

"""VCG: everybody has what it adds, and somebody outside pays the deficit."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.welfare import social_optimum
from strategies import random_federations


def best_welfare(federation: fp.Federation, members: list[int]) -> float:
    if not members:
        return 0.0
    group = federation.take(members)
    return group.welfare(social_optimum(group).contributions)


def test_everybody_has_what_it_adds() -> None:
    for federation in random_federations(97, 12):
        outcome, everybody = fp.VCGMechanism().solve(federation), list(range(federation.n_agents))
        whole = best_welfare(federation, everybody)
        for agent in everybody:
            added = whole - best_welfare(federation, [other for other in everybody if other != agent])
            np.testing.assert_allclose(outcome.utilities[agent], added, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_telling_the_truth_is_best() -> None:
    # What a member says of its own costs and value moves the outcome; what it has is counted in its true ones.
    for federation in random_federations(99, 12, harm=False):
        honest = fp.VCGMechanism().solve(federation).utilities
        for agent in range(federation.n_agents):
            for factor in (0.5, 2.0):
                values = federation.values.copy()
                values[agent] *= factor
                told = fp.VCGMechanism().solve(federation.replace(values=values))
                payoff = federation.payoffs(told.contributions)[agent]
                has = payoff - told.costs[agent] + told.payments[agent]
                assert has <= honest[agent] + 1e-7 * max(1.0, abs(honest[agent]))

"""Theorem 4, solved from scratch: equal agents at the symmetric optimum get exactly their Shapley shares."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from fedpact.paper.random_instances import homogeneous_optimum, renamable_optimum, welfare_optimum
from random_cases import cases
from theorems.claims import many


def test_theorem_4_the_canonical_optimum_of_equal_agents_is_symmetric_and_reciprocal() -> None:
    for instance in many(homogeneous_optimum, seed=1, count=cases(12)):
        outcome = fp.ExternalityMechanism().solve(instance.federation)
        np.testing.assert_allclose(outcome.contributions, instance.contributions, rtol=1e-6)
        np.testing.assert_allclose(outcome.contributions, outcome.contributions.mean(), rtol=1e-9)
        np.testing.assert_allclose(outcome.payments, 0.0, atol=1e-14)
        np.testing.assert_allclose(outcome.reciprocity, 1.0, rtol=1e-11)


def test_by_its_definition_the_reciprocity_of_equal_agents_is_that_of_the_most_lopsided_optimum() -> None:
    """One agent does all: it gets g + (n - 1) g' z out of n g, z the optimal total; a cap makes it less extreme."""
    n_agents, beta, cost = 3, 0.02, 0.001
    federation = fp.Federation(np.ones((3, 3)), costs=cost, caps=400.0, payoff=fp.PowerLaw(beta))
    total = (n_agents * beta / cost) ** (1.0 / (beta + 1.0)) - 1.0
    payoff = 1.0 - (1.0 + total) ** -beta
    expected = (payoff + (n_agents - 1) * cost * total / n_agents) / (n_agents * payoff)
    worst = fp.ExternalityMechanism().solve(federation).worst_reciprocity
    np.testing.assert_allclose(worst.value, expected, rtol=1e-9)
    np.testing.assert_allclose(expected, 0.48996, atol=1e-5)


def test_rings_of_unlike_neighbours_are_perfectly_reciprocal() -> None:
    for instance in many(renamable_optimum, seed=2, count=cases(12)):
        outcome = fp.ExternalityMechanism().solve(instance.federation)
        np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, rtol=1e-6)


def test_no_balanced_mechanism_is_more_than_reciprocal() -> None:
    for instance in many(welfare_optimum, seed=3, count=cases(12)):
        assert fp.ExternalityMechanism().solve(instance.federation).reciprocity <= 1.0 + 1e-9
        shapley = fp.ShapleyMechanism().solve(instance.federation)
        np.testing.assert_allclose(shapley.reciprocity_ratios, 1.0, atol=1e-9)

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


def test_rings_of_unlike_neighbours_are_perfectly_reciprocal() -> None:
    for instance in many(renamable_optimum, seed=2, count=cases(12)):
        outcome = fp.ExternalityMechanism().solve(instance.federation)
        np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, rtol=1e-6)


def test_no_balanced_mechanism_is_more_than_reciprocal() -> None:
    for instance in many(welfare_optimum, seed=3, count=cases(12)):
        assert fp.ExternalityMechanism().solve(instance.federation).reciprocity <= 1.0 + 1e-9
        shapley = fp.ShapleyMechanism().solve(instance.federation)
        np.testing.assert_allclose(shapley.reciprocity_ratios, 1.0, atol=1e-9)

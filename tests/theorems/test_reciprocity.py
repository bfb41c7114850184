"""Theorem 4: equal agents at the symmetric optimum get exactly their Shapley shares."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from theorems.instances import homogeneous, interior_optima


def test_theorem_4_the_canonical_optimum_of_equal_agents_is_symmetric_and_reciprocal() -> None:
    for federation in homogeneous(seed=7, count=30):
        outcome = fp.ExternalityMechanism().solve(federation)
        assert (outcome.contributions > 0).all()
        np.testing.assert_allclose(outcome.contributions, outcome.contributions.mean(), rtol=1e-9)
        np.testing.assert_allclose(outcome.payments, 0.0, atol=1e-14)
        np.testing.assert_allclose(outcome.payoffs + outcome.payments, outcome.shapley_values, rtol=1e-11)
        np.testing.assert_allclose(outcome.reciprocity, 1.0, rtol=1e-11)


def test_no_balanced_mechanism_is_more_than_reciprocal() -> None:
    for federation, _ in interior_optima(seed=8, count=20):
        assert fp.ExternalityMechanism().solve(federation).reciprocity <= 1.0 + 1e-9
        shapley = fp.ShapleyMechanism().solve(federation)
        np.testing.assert_allclose(shapley.reciprocity_ratios, 1.0, atol=1e-9)

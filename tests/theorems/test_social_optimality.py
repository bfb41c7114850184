"""Theorem 1 and Corollary 1: interior Shapley equilibria are not optimal, and somebody contributes too much at them."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from theorems.instances import homogeneous, interior_shapley_equilibria

# Of the payoffs at stake; the instances lose far more.
STRICTLY = 1e-9


def test_shapley_misses_the_optimum_and_somebody_contributes_too_much() -> None:
    for federation, equilibrium in interior_shapley_equilibria(seed=1, count=25):
        outcome = fp.ShapleyMechanism().solve(federation)
        np.testing.assert_allclose(outcome.contributions, equilibrium, rtol=1e-6)
        optimum = fp.social_optimum(federation)
        assert outcome.welfare < optimum.welfare - STRICTLY * outcome.payoffs.sum()
        assert (outcome.contributions > optimum.contributions).any()
        certificate = outcome.certificates["social-optimality"]
        assert certificate.verdict == "violated"
        np.testing.assert_allclose(certificate.margin, outcome.welfare - optimum.welfare, rtol=1e-5, atol=1e-10)


def test_equal_agents_contribute_more_in_total() -> None:
    for federation in homogeneous(seed=2, count=25):
        equilibrium = fp.ShapleyMechanism().solve(federation)
        optimum = fp.social_optimum(federation)
        assert (equilibrium.contributions > 0).all()
        assert equilibrium.contributions.sum() > optimum.contributions.sum() * (1 + STRICTLY)
        assert equilibrium.welfare < optimum.welfare


def test_strictness_ends_where_data_is_too_dear() -> None:
    """Where n beta <= gamma nobody contributes under either mechanism: the equilibrium is not interior."""
    federation = fp.Federation(np.ones((3, 3)), costs=0.015, caps=400.0, payoff=fp.PowerLaw(beta=0.005))
    for mechanism in (fp.ShapleyMechanism(), fp.ExternalityMechanism()):
        outcome = mechanism.solve(federation)
        np.testing.assert_allclose(outcome.contributions, 0.0, atol=1e-9)
        assert outcome.certificates["social-optimality"].verdict == "holds"


def test_the_externality_mechanism_is_optimal_by_design() -> None:
    for federation, _ in interior_shapley_equilibria(seed=3, count=15):
        assert fp.ExternalityMechanism().solve(federation).certificates["social-optimality"].verdict == "holds"

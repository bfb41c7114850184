"""Beyond the paper: one Shapley equilibrium, the polytope of optima, and what the gain of taking part is made of."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.theorems import shapley_equilibrium, welfare_optimum
from random_cases import cases
from theorems.claims import many, optima_of_types


def test_best_responses_from_anywhere_reach_the_one_equilibrium() -> None:
    rng = np.random.default_rng(3)
    for instance in many(partial(shapley_equilibrium, edges=True), seed=3, count=cases(6)):
        for _ in range(2):
            start = rng.random(instance.federation.n_agents) * instance.federation.caps
            reached = fp.best_response_dynamics(instance.federation, start=start).contributions
            np.testing.assert_allclose(reached, instance.contributions, atol=1e-5 * instance.contributions.max())


def test_all_corners_of_the_face_are_optimal_and_reach_the_same() -> None:
    rng = np.random.default_rng(4)
    for instance in many(optima_of_types, seed=4, count=cases(12)):
        federation = instance.federation
        optimum = fp.social_optimum(federation)
        for _ in range(3):
            corner = optimum.face.vertex(rng.normal(size=federation.n_agents))
            np.testing.assert_allclose(federation.reach(corner), federation.reach(instance.contributions), rtol=1e-6)
            outcome = fp.ExternalityMechanism().outcome_at(federation, corner)
            assert outcome.certificates["social-optimality"].verdict == "holds"
            assert outcome.certificates["nash"].verdict == "holds"
            assert np.linalg.norm(corner) >= np.linalg.norm(optimum.contributions) * (1 - 1e-9)


@pytest.mark.slow
def test_the_gap_is_the_gain_from_more_data_plus_what_others_owe() -> None:
    """Delta_i = [g(y) + g'(y) (x - y) - g(x)] + T_i x, x what i would gather alone: the bracket is never negative."""
    for instance in many(partial(welfare_optimum, harm=True, alone=True), seed=7, count=200):
        outcome = fp.ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
        alone = fp.Standalone().solve(instance.federation)
        data, slopes = instance.federation.data(outcome.contributions), outcome.federation.marginal_payoffs
        tangent = outcome.payoffs + slopes(outcome.contributions) * (alone.contributions - data)
        bracket = tangent - alone.payoffs
        assert (bracket >= -1e-13).all()
        np.testing.assert_allclose(outcome.ir_gaps, bracket + outcome.net_externality * alone.contributions, atol=1e-12)

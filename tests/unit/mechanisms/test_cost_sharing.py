"""Cost sharing, M^BG: a part of everybody's costs is paid by the others."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from strategies import random_federations


def test_payments_are_those_of_the_rule() -> None:
    for federation in random_federations(94, 12, harm=False):
        outcome, n_agents = fp.CostSharing(part=0.3).solve(federation), federation.n_agents
        for agent in range(n_agents if n_agents > 1 else 0):
            others = [outcome.costs[other] for other in range(n_agents) if other != agent]
            expected = 0.3 * (outcome.costs[agent] - sum(others) / (n_agents - 1))
            np.testing.assert_allclose(outcome.payments[agent], expected, rtol=1e-12, atol=1e-15)


def test_by_default_all_costs_are_paid_together() -> None:
    for federation in random_federations(95, 12, harm=False):
        outcome = fp.CostSharing().solve(federation)
        np.testing.assert_allclose(outcome.utilities, outcome.payoffs - outcome.costs.mean(), rtol=1e-9, atol=1e-12)


def test_nothing_shared_is_the_voluntary_deal() -> None:
    for federation in random_federations(96, 12, harm=False):
        shared, free = fp.CostSharing(part=0.0).solve(federation), fp.Voluntary().solve(federation)
        np.testing.assert_array_equal(shared.contributions, free.contributions)
        assert not shared.payments.any()


def test_equals_reach_the_welfare_optimum() -> None:
    homogeneous = fp.Federation(np.ones((5, 5)), costs=0.001, caps=400.0, payoff=fp.PowerLaw(0.02))
    outcome = fp.CostSharing().solve(homogeneous)
    assert outcome.certificates["social-optimality"].holds
    np.testing.assert_allclose(outcome.contributions.sum(), (5 * 0.02 / 0.001) ** (1 / 1.02) - 1.0, rtol=1e-9)


@pytest.mark.parametrize("part", [-0.1, 1.0, float("nan")])
def test_a_part_out_of_range(part: float) -> None:
    with pytest.raises(fp.InvalidInput, match="part must be at least 0 and below 1"):
        fp.CostSharing(part=part)

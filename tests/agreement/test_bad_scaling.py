"""Badly scaled federations: costs, weights, caps and values over many orders of magnitude still solve and certify."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp


@pytest.mark.parametrize("gamma", [1e-9, 1e-6, 1e-3, 0.0149])
def test_the_flattest_payoff_of_the_paper(gamma):
    """beta = 0.005 is nearly flat; the optimum is known."""
    fed = fp.Federation(np.ones((3, 3)), costs=gamma, payoff=fp.PowerLaw(0.005))
    outcome = fp.ExternalityMechanism().solve(fed)
    total = (3 * 0.005 / gamma) ** (1.0 / 1.005) - 1.0
    np.testing.assert_allclose(outcome.contributions, total / 3.0, rtol=1e-9)
    assert outcome.certificates["social-optimality"].holds


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_a_small_agent_beside_a_large_one_still_does_its_best(ratio):
    """Decoupled agents whose money differs by orders of magnitude: each does as alone."""
    for payoff in (fp.PowerLaw(0.5), fp.Log(), fp.Michaelis(2.0), fp.Exponential(0.3)):
        values = np.array([1.0, ratio])
        fed = fp.Federation(np.eye(2), costs=0.01 * values, payoff=payoff, values=values)
        alone = fp.Standalone().solve(fed).contributions
        for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
            # The tolerance of the maximiser is relative to the large one's money; Newton steps do better than that.
            np.testing.assert_allclose(mechanism.solve(fed).contributions, alone, rtol=1e-7)

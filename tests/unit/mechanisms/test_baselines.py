"""Voluntary and Standalone: known equilibria, and no payments."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from strategies import random_federations


@pytest.mark.parametrize("mechanism", [fp.Voluntary(), fp.Standalone()], ids=lambda mechanism: mechanism.name)
class TestBoth:
    def test_nobody_is_paid(self, mechanism):
        for fed in random_federations(81, 10):
            outcome = mechanism.solve(fed)
            np.testing.assert_array_equal(outcome.payments, 0.0)
            np.testing.assert_array_equal(outcome.utilities, outcome.payoffs - outcome.costs)


class TestVoluntary:
    def test_equilibria_beyond_the_domain_are_refused(self):
        """Agent 1 contributes 9 for itself; agent 0 cannot contribute enough to bear the harm."""
        fed = fp.Federation([[1.0, -1.0], [0.0, 1.0]], costs=0.1, caps=[2.0, np.inf], payoff=fp.Log())
        with pytest.raises(fp.NotConverged, match="lead out of the domain of a payoff; there may be none"):
            fp.Voluntary().solve(fed)


class TestStandalone:
    def test_gaps_are_zero_and_utilities_the_outside_option(self):
        for fed in random_federations(83, 20):
            outcome = fp.Standalone().solve(fed)
            size = np.abs(outcome.payoffs).max() + outcome.costs.max() + 1e-300
            np.testing.assert_allclose(outcome.ir_gaps, 0.0, atol=1e-14 * size)
            np.testing.assert_allclose(outcome.shapley_values, outcome.payoffs, rtol=0, atol=1e-13 * size)

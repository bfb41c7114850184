"""Voluntary and Standalone: no payments, and free riding."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import stack
from fedpact.solvers.free_riding import free_riding_equilibria, free_riding_equilibrium, is_only_equilibrium
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


def test_free_riding_treats_equals_alike_side_by_side_and_knows_when_it_is_alone():
    alike = fp.Federation(np.ones((3, 3)), costs=0.001, caps=[1.0, 400.0, 400.0], payoff=fp.PowerLaw(beta=0.02))
    s = free_riding_equilibrium(alike)
    assert s[1] == pytest.approx(s[2], rel=1e-12) and not is_only_equilibrium(alike, s)
    apart = alike.replace(weights=np.eye(3) + 0.1)
    assert is_only_equilibrium(apart, free_riding_equilibrium(apart))
    both = free_riding_equilibria(stack([alike, apart]))
    np.testing.assert_allclose(both, [s, free_riding_equilibrium(apart)], rtol=1e-10)
    # Each of two who are more useful to the other than to themselves rides on the other: one gives, whichever.
    crossed = fp.Federation([[1.0, 2.0], [2.0, 1.0]], costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    s = free_riding_equilibrium(crossed)
    assert s[0] == pytest.approx(s[1], rel=1e-9) and not is_only_equilibrium(crossed, s)

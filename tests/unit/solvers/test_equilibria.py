"""Equilibria: nobody gains by another contribution, whatever route led there."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import stack
from fedpact.solvers.free_riding import free_riding_equilibria, free_riding_equilibrium, is_only_equilibrium


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

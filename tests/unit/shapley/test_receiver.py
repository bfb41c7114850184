"""One receiver's shares against the values of everybody: the sum over receivers is the whole."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.shapley import coalitions, integral
from fedpact.shapley.values import Rows
from fedpact.utils.errors import OutsideDomain
from potentials import summed_potential
from strategies import random_federation

SAME = 1e-10  # of the payoff


@pytest.mark.parametrize("seed", range(12))
def test_receivers_add_up_to_everybody(seed: int) -> None:
    """Against coalitions counted out one by one."""
    rng = np.random.default_rng(seed)
    federation = random_federation(rng, n_agents=int(rng.integers(1, 7)))
    profile = 0.3 * np.minimum(federation.caps, 3.0) * rng.random(federation.n_agents)
    if federation.has_harm:
        profile *= 1e-2
    rows = Rows(
        federation.arrays.weights, federation.payoff, federation.values, federation.lot_owners, federation.n_agents
    )
    values, slopes = coalitions.values_and_gradient(federation.arrays, profile)
    found = rows.shares(profile)
    size = float(np.abs(federation.payoffs(profile)).sum())
    np.testing.assert_allclose(found.values.sum(axis=0), values, rtol=0.0, atol=SAME * size)
    np.testing.assert_allclose(found.slopes.sum(axis=0), slopes, rtol=1e-8)
    np.testing.assert_allclose(found.values.sum(axis=1), federation.payoffs(profile), rtol=0.0, atol=SAME * size)
    expected = float(summed_potential(federation.arrays, profile))
    assert rows.potential(profile) == pytest.approx(expected, rel=1e-9)


def test_a_coalition_that_harms_too_much_is_outside() -> None:
    row = Rows(np.array([[1.0, -0.5, 0.4]]), fp.PowerLaw([0.5]), np.ones(1), np.arange(3), 3)
    with pytest.raises(OutsideDomain):
        row.shares(np.array([5.0, 3.0, 1.0]))


def test_shares_climb_the_potential_of_many() -> None:
    """Beyond what is summed factor by factor, with two lots each."""
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(50), 2)
    weights, at, direction = rng.random((3, 100))
    row = Rows(weights[None], fp.PowerLaw([0.7]), np.full(1, 2.0), owners, 50)
    assert integral.FINE.direct < 50
    ahead, behind = (row.potential(at + step * direction) for step in (1e-4, -1e-4))
    assert (ahead - behind) / 2e-4 == pytest.approx(float(row.shares(at).slopes[0] @ direction), rel=1e-8)

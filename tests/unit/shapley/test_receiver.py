"""One receiver's shares against the values of everybody: the sum over receivers is the whole."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.shapley import coalitions, integral
from fedpact.shapley.receiver import receiver_potential, receiver_shares
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
    rows = [
        (federation.arrays.weights[agent], federation.payoff.take([agent]), float(federation.values[agent]), profile)
        for agent in range(federation.n_agents)
    ]
    values, slopes = coalitions.values_and_gradient(federation.arrays, profile)
    found = [receiver_shares(*row) for row in rows]
    size = float(np.abs(federation.payoffs(profile)).sum())
    np.testing.assert_allclose(sum(each.values for each in found), values, rtol=0.0, atol=SAME * size)
    np.testing.assert_allclose(sum(each.slopes for each in found), slopes, rtol=1e-8)
    for each, payoff in zip(found, federation.payoffs(profile), strict=True):
        assert abs(each.values.sum() - payoff) <= SAME * size
    potential = sum(receiver_potential(*row) for row in rows)
    assert potential == pytest.approx(float(summed_potential(federation.arrays, profile)), rel=1e-9)


def test_a_coalition_that_harms_too_much_is_outside() -> None:
    weights = np.array([1.0, -0.5, 0.4])
    with pytest.raises(OutsideDomain):
        receiver_shares(weights, fp.PowerLaw([0.5]), 1.0, np.array([5.0, 3.0, 1.0]))


def test_shares_climb_the_potential_of_many() -> None:
    """Beyond what is summed factor by factor, with two lots each."""
    rng = np.random.default_rng(1)
    owners = np.repeat(np.arange(50), 2)
    weights, at, direction = rng.random((3, 100))
    payoff, options = fp.PowerLaw([0.7]), {"lot_owners": owners, "n_agents": 50}
    assert integral.FINE.direct < 50
    ahead, behind = (
        receiver_potential(weights, payoff, 2.0, at + step * direction, **options) for step in (1e-4, -1e-4)
    )
    slopes = receiver_shares(weights, payoff, 2.0, at, **options).slopes
    assert (ahead - behind) / 2e-4 == pytest.approx(float(slopes @ direction), rel=1e-8)

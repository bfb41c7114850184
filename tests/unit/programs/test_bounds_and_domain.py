"""The box every maximiser lies in, and how far one can go inside the domain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from fedpact.federation.bounds import contribution_bounds, spending_bound
from fedpact.programs.domain import interior_point, room
from strategies import random_federations


def test_bounds_are_finite_and_within_the_caps():
    for fed in random_federations(21, 60):
        upper, spending = contribution_bounds(fed)
        assert np.isfinite(upper).all() and (upper <= fed.caps).all()
        assert np.isfinite(spending) and spending >= 0.0


def test_optimum_spends_less_than_the_bound_and_is_inside_the_box():
    for fed in random_federations(22, 60):
        upper, spending = contribution_bounds(fed)
        best = fp.social_optimum(fed).contributions
        assert fed.costs.value(best).sum() <= spending
        by_spending = (upper < fed.caps) & (upper > 0)
        assert (best[by_spending] < upper[by_spending]).all()


def test_bound_is_within_a_factor_of_two_of_its_equation():
    """One agent with log payoff and cost c: S = log(1 + S / c)."""
    for cost in (1e-6, 0.1, 0.9):
        fed = fp.Federation([[1.0]], costs=cost, payoff=fp.Log())
        bound = spending_bound(fed)
        assert np.log1p(bound / cost) <= bound
        assert np.log1p(bound / 2.0 / cost) >= bound / 2.0


def test_nothing_is_spent_where_the_first_sample_is_too_dear():
    fed = fp.Federation(np.ones((2, 2)), costs=3.0, payoff=fp.Log())
    upper, spending = contribution_bounds(fed)
    assert spending == 0.0
    np.testing.assert_array_equal(upper, 0.0)


def test_bounds_of_sparse_weights_are_the_same():
    for fed in random_federations(23, 10):
        thin = fp.Federation(
            sp.csr_array(fed.weights), costs=fed.costs, caps=fed.caps, payoff=fed.payoff, values=fed.values
        )
        np.testing.assert_allclose(contribution_bounds(thin)[0], contribution_bounds(fed)[0], rtol=1e-13)


def test_room_ends_at_the_floor():
    weights = np.array([[1.0, -0.5], [0.0, 1.0]])
    here, direction = np.array([1.0, 1.0]), np.array([0.0, 1.0])
    step = room(weights, -1.0, here, direction)
    assert (weights @ (here + step * direction)).min() == pytest.approx(-1.0, abs=1e-14)


def test_room_is_endless_where_nothing_falls():
    assert room(np.eye(2), -1.0, np.ones(2), np.ones(2)) == np.inf
    assert room(-np.eye(2), -np.inf, np.ones(2), np.ones(2)) == np.inf


def test_start_is_inside_box_and_domain_even_where_the_box_is_not():
    rng = np.random.default_rng(6)
    for payoff in (fp.PowerLaw(0.1), fp.Log(), fp.Michaelis([0.1, 5.0, 1.0]), fp.Exponential(2.0)):
        weights = np.eye(3) - 5.0 * rng.random((3, 3)) * (1.0 - np.eye(3))
        fed = fp.Federation(weights, costs=0.001, payoff=payoff)
        upper, _ = contribution_bounds(fed)
        start = interior_point(fed, upper)
        assert ((start > 0) & (start < upper)).all()
        assert (np.minimum(weights, 0.0) @ start > np.broadcast_to(payoff.floor, 3)).all()

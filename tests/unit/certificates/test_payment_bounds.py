"""How far payments can be from those of the exact equilibrium: never further than the bound says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.payment_bounds import (
    GroupEffects,
    PaymentBounds,
    price_payment_bounds,
    share_payment_bounds,
)
from fedpact.federation import Federation
from fedpact.mechanisms.payment_check import AT_PROFILE, check_payments
from fedpact.utils.arrays import FloatArray
from strategies import random_federations

RULES = {fp.ExternalityMechanism(): price_payment_bounds, fp.ShapleyMechanism(): share_payment_bounds}
RNG_SEED = 3
# What the solver's own equilibrium may be off, as a share of what changes hands.
SOLVED_TO = 1e-9


def bounds_near(
    mechanism: fp.Mechanism, federation: Federation, moved: float, rng: np.random.Generator
) -> tuple[PaymentBounds, FloatArray, float]:
    """The bounds at a profile off by a share of each contribution; the payments at the equilibrium; the turnover."""
    outcome = mechanism.solve(federation)
    signs = rng.choice([-1.0, 1.0], federation.n_agents)
    profile = np.clip(outcome.contributions * (1.0 + moved * signs), 0.0, federation.caps)
    return RULES[mechanism](federation, profile), outcome.payments, outcome.deal.turnover


@pytest.mark.parametrize("mechanism", RULES, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("moved", [0.0, 1e-8, 1e-5])
def test_the_bound_is_never_exceeded(mechanism: fp.Mechanism, moved: float) -> None:
    rng, known = np.random.default_rng(RNG_SEED), 0
    for federation in random_federations(RNG_SEED, 12):
        bounds, exact, turnover = bounds_near(mechanism, federation, moved, rng)
        off = np.abs(bounds.payments - exact)
        assert (off <= bounds.errors + SOLVED_TO * turnover).all()
        known += bool(np.isfinite(bounds.errors).all())
    assert known >= 3  # elsewhere there may be many optima


@pytest.mark.parametrize("mechanism", RULES, ids=lambda mechanism: mechanism.name)
def test_at_an_equilibrium_the_bound_is_rounding(mechanism: fp.Mechanism) -> None:
    weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    federation = fp.Federation(weights, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    bounds, exact, _ = bounds_near(mechanism, federation, 0.0, np.random.default_rng(RNG_SEED))
    assert (bounds.errors < 1e-11).all()
    np.testing.assert_allclose(bounds.payments, exact, atol=1e-13)


def test_no_group_changes_more_or_bends_less() -> None:
    """Every group counts the payoffs of all, those outside it too, whose own data is then not there."""
    weights = np.array([[1.0, 0.3, -0.01], [0.2, 1.0, 0.0], [0.5, 0.4, 1.0]])
    federation = fp.Federation(weights, costs=0.001, caps=20.0, payoff=fp.PowerLaw(beta=0.5), values=[1.0, 2.0, 3.0])
    s = np.array([9.0, 4.0, 2.0])
    effects, payoff, values = GroupEffects(federation), federation.payoff, federation.values
    most, least = effects.steepest(s, np.zeros(3)), effects.curvature_alone(s)
    for group in product([False, True], repeat=3):
        reach = weights @ np.where(group, s, 0.0)
        changes = np.abs(weights).T @ (values * payoff.slope(reach))
        bends = (weights**2).T @ (values * -payoff.curvature(reach))
        assert (changes[list(group)] <= most[list(group)]).all()
        if sum(group) == 1:
            np.testing.assert_allclose(bends[list(group)], least[list(group)], rtol=1e-12)


@pytest.mark.slow
def test_shares_of_sixty_members_are_certified_where_they_are() -> None:
    rng = np.random.default_rng(60)
    weights = rng.random((60, 60))
    np.fill_diagonal(weights, 1.0)
    federation = fp.Federation(weights, costs=rng.uniform(0.0005, 0.002, 60), caps=400.0, payoff=fp.PowerLaw(beta=0.1))
    found = check_payments(fp.ShapleyMechanism(), fp.ShapleyMechanism().solve(federation))
    assert found.is_certified and found.method == AT_PROFILE


def test_where_there_are_many_optima_nothing_is_known() -> None:
    federation = fp.Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    profile = fp.ExternalityMechanism().solve(federation).contributions
    assert np.isinf(price_payment_bounds(federation, profile).errors).all()


def test_far_from_an_equilibrium_nothing_is_known() -> None:
    federation = fp.Federation([[1.0, 0.2], [0.3, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    assert np.isinf(price_payment_bounds(federation, np.array([300.0, 0.5])).errors).all()
    assert np.isinf(share_payment_bounds(federation, np.array([300.0, 0.5])).errors).all()

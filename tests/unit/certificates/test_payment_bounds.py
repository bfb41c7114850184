"""How far payments can be from those of the exact equilibrium: never further than the bound says."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.certificates.payment_bounds import PaymentBounds, price_payment_bounds, share_payment_bounds
from fedpact.federation import Federation
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


def test_where_there_are_many_optima_nothing_is_known() -> None:
    federation = fp.Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    profile = fp.ExternalityMechanism().solve(federation).contributions
    assert np.isinf(price_payment_bounds(federation, profile).errors).all()


def test_far_from_an_equilibrium_nothing_is_known() -> None:
    federation = fp.Federation([[1.0, 0.2], [0.3, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    assert np.isinf(price_payment_bounds(federation, np.array([300.0, 0.5])).errors).all()
    assert np.isinf(share_payment_bounds(federation, np.array([300.0, 0.5])).errors).all()

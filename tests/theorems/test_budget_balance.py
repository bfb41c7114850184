"""Section 3: payments sum to zero, at equilibria and everywhere else."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fedpact as fp
from random_cases import cases
from strategies import contributions, federations

ROUNDING = 1e-13  # of what the data is worth at its marginal value, to its owner included


@settings(max_examples=cases(20))
@given(st.data())
def test_prices_balance_at_every_profile(data: st.DataObject) -> None:
    federation = data.draw(federations())
    profile = data.draw(contributions(federation))
    payments = federation.arrays.price_payments(profile)
    prices = fp.personal_prices(federation, profile)
    marginal = federation.marginal_payoffs(profile)[:, None] * np.abs(federation.weights)
    worth = float((marginal @ profile).sum())
    assert abs(payments.sum()) <= ROUNDING * worth
    np.testing.assert_allclose(prices.sum(axis=0), 0.0, atol=ROUNDING * marginal.sum())
    np.testing.assert_allclose(payments, -prices @ profile, atol=ROUNDING * worth)


@settings(max_examples=cases(12))
@given(st.data())
def test_shapley_payments_balance_at_every_profile(data: st.DataObject) -> None:
    federation = data.draw(federations())
    profile = data.draw(contributions(federation))
    payments = fp.ShapleyMechanism().payments(federation.arrays, profile)
    assert abs(payments.sum()) <= 1e-11 * np.abs(federation.payoffs(profile)).sum() + 1e-300


def test_the_interior_formula_does_not_balance_at_a_cap() -> None:
    """Equation (12) leaves out the multiplier of a binding cap; the payments here carry it."""
    weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    federation = fp.Federation(weights, costs=0.001, caps=[10.0, 400.0, 20.0], payoff=fp.PowerLaw(beta=0.02))
    outcome = fp.ExternalityMechanism().solve(federation)
    slopes = federation.marginal_payoffs(outcome.contributions)
    interior = 0.001 * outcome.contributions - slopes * federation.data(outcome.contributions)
    assert abs(interior.sum()) > 1e-3
    multipliers = np.array(weights).T @ slopes - 0.001
    np.testing.assert_allclose(outcome.payments, interior + multipliers * outcome.contributions, atol=1e-13)
    assert abs(outcome.payments.sum()) < 1e-15

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

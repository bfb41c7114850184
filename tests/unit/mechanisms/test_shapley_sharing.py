"""M^Shap: known equilibria, payments, and first-order conditions."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from cases import W2, W3, table_1
from fedpact.utils.errors import NotConverged, OutsideDomain
from strategies import random_federations


def test_payments_top_up_to_the_shapley_share_and_balance():
    for fed in random_federations(71, 40):
        outcome = fp.ShapleyMechanism().solve(fed)
        size = np.abs(outcome.payoffs).sum() + np.abs(outcome.shapley_values).sum() + 1e-300
        np.testing.assert_allclose(
            outcome.payoffs + outcome.payments, outcome.shapley_values, rtol=0, atol=1e-14 * size
        )
        assert abs(outcome.payments.sum()) <= 1e-13 * size
        np.testing.assert_allclose(
            outcome.utilities, outcome.shapley_values - outcome.costs, rtol=0, atol=1e-13 * (size + outcome.costs.sum())
        )


class TestBestResponses:
    def test_trace_leads_from_the_start_to_the_end(self):
        walk = fp.best_response_dynamics(table_1(W2), start=[1.0, 2.0, 3.0])
        np.testing.assert_array_equal(walk.trace[0], [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(walk.trace[-1], walk.contributions)
        assert walk.rounds == len(walk.trace) - 1

    def test_ends_where_it_starts_from_the_equilibrium(self):
        """Paid its Shapley value, nobody wants to move: one round to notice."""
        fed = table_1(W3)
        s = fp.ShapleyMechanism().solve(fed).contributions
        walk = fp.best_response_dynamics(fed, start=s, tol=1e-8)
        assert walk.rounds == 1
        np.testing.assert_allclose(walk.contributions, s, rtol=1e-8)

    def test_too_few_rounds_are_reported_with_the_path(self):
        with pytest.raises(NotConverged, match=r"^best responses still moved after 1 rounds$") as caught:
            fp.best_response_dynamics(table_1(W2), max_rounds=1)
        assert caught.value.result.rounds == 1

    @pytest.mark.parametrize("payoff", [fp.PowerLaw(0.5), fp.Log()], ids=repr)
    def test_start_outside_the_domain_is_refused(self, payoff):
        fed = fp.Federation([[1.0, -0.5], [0.0, 1.0]], costs=0.1, payoff=payoff)
        with pytest.raises(OutsideDomain):
            fp.best_response_dynamics(fed, start=[5.0, 4.0])

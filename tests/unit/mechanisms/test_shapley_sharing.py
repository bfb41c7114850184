"""M^Shap: known equilibria, payments, and first-order conditions."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from cases import W2, W3, answers, table_1
from fedpact.utils.errors import NotConverged, OutsideDomain
from strategies import random_federations

# An equilibrium known to 1e-10 of the scale.
SOLVED = 1e-9


@pytest.mark.parametrize("case", answers("shapley"), ids=lambda case: case.name)
def test_known_equilibria(case):
    outcome = fp.ShapleyMechanism().solve(case.federation)
    np.testing.assert_allclose(outcome.contributions, case.equilibria["shapley"], rtol=0, atol=case.atol)
    if "shapley" in case.payments:
        np.testing.assert_allclose(outcome.payments, case.payments["shapley"], rtol=0, atol=case.atol)
    assert outcome.equilibria.unique


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


def test_marginal_shares_meet_marginal_costs():
    """d phi_j / d s_j = c_j' inside, at most c_j' at zero, at least c_j' at the cap."""
    for fed in random_federations(72, 60):
        s = fp.ShapleyMechanism().solve(fed).contributions
        excess = fp.shapley_values(fed, s, method="quadrature").gradient - fed.costs.slope(s)
        size = fed.costs.slope(s)
        low, high = s < fed.caps, s > 0
        # Relative to the marginal cost: a bound on the gain over the whole range says less about dear agents.
        assert (excess[low] <= 1e-7 * size[low]).all()
        assert (excess[high] >= -1e-7 * size[high]).all()


def test_decoupled_agents_do_as_alone_without_payments():
    for fed in random_federations(73, 15):
        alone = fed.without_sharing()
        outcome, standalone = fp.ShapleyMechanism().solve(alone), fp.Standalone().solve(alone)
        size = standalone.contributions.max() + 1e-300
        np.testing.assert_allclose(outcome.contributions, standalone.contributions, rtol=0, atol=SOLVED * size)
        np.testing.assert_allclose(outcome.payments, 0.0, atol=1e-14 * (1.0 + np.abs(outcome.payoffs).max()))


@pytest.mark.parametrize("factor", [1e-6, 1e3])
def test_values_and_costs_together_scale_payments_and_nothing_else(factor):
    for fed in random_federations(74, 12):
        costs = fp.Quadratic(factor * fed.costs.linear, factor * fed.costs.quadratic)
        scaled = fp.Federation(fed.weights, costs=costs, caps=fed.caps, payoff=fed.payoff, values=factor * fed.values)
        here, there = (fp.ShapleyMechanism().solve(f) for f in (fed, scaled))
        np.testing.assert_allclose(
            there.contributions, here.contributions, rtol=0, atol=1e-8 * (here.contributions.max() + 1e-300)
        )
        size = np.abs(here.payoffs).sum() + np.abs(here.shapley_values).sum() + 1e-300
        np.testing.assert_allclose(there.payments / factor, here.payments, rtol=0, atol=1e-8 * size)


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

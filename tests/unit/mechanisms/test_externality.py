"""M^E: known equilibria, prices and payments, in the interior and on the boundary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedpact as fp
from cases import CASES, W2, answers, table_1
from random_cases import cases
from strategies import contributions, federations, random_federations

# Sums of n^2 products of order one.
ROUNDING = 1e-12
# An optimum known to 1e-10 of the scale.
SOLVED = 1e-9

examples = settings(max_examples=cases(13))


def turnover(fed: fp.Federation, s: np.ndarray) -> float:
    """All the money that changes hands before netting: rounding is relative to this."""
    prices = np.abs(fp.personal_prices(fed, s))
    return float(np.sum(prices @ s)) + 1e-300


@pytest.mark.parametrize("case", answers("externality"), ids=lambda case: case.name)
def test_known_equilibria(case):
    outcome = fp.ExternalityMechanism().solve(case.federation)
    np.testing.assert_allclose(outcome.contributions, case.equilibria["externality"], rtol=0, atol=case.atol)
    if "externality" in case.payments:
        np.testing.assert_allclose(outcome.payments, case.payments["externality"], rtol=0, atol=case.atol)
    assert outcome.equilibria.dimension == case.dimension
    assert outcome.equilibria.unique is (case.dimension == 0)


class TestPrices:
    @given(federations().flatmap(lambda fed: st.tuples(st.just(fed), contributions(fed))))
    @examples
    def test_columns_sum_to_zero(self, drawn):
        fed, s = drawn
        prices = fp.personal_prices(fed, s)
        np.testing.assert_allclose(prices.sum(axis=0), 0.0, atol=ROUNDING * (np.abs(prices).max() + 1e-300))

    @given(federations().flatmap(lambda fed: st.tuples(st.just(fed), contributions(fed))))
    @examples
    def test_payments_are_what_the_prices_charge(self, drawn):
        fed, s = drawn
        charged = fp.personal_prices(fed, s) @ s
        np.testing.assert_allclose(fed.arrays.price_payments(s), -charged, rtol=0, atol=ROUNDING * turnover(fed, s))

    @given(federations().flatmap(lambda fed: st.tuples(st.just(fed), contributions(fed))))
    @examples
    def test_payments_balance_at_every_profile(self, drawn):
        fed, s = drawn
        assert abs(fed.arrays.price_payments(s).sum()) <= ROUNDING * turnover(fed, s)

    def test_prices_of_others_data_are_marginal_payoffs(self):
        fed, s = table_1(W2), np.array([17.0, 6.0, 31.0])
        prices, step = fp.personal_prices(fed, s), 1e-4
        for giver in range(3):
            up, down = s.copy(), s.copy()
            up[giver] += step
            down[giver] -= step
            slope = (fed.payoffs(up) - fed.payoffs(down)) / (2.0 * step)
            others = np.arange(3) != giver
            # Central differences with a step of 1e-4 on payoffs of order 0.1.
            np.testing.assert_allclose(prices[others, giver], slope[others], rtol=1e-7)

    def test_own_price_at_an_interior_optimum_is_equation_11(self):
        """l_ii = beta xi_i^(-beta - 1) - gamma."""
        fed = table_1(W2)
        s = fp.ExternalityMechanism().solve(fed).contributions
        expected = 0.02 * fed.reach(s) ** -1.02 - 0.001
        np.testing.assert_allclose(np.diag(fp.personal_prices(fed, s)), expected, rtol=SOLVED)


class TestPayments:
    def test_are_equation_12_in_the_interior(self):
        """p_i = gamma_i s_i - beta xi_i^(-beta - 1) (xi_i - 1)."""
        fed = table_1(W2)
        outcome = fp.ExternalityMechanism().solve(fed)
        reach = fed.reach(outcome.contributions)
        expected = 0.001 * outcome.contributions - 0.02 * reach**-1.02 * (reach - 1.0)
        np.testing.assert_allclose(outcome.payments, expected, rtol=SOLVED)

    def test_carry_the_multiplier_at_a_cap(self):
        """p_i = c_i' s_i - a_i' (xi_i - 1) + mu_i s_i; without the last term the budget would not balance."""
        interior_only = 0
        for fed in random_federations(62, 60):
            outcome = fp.ExternalityMechanism().solve(fed)
            s = outcome.contributions
            slopes = fed.marginal_payoffs(s)
            marginal_costs = fed.costs.slope(s)
            plain = marginal_costs * s - slopes * fed.data(s)
            at_cap = s >= fed.caps
            multipliers = np.where(at_cap, np.maximum(fed.arrays.welfare_gradient(s), 0.0), 0.0)
            full = plain + multipliers * s
            size = turnover(fed, s) + float(marginal_costs @ s)
            np.testing.assert_allclose(outcome.payments, full, rtol=0, atol=SOLVED * size)
            interior_only += abs(plain.sum()) > 1e-6 * size
        assert interior_only > cases(60) // 6  # the cases in which the paper's interior formula leaves a deficit

    def test_balance_on_the_boundary(self):
        for fed in random_federations(63, 60):
            outcome = fp.ExternalityMechanism().solve(fed)
            assert abs(outcome.payments.sum()) <= ROUNDING * turnover(fed, outcome.contributions)

    def test_an_agent_at_zero_pays_for_what_it_uses(self):
        for fed in random_federations(64, 40, harm=False):
            outcome = fp.ExternalityMechanism().solve(fed)
            assert (outcome.payments[outcome.contributions == 0] <= 1e-15).all()

    def test_harm_is_charged(self):
        case = CASES["one-way harm"]
        assert fp.ExternalityMechanism().solve(case.federation).payments[1] < 0


class TestScaling:
    @pytest.mark.parametrize("factor", [1e-6, 1e-2, 1e3, 1e8])
    def test_values_and_costs_together_scale_payments_and_nothing_else(self, factor):
        for fed in random_federations(65, 12):
            costs = fp.Quadratic(factor * fed.costs.linear, factor * fed.costs.quadratic)
            scaled = fp.Federation(
                fed.weights, costs=costs, caps=fed.caps, payoff=fed.payoff, values=factor * fed.values
            )
            here, there = (fp.ExternalityMechanism().solve(f) for f in (fed, scaled))
            size = here.contributions.max() + 1e-300
            np.testing.assert_allclose(there.contributions, here.contributions, rtol=0, atol=1e-8 * size)
            size = turnover(fed, here.contributions)
            np.testing.assert_allclose(there.payments / factor, here.payments, rtol=0, atol=1e-8 * size)

    @pytest.mark.parametrize("unit", [1e-6, 1e-2, 1e3, 1e8])
    def test_the_unit_of_data_does_not_matter(self, unit):
        for fed in random_federations(66, 12, quadratic=False):
            scaled = fp.Federation(
                fed.weights / unit,
                costs=fed.costs.linear / unit,
                caps=fed.caps * unit,
                payoff=fed.payoff,
                values=fed.values,
            )
            here, there = (fp.ExternalityMechanism().solve(f) for f in (fed, scaled))
            size = here.contributions.max() + 1e-300
            np.testing.assert_allclose(there.contributions / unit, here.contributions, rtol=0, atol=1e-8 * size)
            size = turnover(fed, here.contributions)
            np.testing.assert_allclose(there.payments, here.payments, rtol=0, atol=1e-8 * size)


class TestEquilibria:
    def test_a_line_of_optima_is_announced(self):
        equilibria = fp.ExternalityMechanism().solve(CASES["duplicate columns"].federation).equilibria
        assert not equilibria.unique
        assert equilibria.note == (
            "welfare optima form a line; this is the one of smallest norm, which treats equal members alike"
        )

    def test_a_plane_of_optima_is_announced(self):
        equilibria = fp.ExternalityMechanism().solve(CASES["table 1, W1"].federation).equilibria
        assert equilibria.note.startswith("welfare optima form a set of dimension 2")

    def test_a_single_optimum_is_announced(self):
        assert fp.ExternalityMechanism().solve(table_1(W2)).equilibria.note == "the only welfare optimum"

    def test_decoupled_agents_do_as_alone_without_payments(self):
        for fed in random_federations(67, 15):
            alone = fed.without_sharing()
            outcome, standalone = fp.ExternalityMechanism().solve(alone), fp.Standalone().solve(alone)
            size = standalone.contributions.max() + 1e-300
            np.testing.assert_allclose(outcome.contributions, standalone.contributions, rtol=0, atol=SOLVED * size)
            np.testing.assert_array_equal(outcome.payments, 0.0)

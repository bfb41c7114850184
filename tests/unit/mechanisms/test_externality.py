"""M^E: known equilibria, prices and payments, in the interior and on the boundary."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from cases import CASES, W2, table_1
from strategies import random_federations


def turnover(fed: fp.Federation, s: np.ndarray) -> float:
    """All the money that changes hands before netting: rounding is relative to this."""
    prices = np.abs(fp.personal_prices(fed, s))
    return float(np.sum(prices @ s)) + 1e-300


class TestPrices:
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


class TestPayments:
    def test_an_agent_at_zero_pays_for_what_it_uses(self):
        for fed in random_federations(64, 40, harm=False):
            outcome = fp.ExternalityMechanism().solve(fed)
            assert (outcome.payments[outcome.contributions == 0] <= 1e-15).all()


class TestScaling:
    @pytest.mark.parametrize(
        "mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism()], ids=lambda each: each.name
    )
    @pytest.mark.parametrize("factor", [1e-6, 1e-2, 1e3, 1e8])
    def test_values_and_costs_together_scale_payments_and_nothing_else(self, factor, mechanism):
        for fed in random_federations(65, 12):
            costs = fp.Quadratic(factor * fed.costs.linear, factor * fed.costs.quadratic)
            scaled = fp.Federation(
                fed.weights, costs=costs, caps=fed.caps, payoff=fed.payoff, values=factor * fed.values
            )
            here, there = (mechanism.solve(f) for f in (fed, scaled))
            size = here.contributions.max() + 1e-300
            np.testing.assert_allclose(there.contributions, here.contributions, rtol=0, atol=1e-8 * size)
            if mechanism.name == "shapley":
                size = np.abs(here.payoffs).sum() + np.abs(here.shapley_values).sum() + 1e-300
            else:
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

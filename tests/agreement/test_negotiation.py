"""The negotiated deal against the solved one: random federations of all families, costs, caps and signs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

import fedpact as fp
from cases import CASES, Case
from fedpact.federation import Payoff
from fedpact.negotiation import InProcess, coordinate
from random_cases import cases, some
from strategies import FAMILIES, federations, random_federation, random_federations

MONEY = 1e-6  # of payoffs and costs together
WELFARE = 1e-6
ROUNDING = 1e-12
MOST_ROUNDS = 15


def assert_is_the_solved_deal(federation: fp.Federation, deal: fp.Deal, *, money: float = MONEY) -> None:
    solved = fp.ExternalityMechanism().solve(federation)
    size = float(np.abs(solved.payoffs).sum() + solved.costs.sum())
    size = max(size, ROUNDING * float(federation.values.sum()))  # where nobody contributes
    assert not deal.excluded
    np.testing.assert_allclose(deal.payments, solved.payments, rtol=0.0, atol=money * size)
    assert federation.welfare(deal.contributions) >= solved.welfare - WELFARE * size
    assert math.fsum(deal.payments) == 0.0 == float(deal.payments.sum())
    np.testing.assert_allclose(deal.prices.sum(axis=0), 0.0, atol=1e-13 * float(np.abs(deal.prices).max(initial=1.0)))


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_known_federations(case: Case) -> None:
    deal = coordinate(InProcess.of(case.federation, least_gain=None))
    if "externality" in case.equilibria:
        expected = np.asarray(case.equilibria["externality"], dtype=np.float64)
        atol = max(case.atol, 1e-6 * float(expected.max(initial=1.0)))
        np.testing.assert_allclose(deal.contributions, expected, rtol=0.0, atol=atol)
    assert_is_the_solved_deal(case.federation, deal)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("harm", [False, True])
def test_price_discovery_on_random_federations(family: type[Payoff], harm: bool) -> None:
    for federation in random_federations(11, 30, family=family, harm=harm):
        deal = coordinate(InProcess.of(federation, least_gain=None))
        assert deal.rounds <= MOST_ROUNDS
        assert_is_the_solved_deal(federation, deal)


@given(federation=federations())
@settings(max_examples=cases(40))
def test_price_discovery_on_round_numbers(federation: fp.Federation) -> None:
    """Equal agents, zero caps and degenerate optima are common here."""
    deal = coordinate(InProcess.of(federation, least_gain=None))
    assert deal.rounds <= MOST_ROUNDS
    assert_is_the_solved_deal(federation, deal)


def large(family: type[Payoff], *, sparse: bool, harm: bool, n_agents: int = 200) -> fp.Federation:
    rng = np.random.default_rng(3)
    dense = random_federation(rng, n_agents=n_agents, harm=harm, family=family)
    if not sparse:
        return dense
    kept = np.where(rng.random((n_agents, n_agents)) < 0.05, dense.weights, 0.0)
    np.fill_diagonal(kept, dense.weights.diagonal())
    options = {"costs": dense.costs, "caps": dense.caps, "payoff": dense.payoff, "values": dense.values}
    return fp.Federation(sp.csr_array(kept), **options)


@pytest.mark.slow
@pytest.mark.parametrize("family", some(FAMILIES, 1))
@pytest.mark.parametrize("sparse", some([False, True], 1))
@pytest.mark.parametrize("harm", [False, True], ids=["help", "harm"])
def test_two_hundred_agents_agree_within_fifteen_rounds(family: type[Payoff], sparse: bool, harm: bool) -> None:
    federation = large(family, sparse=sparse, harm=harm)
    deal = coordinate(InProcess.of(federation, least_gain=None))
    assert deal.rounds <= MOST_ROUNDS
    assert_is_the_solved_deal(federation, deal)


@pytest.mark.parametrize("scale", some([1e-9, 1e-4, 1e5, 1e9], 1))
def test_the_units_do_not_matter(scale: float) -> None:
    """Money in other units, then samples in other units."""
    rng = np.random.default_rng(5)
    for _ in range(cases(4, few=1)):
        federation = random_federation(rng, n_agents=4)
        costs = fp.Quadratic(federation.costs.linear * scale, federation.costs.quadratic * scale)
        richer = fp.Federation(
            federation.weights, costs=costs, caps=federation.caps, payoff=federation.payoff,
            values=federation.values * scale,
        )  # fmt: skip
        assert_is_the_solved_deal(richer, coordinate(InProcess.of(richer, least_gain=None)))
        costs = fp.Quadratic(federation.costs.linear / scale, federation.costs.quadratic / scale**2)
        finer = fp.Federation(
            federation.weights / scale, costs=costs, caps=federation.caps * scale, payoff=federation.payoff,
            values=federation.values,
        )  # fmt: skip
        assert_is_the_solved_deal(finer, coordinate(InProcess.of(finer, least_gain=None)))


def test_equal_agents_are_treated_alike() -> None:
    """Every split of the optimal total is as good; the one agreed on is the equal one."""
    deal = fp.negotiate(fp.Federation(np.ones((6, 6)), costs=0.01, payoff=fp.Log()))
    np.testing.assert_allclose(deal.contributions, deal.contributions.mean(), rtol=1e-9)
    np.testing.assert_allclose(deal.payments, 0.0, atol=1e-9)


def test_harm_close_to_the_edge_of_the_domain() -> None:
    """Agent 0 would be left with a reach of 1e-6 by agent 1 at its cap."""
    weights = [[1.0, -0.999999 / 4.0, 0.0], [0.5, 1.0, 0.2], [0.3, 2.0, 1.0]]
    for family in (fp.PowerLaw(0.3), fp.Log(), fp.Michaelis(1.0), fp.Exponential(0.5)):
        federation = fp.Federation(weights, costs=[5.0, 0.001, 0.1], caps=[10.0, 4.0, 50.0], payoff=family)
        deal = coordinate(InProcess.of(federation, least_gain=None))
        assert deal.rounds <= MOST_ROUNDS
        assert_is_the_solved_deal(federation, deal)

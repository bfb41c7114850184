"""One agent's share as a function of its own contribution, by both routes, against the values of the whole game."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.programs.best_response import best_answer
from fedpact.shapley.own_share import own_shares

import fedpact as fp
from random_cases import cases
from strategies import ROOMY, random_federation, random_federations, random_profile

# Relative to what coalitions earn.
AGREEMENT = 1e-9

both = pytest.mark.parametrize("method", ["enumeration", "quadrature"])


def check_agent(fed: fp.Federation, s: np.ndarray, agent: int, method: str) -> None:
    share = own_shares(fed, s, [agent], method=method)[0]
    for x in (0.0, 0.3 * min(share.upper, ROOMY), s[agent], min(share.upper, ROOMY)):
        replaced = s.copy()
        replaced[agent] = x
        whole = fp.shapley_values(fed, replaced, method="enumeration")
        size = np.abs(whole.values).max() + np.abs(fed.payoffs(replaced)).sum() + 1e-300
        assert abs(share.value(x) - whole.values[agent]) <= AGREEMENT * size
        assert abs(share.slope(x) - whole.gradient[agent]) <= AGREEMENT * np.abs(whole.gradient).max()


@both
def test_share_is_the_shapley_value_with_the_contribution_replaced(method):
    rng = np.random.default_rng(8)
    for fed in random_federations(131, 40, harm=False):
        check_agent(fed, random_profile(rng, fed), int(rng.integers(fed.n_agents)), method)


def test_share_is_the_shapley_value_with_harm_by_enumeration():
    rng = np.random.default_rng(9)
    for fed in random_federations(132, 40, harm=True):
        check_agent(fed, random_profile(rng, fed), int(rng.integers(fed.n_agents)), "enumeration")


class TestHarmByQuadrature:
    def test_share_is_the_shapley_value(self):
        rng = np.random.default_rng(10)
        for fed in random_federations(133, 40, harm=True):
            check_agent(fed, random_profile(rng, fed), int(rng.integers(fed.n_agents)), "quadrature")

    def test_two_agents(self):
        fed = fp.Federation([[1.0, 0.0], [-0.5, 1.0]], costs=0.01, caps=1.98, payoff=fp.PowerLaw(0.5))
        check_agent(fed, np.array([1.98, 1.0]), 0, "quadrature")

    def test_equilibrium_of_many_agents_is_certified(self):
        """With more than twelve agents the Nash certificate uses the quadrature, and calls an equilibrium violated."""
        weights = np.eye(13)
        weights[1, 0] = -0.5
        weights[2:, 0] = 2.0
        fed = fp.Federation(weights, costs=1e-3, caps=1.9, payoff=fp.PowerLaw(0.5))
        assert fp.ShapleyMechanism().solve(fed).certificates["nash"].holds


@both
def test_share_rises_and_bends_down_without_harm(method):
    rng = np.random.default_rng(11)
    for fed in random_federations(134, 10, harm=False):
        s = random_profile(rng, fed)
        for share in own_shares(fed, s, range(fed.n_agents), method=method):
            slopes = [share.slope(x) for x in np.linspace(0.0, min(share.upper, ROOMY), 6)]
            assert min(slopes) > 0
            assert (np.diff(slopes) <= 0).all()


@both
def test_upper_end_is_the_cap_or_just_short_of_the_edge(method):
    fed = fp.Federation([[1.0, -0.5], [0.0, 1.0]], costs=0.1, caps=[5.0, np.inf], payoff=fp.Log())
    first, second = own_shares(fed, np.array([1.0, 1.0]), [0, 1], method=method)
    assert first.upper == 5.0
    # Where Ben alone leaves Anna a reach of zero.
    assert second.upper == pytest.approx(2.0, rel=1e-8) and second.upper < 2.0


def test_both_routes_have_the_same_best_answer():
    rng = np.random.default_rng(12)
    for _ in range(cases(15)):
        fed = random_federation(rng, n_agents=4, harm=False)
        s = random_profile(rng, fed)
        answers = [
            [
                best_answer(fed, share, agent, guess=1.0)[0]
                for agent, share in enumerate(own_shares(fed, s, range(4), method=m))
            ]
            for m in ("enumeration", "quadrature")
        ]
        np.testing.assert_allclose(*answers, rtol=1e-7, atol=1e-9)

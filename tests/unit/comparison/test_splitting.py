"""What false names gain: nothing under M^E, much under M^Shap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import fedpact as fp
from old_hospitals import hospitals
from random_cases import cases
from strategies import federations

NEUTRAL = 1e-9  # of what is at stake, which the solver leaves open


def stake(outcome: fp.Outcome, agent: int) -> float:
    return float(abs(outcome.payoffs[agent]) + outcome.costs[agent] + abs(outcome.payments[agent]))


@settings(max_examples=cases(67))
@given(federation=federations(most_agents=4))
def test_prices_pay_the_same_under_any_number_of_names(federation: fp.Federation) -> None:
    outcome = fp.ExternalityMechanism().solve(federation)
    for parts in (2, 3):
        gain = fp.splitting_gain(federation, "externality", 0, parts)
        assert abs(gain) <= NEUTRAL * max(stake(outcome, 0), float(federation.values[0]))


def test_many_optima_do_not_let_names_gain() -> None:
    alike = fp.Federation(np.ones((3, 3)), costs=0.001, caps=[400.0, 30.0, 30.0], payoff=fp.PowerLaw(0.02))
    outcome = fp.ExternalityMechanism().solve(alike)
    assert outcome.equilibria.dimension == 2
    for agent in range(3):
        assert abs(fp.splitting_gain(alike, "externality", agent)) < 1e-12


def test_shares_reward_more_names_the_more_there_are() -> None:
    federation = hospitals().federation
    gains = [fp.splitting_gain(federation, "shapley", "City", parts) for parts in (2, 3, 5)]
    assert 0.0 < gains[0] < gains[1] < gains[2]


def test_shapley_gain_by_best_responses() -> None:
    """The second route to M^Shap's equilibrium, on a federation with the agent split by hand."""
    weights = np.array([[1.0, 0.5], [0.3, 1.0]])
    pair = fp.Federation(weights, costs=[0.01, 0.02], caps=[30.0, 12.0], payoff=fp.PowerLaw(0.4), values=[1.0, 2.0])
    by_hand = fp.Federation(
        [[1.0, 0.5, 0.5], [0.3, 1.0, 1.0], [0.3, 1.0, 1.0]],
        costs=[0.01, 0.02, 0.02],
        caps=[30.0, 6.0, 6.0],
        payoff=fp.PowerLaw(0.4),
        values=[1.0, 1.0, 1.0],
    )

    def utilities(federation: fp.Federation) -> np.ndarray:
        profile = fp.best_response_dynamics(federation).contributions
        shares = fp.shapley_values(federation, profile, method="enumeration").values
        return shares - federation.costs.value(profile)

    expected = utilities(by_hand)[1:].sum() - utilities(pair)[1]
    assert fp.splitting_gain(pair, fp.ShapleyMechanism(), 1) == pytest.approx(expected, rel=1e-7)

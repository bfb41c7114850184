"""The Nash certificate against a brute-force search of deviations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from certificates import hand
from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Claim, Verdict
from fedpact.utils.arrays import FloatArray

# Grids hit maxima to the square of their last spacing: far below the gains of the spoiled profiles.
GRID_ERROR = 1e-7

DIRECT = ("shapley", "voluntary", "standalone")
TRADING = ("paper-w2", "paper-w3", "figure 5", "capped", "hospitals")


def gains_by_hand(federation: fp.Federation, mechanism: str, outcome: fp.Outcome) -> FloatArray:
    """The most each agent could gain, by a grid over its own contributions and the mechanism's rules."""
    best = np.array([_best_by_hand(federation, mechanism, outcome, agent) for agent in range(federation.n_agents)])
    return best - outcome.utilities


def _best_by_hand(federation: fp.Federation, mechanism: str, outcome: fp.Outcome, agent: int) -> float:
    if mechanism == "standalone":
        return hand.grid_maximum(lambda x: hand.alone(federation, agent, x), federation.caps[agent])[1]

    def utility(own: float) -> float:
        profile = np.array(outcome.contributions)
        profile[agent] = own
        if ((1.0 + np.minimum(federation.weights, 0.0) @ profile) <= 0.0).any():
            return -np.inf
        cost = hand.costs(federation, profile)[agent]
        if mechanism == "voluntary":
            return hand.payoffs(federation, profile)[agent] - cost
        return hand.shapley(federation, profile)[agent] - cost

    points = np.linspace(0.0, federation.caps[agent], 41)
    best = int(np.argmax([utility(own) for own in points]))
    low, high = points[max(best - 1, 0)], points[min(best + 1, 40)]
    for _ in range(24):  # utilities are concave in one's own contribution: thirds are enough
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if utility(left) < utility(right) else (low, right)
    return utility((low + high) / 2)


def spoiled_contributions(outcome: fp.Outcome, agent: int, factor: float) -> fp.Outcome:
    """One agent contributes otherwise; payments follow the mechanism's rule."""
    contributions = np.array(outcome.contributions)
    contributions[agent] = min(contributions[agent] * factor, outcome.federation.caps[agent])
    payments = outcome.rules.payments(outcome.arrays, contributions)
    return replace(outcome, contributions=contributions, payments=payments)


@pytest.mark.parametrize("agent", [0, 1, 2])
@pytest.mark.parametrize("factor", [0.5, 1.3])
@pytest.mark.parametrize("name", DIRECT)
def test_spoiled_contributions_fail_by_the_brute_force_gain(name: str, factor: float, agent: int) -> None:
    federation = INSTANCES["paper-w2"]
    outcome = spoiled_contributions(MECHANISMS[name].solve(federation), agent, factor)
    certificate = outcome.certificates[Claim.NASH]
    gains = gains_by_hand(federation, name, outcome)
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["index"] == int(np.argmax(gains))
    assert certificate.witness["agent"] == federation.names[int(np.argmax(gains))]
    np.testing.assert_allclose(-certificate.margin, gains.max(), atol=GRID_ERROR)
    assert -certificate.margin >= gains.max() - 1e-12


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize("instance", ["paper-w3", "figure 5", "capped"])
def test_right_outcomes_leave_the_brute_force_nothing_to_gain(instance: str, name: str) -> None:
    outcome = MECHANISMS[name].solve(INSTANCES[instance])
    assert gains_by_hand(INSTANCES[instance], name, outcome).max() <= outcome.certificates[Claim.NASH].tol


@pytest.mark.parametrize("name", DIRECT)
def test_margin_follows_from_the_witness(name: str) -> None:
    federation = INSTANCES["paper-w2"]
    outcome = spoiled_contributions(MECHANISMS[name].solve(federation), 2, 0.5)
    certificate = outcome.certificates[Claim.NASH]
    witness = certificate.witness
    agent, deviation = witness["index"], witness["deviation"]
    profile = np.array(outcome.contributions)
    assert witness["contribution"] == profile[agent]
    profile[agent] = deviation
    benefit = {
        "shapley": lambda: hand.shapley(federation, profile)[agent],
        "voluntary": lambda: hand.payoffs(federation, profile)[agent],
        "standalone": lambda: (
            hand.alone(federation, agent, np.array(deviation)) + hand.costs(federation, profile)[agent]
        ),
    }[name]()
    np.testing.assert_allclose(
        witness["deviation_utility"], benefit - hand.costs(federation, profile)[agent], atol=1e-12
    )
    np.testing.assert_allclose(certificate.margin, witness["utility"] - witness["deviation_utility"], atol=1e-15)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("instance", TRADING)
def test_underpaid_agent_is_named(instance: str, mechanism: fp.Mechanism) -> None:
    """Money moved from one agent to another leaves the payer that much below what the rules give it."""
    amount = 0.01
    outcome = mechanism.solve(INSTANCES[instance])
    spoiled = replace(outcome, payments=hand.moved(outcome.payments, 1, 2, amount))
    certificate = spoiled.certificates[Claim.NASH]
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.witness["agent"] == outcome.agents[1]
    np.testing.assert_allclose(certificate.margin, -amount, rtol=1e-6)


@pytest.mark.parametrize("instance", TRADING)
def test_externality_margin_follows_from_the_prices(instance: str) -> None:
    """At its prices a member has a_i(x) - c_i(x_i) - l_i x; the witness asks for another contribution of its own."""
    federation = INSTANCES[instance]
    outcome = spoiled_contributions(MECHANISMS["externality"].solve(federation), 1, 0.7)
    certificate = outcome.certificates[Claim.NASH]
    witness = certificate.witness
    agent = witness["index"]
    profile = np.array(outcome.contributions)
    profile[agent] = witness["deviation"]
    worth = federation.values[agent] * np.ravel(federation.payoff.value(federation.weights @ profile))[agent]
    worth_of_data = federation.values * federation.payoff.slope(federation.weights @ outcome.contributions)
    prices = worth_of_data[:, None] * federation.weights
    np.fill_diagonal(prices, 0.0)
    prices -= np.diag(prices.sum(axis=0))
    expected = worth - hand.costs(federation, profile)[agent] - prices[agent] @ profile
    assert certificate.verdict is Verdict.VIOLATED
    np.testing.assert_allclose(witness["deviation_utility"], expected, atol=1e-12)
    np.testing.assert_allclose(certificate.margin, witness["utility"] - witness["deviation_utility"], atol=1e-15)


def asked_for(federation: fp.Federation, outcome: fp.Outcome, agent: int, points: int = 24) -> float:
    """The best utility among profiles on a grid over the box that one agent could ask for at its prices."""
    here = outcome.contributions
    axes = [np.append(np.linspace(0.0, cap, points), own) for cap, own in zip(federation.caps, here, strict=True)]
    profiles = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, federation.n_agents)
    reach = 1.0 + profiles @ federation.weights[agent]
    profiles, reach = profiles[reach > 0], reach[reach > 0]
    cost = federation.costs.linear[agent] * profiles[:, agent]
    paid = profiles @ hand.prices(federation, here)[agent]
    return float((1.0 - reach ** -float(federation.payoff.beta) - cost - paid).max())


@pytest.mark.parametrize("instance", ["paper-w2", "paper-w3", "capped"])
def test_no_profile_on_a_grid_beats_the_externality_outcome(instance: str) -> None:
    federation = INSTANCES[instance]
    outcome = MECHANISMS["externality"].solve(federation)
    for agent in range(federation.n_agents):
        assert asked_for(federation, outcome, agent) <= outcome.utilities[agent] + 1e-12


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_externality_gain_bounds_what_a_grid_finds(factor: float) -> None:
    federation = INSTANCES["paper-w2"]
    outcome = spoiled_contributions(MECHANISMS["externality"].solve(federation), 2, factor)
    bound = outcome.rules.deviations(federation, outcome.contributions).utilities
    found = np.array([asked_for(federation, outcome, agent) for agent in range(3)])
    assert (found <= bound + 1e-12).all()
    assert (found - outcome.utilities).max() > outcome.certificates[Claim.NASH].tol, "the violation is real"


def test_a_lone_agent_has_the_gain_it_could_really_have() -> None:
    """With one agent there is nobody to trade with: the best deviation is the standalone optimum."""
    federation = INSTANCES["single"]
    outcome = replace(MECHANISMS["externality"].solve(federation), contributions=np.array([5.0]))
    best = hand.standalone(federation)[0]
    np.testing.assert_allclose(-outcome.certificates[Claim.NASH].margin, best - outcome.utilities[0], atol=GRID_ERROR)


def test_externality_gain_is_no_more_than_a_grid_finds() -> None:
    """Agent 0 contributes a tenth less than at the optimum: somebody gains, and no more than some profile gives it."""
    federation = INSTANCES["paper-w2"]
    outcome = spoiled_contributions(MECHANISMS["externality"].solve(federation), 0, 0.9)
    certificate = outcome.certificates[Claim.NASH]
    found = np.array([asked_for(federation, outcome, agent, points=60) for agent in range(3)]) - outcome.utilities
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.tol < -certificate.margin <= found[certificate.witness["index"]] * 1.01


def test_ties_name_one_of_the_equals() -> None:
    """Twins spoiled alike gain alike; the first is named."""
    outcome = MECHANISMS["voluntary"].solve(INSTANCES["paper-w1"])
    spoiled = replace(outcome, contributions=np.array(outcome.contributions) * 0.5)
    certificate = spoiled.certificates[Claim.NASH]
    gains = gains_by_hand(spoiled.federation, "voluntary", spoiled)
    np.testing.assert_allclose(gains, gains[0], atol=GRID_ERROR)
    np.testing.assert_allclose(-certificate.margin, gains[0], atol=GRID_ERROR)


def test_nothing_to_contribute_is_an_equilibrium_and_contributing_is_not() -> None:
    federation = INSTANCES["useless"]
    for mechanism in MECHANISMS.values():
        outcome = mechanism.solve(federation)
        np.testing.assert_array_equal(outcome.contributions, 0.0)
        contributions = np.array([0.0, 1.0, 0.0])
        payments = outcome.rules.payments(federation.arrays, contributions)
        spoiled = replace(outcome, contributions=contributions, payments=payments)
        certificate = spoiled.certificates[Claim.NASH]
        assert certificate.verdict is Verdict.VIOLATED
        assert certificate.witness["index"] == 1
        assert certificate.witness["deviation"] == 0.0

"""Lies: what a search reports is what they come to, refusal keeps the honest from falling, and the page says it."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.lies import best_lies, lie_study, report_with
from fedpact.negotiation import InProcess
from fedpact.negotiation.agent import Agent, agents_of
from fedpact.negotiation.coordinator import coordinate
from fedpact.solvers.groups import standalone_optimum
from old_hospitals import example, hospitals
from random_cases import cases
from strategies import random_federations

HOSPITALS = hospitals().federation
CLINIC = HOSPITALS.names.index("Clinic")
TRUTH = (1.0, 1.0, 1.0)  # factors on costs, values, and weights of the others


def report(federation: fp.Federation, lies: dict[int, tuple[float, float, float]]) -> fp.Federation:
    """The federation as it looks when some members lie."""
    factors = np.ones((1, federation.n_agents, 3))
    factors[0, list(lies)] = list(lies.values())
    return federation.with_arrays(report_with(federation.arrays, factors).at(0))


def true_utilities(federation: fp.Federation, outcome: fp.Outcome) -> np.ndarray:
    given = outcome.contributions
    return np.asarray(federation.payoffs(given) - federation.costs.value(given) + outcome.payments)


def test_a_report_changes_what_is_lied_about_and_nothing_else() -> None:
    said = report(HOSPITALS, {CLINIC: (2.0, 3.0, -0.5)})
    weights, true = said.weights, HOSPITALS.weights
    others = np.arange(HOSPITALS.n_agents) != CLINIC
    np.testing.assert_array_equal(weights[others], true[others])
    np.testing.assert_array_equal(weights[CLINIC, others], -0.5 * true[CLINIC, others])
    assert weights[CLINIC, CLINIC] == true[CLINIC, CLINIC]
    assert said.values[CLINIC] == 3.0 * HOSPITALS.values[CLINIC]
    np.testing.assert_allclose((said.costs.linear / HOSPITALS.costs.linear)[[0, CLINIC]], [1.0, 2.0], rtol=1e-15)
    assert report(HOSPITALS, {CLINIC: TRUTH}).fingerprint == HOSPITALS.fingerprint


def test_a_lie_of_two_by_hand() -> None:
    """One gives, one draws on it: v / (1 + s) = c with log payoffs and v the reported value of the second.

    Agent 0 has no use for data of its own worth speaking of; agent 1 pays m s, m = v / (1 + s) its reported marginal
    payoff, and truly gets log(1 + s).
    """
    federation = fp.Federation([[1e-7, 0.0], [1.0, 1e-7]], costs=[0.1, 100.0], payoff=fp.Log())

    def utility(value: float) -> float:
        contribution = value / 0.1 - 1
        return float(np.log1p(contribution) - 0.1 * contribution)

    for value in (0.5, 1.0):
        outcome = fp.ExternalityMechanism().solve(report(federation, {1: (1.0, value, 1.0)}))
        assert true_utilities(federation, outcome)[1] == pytest.approx(utility(value), rel=1e-6)
    best = best_lies(federation, "externality", liars=[[1]])
    assert best.gain >= utility(0.5) - utility(1.0) - 1e-9


@pytest.mark.slow
def test_claiming_harm_pays_and_takes_others_below_standing_alone() -> None:
    found = best_lies(HOSPITALS, "externality", liars=[[CLINIC]])
    assert found.factors[0][2] < 0.0 < found.lowest
    # The gain by hand: solved on the report, judged by the truth.
    true = true_utilities(HOSPITALS, fp.ExternalityMechanism().solve(report(HOSPITALS, {CLINIC: found.factors[0]})))
    honest = fp.ExternalityMechanism().solve(HOSPITALS).utilities
    np.testing.assert_allclose(found.gain, (true - honest)[CLINIC], rtol=1e-9)
    alone = standalone_optimum(HOSPITALS)[1]
    np.testing.assert_allclose(found.lowest, np.delete(alone - true, CLINIC).max(), rtol=1e-9)
    refused = best_lies(HOSPITALS, "externality", liars=[[CLINIC]], refusal=True)
    assert refused.lowest == 0.0 < refused.gain < found.gain


def test_a_lie_gains_as_much_and_leaves_others_less_where_joining_costs() -> None:
    dear = HOSPITALS.replace(joining_costs=0.01)
    free, found = (best_lies(each, "externality", liars=[[CLINIC]]) for each in (HOSPITALS, dear))
    np.testing.assert_allclose((found.gain, found.lowest), (free.gain, free.lowest + 0.01), rtol=1e-9)


@pytest.mark.slow
def test_under_vcg_nobody_gains_alone_and_two_do_together() -> None:
    assert best_lies(HOSPITALS, "vcg", liars=[[CLINIC]]).gain == 0.0
    pair = [HOSPITALS.names.index("University"), HOSPITALS.names.index("City")]
    assert best_lies(HOSPITALS, "vcg", together=2, liars=[pair]).gain > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(cases(2, few=1)))
def test_lying_in_a_negotiation_is_lying_to_the_mechanism(seed: int) -> None:
    for federation in random_federations(10 + seed, 6):
        for factors in ((0.5, 1.0, 1.0), (1.0, 0.5, 1.0)):
            said = report(federation, {0: factors})
            lying = Agent.of(said, 0, least_gain=None)
            table = [lying if other.index == 0 else other for other in agents_of(federation, least_gain=None)]
            deal = coordinate(InProcess(table))
            outcome = fp.ExternalityMechanism().solve(said)
            there = federation.payoffs(deal.contributions) - federation.costs.value(deal.contributions) + deal.payments
            np.testing.assert_allclose(
                there, true_utilities(federation, outcome), atol=1e-7 * float(federation.values.max())
            )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_nobody_gains_by_messages_that_fit_a_lie(seed: int) -> None:
    played = 0
    for federation in random_federations(seed, 8):
        try:
            game = fp.MessageGame(federation)
        except fp.InvalidInput:  # somebody's data matters to fewer than three
            continue
        played += 1
        honest, rounding = game.equilibrium_messages(), 1e-9 * float(federation.values.max())
        for factors in ((0.3, 1.0, 1.0), (3.0, 1.0, 1.0), (1.0, 0.3, 1.0), (1.0, 3.0, 1.0)):
            said = fp.MessageGame(report(federation, {0: factors})).equilibrium_messages()
            lied = game.outcome(honest.replace(0, said.proposals[0], said.prices[0]))
            assert lied.utilities[0] <= game.outcome(honest).utilities[0] + rounding
    assert played >= 2


@pytest.mark.slow
def test_a_study_searches_for_lies_of_one_and_of_two_with_and_without_refusal() -> None:
    federation = example("paper-w2").federation.take([0, 2])
    told: list[tuple[int, int]] = []
    found = lie_study(federation, "equal-split", progress=lambda *now: told.append(now))
    assert [(len(lie.agents), lie.refusal) for lie in found] == [(1, False), (1, True), (2, False), (2, True)]
    assert found[2] == best_lies(federation, "equal-split", together=2)
    assert told == [(place, 6) for place in range(6)]  # two members and a pair, twice
    assert found[2].row()["costs"] == " and ".join(f"{factors[0]:.4g}" for factors in found[2].factors)


def test_one_member_has_nobody_to_lie_to() -> None:
    alone = fp.Federation([[1.0]], costs=0.01, payoff=fp.Log())
    assert [(lie.agents, lie.gain) for lie in lie_study(alone)] == [(("agent 0",), 0.0)] * 2
    with pytest.raises(fp.InvalidInput, match="got none of 2 among 1 members"):
        best_lies(alone, "externality", together=2)


def test_where_nobody_reports_anything_there_is_nothing_to_lie_about() -> None:
    with pytest.raises(fp.InvalidInput, match="under standalone nobody reports anything"):
        best_lies(HOSPITALS, "standalone")

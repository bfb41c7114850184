"""The mechanisms of the literature: what they share. Utilities are worked out anew from the payment rules."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.mechanisms import FIELD_MECHANISMS, MECHANISMS
from strategies import random_federations

# An agent chooses its own contribution, and payments or what it gets follow.
OWN_GAME = {
    name: MECHANISMS[name]
    for name in ("equal-split", "proportional", "cost-sharing", "vcg", "leave-one-out", "banzhaf")
} | {"accuracy-shaping": fp.AccuracyShaping(bonus=0.1)}
HARM = fp.Federation(
    [[1.0, -0.02, 0.5], [0.3, 1.0, 0.1], [0.8, -0.01, 1.0]], costs=[0.02, 0.01, 0.03], caps=[20.0, 15.0, 40.0],
    payoff=fp.PowerLaw(0.5), values=[1.0, 2.0, 0.5],
)  # fmt: skip
BENT = fp.Federation(
    [[1.0, 0.4, 0.0], [1.3, 1.0, 0.6], [0.0, 2.0, 1.0]],
    costs=fp.Quadratic([0.01, 0.0, 0.02], [0.001, 0.002, 0.0]),
    caps=[5.0, 30.0, 50.0],
    payoff=fp.Log(),
)
LOTS = fp.Federation(
    [[1.0, 0.5, 0.2], [0.1, 0.3, 1.0], [0.4, -0.05, 0.6]],
    costs=[0.1, 0.05, 0.12],
    caps=9.0,
    payoff=fp.Log(),
    lot_owners=[0, 0, 1],
    task_owners=[0, 1, 1],
)
ONE_LOT = ("proportional", "accuracy-shaping")
CASES = {"harm": HARM, "bent": BENT}


def utility_of(mechanism: fp.Mechanism, federation: fp.Federation, profile: np.ndarray, agent: int) -> float:
    paid, payoffs = (rule(federation.arrays, profile) for rule in (mechanism.payments, mechanism.payoffs))
    return float((payoffs - federation.spending(profile) + paid)[agent])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", OWN_GAME)
def test_no_contribution_on_a_grid_does_better(name: str, case: str) -> None:
    mechanism, federation = OWN_GAME[name], CASES[case]
    outcome = mechanism.solve(federation)
    best = mechanism.deviations(federation, outcome.contributions)
    for agent in range(3):
        for part in np.linspace(0.0, 1.0, 13):
            profile = outcome.contributions.copy()
            profile[agent] = part * federation.caps[agent]
            if federation.admits(profile):
                tried = utility_of(mechanism, federation, profile, agent)
                assert tried <= outcome.utilities[agent] + 1e-9
                assert tried <= best.utilities[agent] + 1e-9


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", OWN_GAME)
def test_a_deviation_that_pays_is_found_with_what_it_brings(name: str, case: str) -> None:
    mechanism, federation = OWN_GAME[name], CASES[case]
    right = mechanism.solve(federation)
    agent = int(np.argmax(right.contributions))
    spoiled = right.contributions.copy()
    spoiled[agent] *= 0.5
    certificate = mechanism.outcome_at(federation, spoiled).certificates["nash"]
    assert certificate.verdict == "violated"
    best = mechanism.deviations(federation, spoiled)
    profile = spoiled.copy()
    profile[agent] = best.actions[agent]
    found = utility_of(mechanism, federation, profile, agent)
    np.testing.assert_allclose(best.utilities[agent], found, rtol=1e-7)  # a bound may add what counts as rounding
    assert found > utility_of(mechanism, federation, spoiled, agent)


@pytest.mark.parametrize("name", FIELD_MECHANISMS)
def test_budget_is_what_somebody_outside_pays(name: str) -> None:
    for federation in random_federations(91, 12, harm=False):
        outcome = MECHANISMS[name].solve(federation)
        np.testing.assert_allclose(outcome.budget, outcome.utilities.sum() - outcome.welfare, atol=1e-12)
        balances = fp.Claim.BUDGET_BALANCE in MECHANISMS[name].claims
        assert not balances or abs(outcome.budget) < 1e-9


@pytest.mark.parametrize("name", FIELD_MECHANISMS)
def test_one_member_is_left_as_it_is(name: str) -> None:
    lonely = fp.Federation([[1.0]], costs=0.01, caps=400.0, payoff=fp.PowerLaw(0.5))
    outcome, alone = MECHANISMS[name].solve(lonely), fp.Standalone().solve(lonely)
    np.testing.assert_allclose(outcome.contributions, alone.contributions, rtol=1e-6)
    np.testing.assert_allclose(outcome.payments, 0.0, atol=1e-12)


@pytest.mark.parametrize("name", FIELD_MECHANISMS)
def test_renaming_members_permutes_the_outcome(name: str) -> None:
    order = [2, 0, 1]
    here, there = (MECHANISMS[name].solve(each) for each in (HARM, HARM.take(order)))
    np.testing.assert_allclose(there.contributions, here.contributions[order], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(there.payments, here.payments[order], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ONE_LOT)
def test_several_lots_are_refused(name: str) -> None:
    with pytest.raises(fp.InvalidInput, match=name):
        MECHANISMS[name].solve(LOTS)


@pytest.mark.parametrize("name", [name for name in FIELD_MECHANISMS if name not in ONE_LOT])
def test_no_other_amounts_of_ones_lots_do_better(name: str) -> None:
    mechanism, rng = MECHANISMS[name], np.random.default_rng(3)
    outcome = mechanism.solve(LOTS)
    assert all(outcome.certificates[claim].holds for claim in mechanism.promises(LOTS))
    for agent in range(2 if name in OWN_GAME else 0):
        own = LOTS.lots_of(agent)
        for _ in range(20):
            tried = outcome.contributions.copy()
            tried[own] = rng.uniform(0.0, 1.0, own.size) * LOTS.caps[own]
            assert utility_of(mechanism, LOTS, tried, agent) <= outcome.utilities[agent] + 1e-9


@pytest.mark.parametrize("name", FIELD_MECHANISMS)
def test_a_batch_is_solved_as_each_alone(name: str) -> None:
    federations = [
        fp.Federation(weights, costs=0.002, caps=[5.0, 90.0, np.inf], payoff=fp.PowerLaw(0.3))
        for weights in np.random.default_rng(405).uniform(0.0, 2.0, (4, 3, 3))
    ]
    together = fp.solve_batch(federations, name)
    for place, federation in enumerate(federations):
        alone = MECHANISMS[name].solve(federation)
        for field in ("contributions", "payoffs", "payments"):
            found, expected = getattr(together, field)[place], getattr(alone, field)
            rtol = 1e-10 if name == "accuracy-shaping" else 1e-6
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12, err_msg=field)
    assert together[0].certificates["nash"].holds


def test_the_nucleolus_is_refused_of_more_members_than_groups_can_be_searched() -> None:
    many = fp.Federation(np.eye(17), costs=0.01, caps=5.0, payoff=fp.Log())
    with pytest.raises(fp.InvalidInput, match="federation must have at most 16 members for the mechanism nucleolus"):
        fp.Nucleolus().solve(many)

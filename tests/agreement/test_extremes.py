"""A small sample of `make test-extremes`, and its machinery: what hangs or dies is counted, and the rest goes on."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fedpact as fp
from extremes.evaluator import Evaluator, evaluate
from extremes.exact import ExactFederation, decimals, price_payments, shapley_gains, welfare_gap
from extremes.extended import shapley_integral
from extremes.federations import FAMILIES, GROUP, draw_group
from extremes.no_equilibrium import is_refuted
from extremes.trials import BAD, CRASHED, FLAGGED, HUNG, RIGHT, WRONG, Trial, check, mechanisms_for
from random_cases import ALL_CASES, cases, some

pytestmark = pytest.mark.slow

MAX_SAMPLE_AGENTS = 12 if ALL_CASES else 4


@pytest.mark.parametrize("family", some(FAMILIES, 2))
def test_nothing_is_wrong_or_crashes(family: str) -> None:
    groups = (draw_group(2, number) for number in range(1000))
    fitting = (group for group in groups if group[0].payoff.family == family and group[0].n_agents <= MAX_SAMPLE_AGENTS)
    for _ in range(cases(16, few=1)):
        group = next(fitting)
        told = [entry["trial"] for entry in evaluate(group) if "trial" in entry]
        assert len(told) == 2 * len(group) * len(mechanisms_for(group[0]))
        assert [trial for trial in told if trial["verdict"] in BAD] == []


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 33), (1, 189), (1, 386), (301, 21), (301, 53), (301, 137), (501, 2), (501, 125)]
)
def test_who_has_little_at_stake_is_certified_too(seed: int, number: int) -> None:
    """Welfare optima whose certificate asks for digits of single agents that the total does not see."""
    federation = draw_group(seed, number // GROUP)[number % GROUP]
    outcome = fp.ExternalityMechanism().solve(federation)
    assert all(outcome.certificates[claim].holds for claim in fp.ExternalityMechanism().promises(federation))


@pytest.mark.parametrize("number", [21, 133, 137])
def test_who_has_next_to_nothing_at_stake_has_its_best_answer(number: int) -> None:
    """Shapley equilibria with agents who belong at zero, and whose whole stake is rounding to the maximiser."""
    outcome = fp.ShapleyMechanism().solve(draw_group(301, number // GROUP)[number % GROUP])
    assert outcome.certificates["nash"].holds
    assert (outcome.contributions == 0.0).any()


def test_rounding_is_no_group_that_leaves() -> None:
    """Stakes from 1e-19 to 1e4: nobody harms, so no group gains by leaving, as the theorem says."""
    outcome = fp.ExternalityMechanism().solve(draw_group(203, 83 // GROUP)[83 % GROUP])
    assert not outcome.federation.has_harm
    assert outcome.certificates["core"].holds


def test_that_there_is_no_equilibrium_is_proved_where_first_samples_cost_nothing() -> None:
    federation = draw_group(301, 323 // GROUP)[323 % GROUP]
    assert (federation.costs.linear == 0.0).any()
    with pytest.raises(fp.NoEquilibrium) as raised:
        fp.Voluntary().solve(federation)
    assert is_refuted(ExactFederation(federation), raised.value.proof)


@pytest.mark.parametrize(("seed", "number"), [(301, 395), (501, 176)])
def test_bounds_that_one_inequality_proves_spare_cases(seed: int, number: int) -> None:
    """Proofs that thousands of linear programs did not find: most agents' bounds follow from a row of weights each."""
    federation = draw_group(seed, number // GROUP)[number % GROUP]
    with pytest.raises(fp.NoEquilibrium) as raised:
        fp.Voluntary().solve(federation)
    assert is_refuted(ExactFederation(federation), raised.value.proof)


@pytest.mark.parametrize(("seed", "number"), [(301, 31), (301, 117), (501, 176)])
def test_an_equilibrium_as_good_as_at_the_edge_of_the_domain_is_certified(seed: int, number: int) -> None:
    """From 26 to 37 agents, some harmed up to 1e-13 of all they can bear, with stakes over twelve orders."""
    federation = draw_group(seed, number // GROUP)[number % GROUP]
    outcome = fp.ShapleyMechanism().solve(federation)
    distances = 1.0 - federation.lowest_data(outcome.contributions) / federation.payoff.floor
    assert distances.min() < 1e-6
    assert all(outcome.certificates[claim].holds for claim in fp.ShapleyMechanism().promises(federation))


@pytest.mark.parametrize(("seed", "number"), [(301, 364), (501, 263)])
def test_an_optimum_between_two_floats_is_found(seed: int, number: int) -> None:
    """Where one unit in the last place turns the slope of welfare by more than the solver tolerates."""
    federation = draw_group(seed, number // GROUP)[number % GROUP]
    outcome = fp.ExternalityMechanism().solve(federation)
    assert outcome.certificates["nash"].holds
    assert outcome.certificates["social-optimality"].holds


def test_a_group_follows_from_its_seed_and_number() -> None:
    assert draw_group(3, 5) == draw_group(3, 5)
    assert draw_group(3, 5) != draw_group(4, 5)


# Works on the second step of three for ever, unless told to skip it; on another request it ends by itself.
ENDLESS = """
import json, signal, sys
for line in sys.stdin:
    request = json.loads(line)
    for row in ("a", "b", "c"):
        if [row, 0] in request["skip"]:
            continue
        print(json.dumps({"begins": {"row": row, "places": [0]}}), flush=True)
        if row == "b" and request["group"] == 0:
            signal.setitimer(signal.ITIMER_PROF, 0.01)
            while True:
                pass
        if row == "b":
            sys.exit(3)
        print(json.dumps({"trial": {"place": 0, "row": row, "verdict": "right"}}), flush=True)
    print(json.dumps({"done": True}), flush=True)
"""


@pytest.mark.parametrize(("group", "verdict"), [(0, HUNG), (1, CRASHED)])
def test_what_hangs_or_dies_is_counted_and_the_rest_goes_on(group: int, verdict: str) -> None:
    evaluator = Evaluator([sys.executable, "-c", ENDLESS])
    found = {trial.row: trial.verdict for trial in evaluator.evaluate(1, group)}
    evaluator.close()
    assert found == {"a": RIGHT, "b": verdict, "c": RIGHT}


# The routes themselves, on a federation whose answers are known (W2 of the paper's Table 1).

TABLE_1 = fp.Federation(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02)
)


def test_the_exact_optimum_is_the_known_one() -> None:
    least, most, optimum = welfare_gap(ExactFederation(TABLE_1), [10.0, 10.0, 10.0], 0.0)
    np.testing.assert_allclose(np.array(optimum, dtype=float), [16.8967, 6.1563, 31.2144], atol=5e-5)
    assert 0 < least <= most <= least * (1 + 1e-12)
    np.testing.assert_allclose(sum(price_payments(ExactFederation(TABLE_1), optimum)), 0.0, atol=1e-15)


def test_coalitions_and_the_extended_integral_agree() -> None:
    for family in FAMILIES:
        federation = next(
            group[0]
            for group in (draw_group(5, number) for number in range(1000))
            if group[0].payoff.family == family and 2 <= group[0].n_agents <= 4 and not group[0].has_harm
        )
        profile = np.linspace(0.5, 2.0, federation.n_agents)
        federation = federation.replace(caps=3.0)
        values, _ = shapley_gains(ExactFederation(federation), profile, np.full(federation.n_agents, np.inf))
        integral, _ = shapley_integral(federation, profile)
        np.testing.assert_allclose(integral.astype(float), values, rtol=1e-11, atol=1e-13 * np.abs(values).max())


@pytest.mark.parametrize(
    "mechanism", [fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone()]
)
def test_what_is_spoiled_is_wrong(mechanism: fp.Mechanism) -> None:
    """Off by a thousandth, nothing is right by the other routes."""
    outcome, exact = mechanism.solve(TABLE_1), ExactFederation(TABLE_1)
    trial = Trial(place=0, row=mechanism.name, verdict=RIGHT)
    assert check(trial, outcome, exact).checked
    spoiled = mechanism.outcome_at(TABLE_1, outcome.contributions * [1.0, 1.0, 1.01])
    assert check(trial, spoiled, exact).verdict == WRONG
    if mechanism.has_payments:
        paid = outcome.payments + 1e-5 * np.array([1.0, -1.0, 0.0])
        assert check(trial, mechanism.outcome_at(TABLE_1, outcome.contributions, paid), exact).verdict in {
            WRONG,
            FLAGGED,
        }


def test_decimals_keep_every_digit() -> None:
    assert [float(each) for each in decimals([0.1, 1e300], 2)] == [0.1, 1e300]

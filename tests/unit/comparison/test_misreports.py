"""What a member gains by misreporting, against solving for the lie by hand."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison.lies import FACTORS, misreporting_gains

WEIGHTS = [[1.0, 0.5, 0.2], [0.3, 1.0, 0.8], [0.6, 0.1, 1.0]]


@pytest.fixture
def federation() -> fp.Federation:
    costs = fp.Quadratic([0.004, 0.003, 0.006], [1e-6, 0.0, 2e-6])
    return fp.Federation(WEIGHTS, costs=costs, caps=500.0, payoff=fp.PowerLaw(0.5), values=[1.0, 2.0, 0.7])


def best_lie(federation: fp.Federation, mechanism: fp.Mechanism, liar: int) -> float:
    """The liar's utility with its true payoff and cost, at the best of the deals that follow its reports."""
    found = []
    for factor in FACTORS:
        costs, values = np.ones(3), np.ones(3)
        costs[liar], values[liar] = factor, factor
        dear = fp.Quadratic(federation.costs.linear * costs, federation.costs.quadratic * costs)
        for report in (federation.replace(costs=dear), federation.replace(values=federation.values * values)):
            outcome = mechanism.solve(report)
            scale = report.values[liar] / federation.values[liar]
            spent = federation.costs.value(outcome.contributions)[liar]
            found.append(outcome.payoffs[liar] / scale - spent + outcome.payments[liar])
    return max(found)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [fp.ExternalityMechanism(), fp.AccuracyShaping()])
def test_gains_are_those_of_the_best_lie_solved_by_itself(federation: fp.Federation, mechanism: fp.Mechanism) -> None:
    outcome = mechanism.solve(federation)
    gains = misreporting_gains(outcome, mechanism)
    assert list(gains) == list(federation.names)
    expected = [best_lie(federation, mechanism, liar) - outcome.utilities[liar] for liar in range(3)]
    np.testing.assert_allclose(list(gains.values()), expected, atol=1e-7)


def test_what_joining_costs_is_paid_by_liars_and_honest_members_alike(federation: fp.Federation) -> None:
    rules = fp.ExternalityMechanism()
    free, dear = (
        misreporting_gains(rules.solve(each), rules) for each in (federation, federation.replace(joining_costs=0.3))
    )
    np.testing.assert_allclose(list(dear.values()), list(free.values()), atol=1e-9)


def test_lying_brings_nothing_where_everybody_trains_alone(federation: fp.Federation) -> None:
    gains = misreporting_gains(fp.Standalone().solve(federation), fp.Standalone())
    assert max(gains.values()) < 0.0


def test_it_is_not_known_where_no_lie_has_an_outcome(federation: fp.Federation) -> None:
    class Fickle(fp.Voluntary):
        name = "fickle"

        def solve(self, federation: fp.Federation) -> fp.Outcome:
            raise fp.NotConverged("no outcome")

    gains = misreporting_gains(fp.Voluntary().solve(federation), Fickle())
    assert np.isnan(list(gains.values())).all()

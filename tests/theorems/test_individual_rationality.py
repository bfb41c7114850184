"""Theorems 2 and 3 and Proposition 1, solved from scratch: who does at least as well as alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.random_instances import homogeneous_shapley, welfare_optimum
from fedpact.paper.theorems import draw_equals, values_others_as_self
from theorems.claims import many

ROUNDING = 1e-9


def test_theorem_2_equal_agents_stay_under_shapley() -> None:
    for instance in many(homogeneous_shapley, seed=1, count=15):
        assert fp.ShapleyMechanism().solve(instance.federation).leavers == ()


def test_theorem_2_needs_no_interior_standalone_optimum() -> None:
    """Data so dear that nobody alone would gather any, yet worth it together; and caps that bind."""
    for cost, cap in ((0.15, 50.0), (0.01, 2.0), (0.5, 50.0)):
        federation = fp.Federation(np.ones((4, 4)), costs=cost, caps=cap, payoff=fp.PowerLaw(beta=0.1))
        assert (fp.ShapleyMechanism().solve(federation).ir_gaps >= -ROUNDING).all()


def test_theorem_2_needs_no_equal_costs_or_caps() -> None:
    rng = np.random.default_rng(2)
    for _ in range(15):
        costs, caps = np.exp(rng.uniform(-7.0, -2.0, 5)), np.exp(rng.uniform(0.0, 5.0, 5))
        federation = fp.Federation(np.ones((5, 5)), costs=costs, caps=caps, payoff=fp.PowerLaw(beta=0.3))
        assert fp.ShapleyMechanism().solve(federation).leavers == ()


def test_theorem_2_needs_data_as_useful_to_others() -> None:
    """Equal agents may all leave as soon as they value each other's data less than their own."""
    lost = {False: 0, True: 0}
    for instance in many(draw_equals, seed=3, count=60):
        outcome = fp.ShapleyMechanism().outcome_at(instance.federation, instance.contributions)
        assert len(outcome.leavers) in (0, instance.federation.n_agents)
        lost[values_others_as_self(instance)] += bool(outcome.leavers)
    assert lost[True] == 0
    assert lost[False] >= 5


def test_theorem_3_everybody_stays_when_nobody_harms() -> None:
    for instance in many(partial(welfare_optimum, edges=True, wide=True), seed=4, count=25):
        outcome = fp.ExternalityMechanism().solve(instance.federation)
        assert outcome.certificates["individual-rationality"].verdict == "holds"
        assert outcome.leavers == ()


def test_theorem_3_does_not_extend_to_shapley() -> None:
    """Among such federations, with weights that never harm, Shapley loses somebody in some."""
    drawn = many(partial(welfare_optimum, alone=True), seed=5, count=10)
    assert any(fp.ShapleyMechanism().solve(instance.federation).leavers for instance in drawn)


@pytest.mark.slow
def test_proposition_1_whoever_harms_on_net_would_leave_and_nobody_else() -> None:
    signs = []
    for instance in many(partial(welfare_optimum, harm=True, alone=True), seed=6, count=40):
        outcome = fp.ExternalityMechanism().solve(instance.federation)
        applies = instance.federation.reach(outcome.contributions) >= 1.0
        clear = np.abs(outcome.ir_gaps) > outcome.tolerances.sum()
        for agent in np.flatnonzero(applies & clear):
            harms = bool(outcome.net_externality[agent] < 0)
            assert (outcome.agents[agent] in outcome.leavers) == harms
            signs.append(harms)
    assert min(signs.count(True), signs.count(False)) >= 15, "both signs were met often"


def test_proposition_1_zero_crossing_of_figure_5() -> None:
    """Agent 0's gap has the sign of its outgoing weight, whatever reaches it from the others."""
    for incoming in (-0.1, 0.0, 0.1):
        for outgoing in (-0.6, -0.1, 0.0, 0.05):
            weights = np.ones((4, 4))
            weights[1:, 0], weights[0, 1:] = outgoing, incoming
            federation = fp.Federation(weights, costs=[0.1, 0.3, 0.3, 0.3], caps=3.0, payoff=fp.PowerLaw(beta=0.5))
            gap = fp.ExternalityMechanism().solve(federation).ir_gaps[0]
            np.testing.assert_equal(np.sign(np.round(gap, 9)), np.sign(outgoing))


@pytest.mark.slow
def test_the_gap_is_the_gain_from_more_data_plus_what_others_owe() -> None:
    """Delta_i = [g(y) + g'(y) (x - y) - g(x)] + T_i x, x what i would gather alone: the bracket is never negative."""
    for instance in many(partial(welfare_optimum, harm=True, alone=True), seed=7, count=200):
        outcome = fp.ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
        alone = fp.Standalone().solve(instance.federation)
        data, slopes = instance.federation.data(outcome.contributions), outcome.federation.marginal_payoffs
        tangent = outcome.payoffs + slopes(outcome.contributions) * (alone.contributions - data)
        bracket = tangent - alone.payoffs
        assert (bracket >= -1e-13).all()
        np.testing.assert_allclose(outcome.ir_gaps, bracket + outcome.net_externality * alone.contributions, atol=1e-12)

"""Theorems 2 and 3 and Proposition 1: who does at least as well as alone."""

from __future__ import annotations

import numpy as np

import fedpact as fp
from fedpact.programs.own import standalone_optimum
from fedpact.properties.certify import tolerance
from theorems.instances import homogeneous, interior_optima

ROUNDING = 1e-9


def interior_alone(federation: fp.Federation) -> np.ndarray:
    alone, _ = standalone_optimum(federation)
    return (alone > 0) & (alone < federation.caps)


def test_theorem_2_equal_agents_stay_under_shapley() -> None:
    for federation in homogeneous(seed=4, count=25):
        assert (fp.ShapleyMechanism().solve(federation).ir_gaps >= -ROUNDING).all()


def test_theorem_2_needs_no_interior_standalone_optimum() -> None:
    """Data so dear that nobody alone would gather any, yet worth it together; and caps that bind."""
    for cost, cap in ((0.15, 50.0), (0.01, 2.0), (0.5, 50.0)):
        federation = fp.Federation(np.ones((4, 4)), costs=cost, caps=cap, payoff=fp.PowerLaw(beta=0.1))
        assert (fp.ShapleyMechanism().solve(federation).ir_gaps >= -ROUNDING).all()


def test_theorem_3_everybody_stays_when_nobody_harms() -> None:
    for federation, optimum in interior_optima(seed=5, count=40):
        outcome = fp.ExternalityMechanism().solve(federation)
        np.testing.assert_allclose(federation.data(outcome.contributions), federation.data(optimum), rtol=1e-6)
        inside = interior_alone(federation)
        assert (outcome.ir_gaps[inside] >= -ROUNDING).all()
        if inside.all():
            assert outcome.certificates["individual-rationality"].verdict == "holds"
            assert outcome.leavers == ()


def test_theorem_3_does_not_extend_to_shapley() -> None:
    """Among the same federations, with weights that never harm, Shapley loses somebody in some."""
    lost = [
        bool(fp.ShapleyMechanism().solve(federation).leavers) for federation, _ in interior_optima(seed=5, count=12)
    ]
    assert any(lost)


def test_proposition_1_whoever_harms_on_net_would_leave_and_nobody_else() -> None:
    signs = []
    for federation, optimum in interior_optima(seed=6, count=60, harm=True):
        outcome = fp.ExternalityMechanism().solve(federation)
        np.testing.assert_allclose(federation.data(outcome.contributions), federation.data(optimum), rtol=1e-6)
        applies = interior_alone(federation) & (federation.reach(outcome.contributions) >= 1.0)
        clear = np.abs(outcome.net_externality) > ROUNDING
        for agent in np.flatnonzero(applies & clear):
            harms = bool(outcome.net_externality[agent] < 0)
            assert (outcome.ir_gaps[agent] < 0) == harms
            if abs(outcome.ir_gaps[agent]) > tolerance(outcome):
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

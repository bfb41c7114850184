"""Mechanisms on measured payoffs, where the payoffs are a formula: they find what the solvers find."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.paper.measured_game import MeasuredGame
from fedpact.paper.measured_mechanisms import (
    best_responses,
    grid_search,
    leaving,
    standing_alone,
    surface_search,
)
from unit.paper.measured.formula import Formula


def federation(costs: float = 0.004) -> fp.Federation:
    """Accuracy curves like those of small networks."""
    weights = np.array([[0.03, 0.012, 0.02], [0.01, 0.035, 0.015], [0.02, 0.02, 0.03]])
    return fp.Federation(weights, costs=costs, caps=320.0, payoff=fp.PowerLaw(0.7), values=0.9)


def test_best_responses_come_to_rest_at_the_shapley_equilibrium() -> None:
    fed = federation()
    found = best_responses(MeasuredGame(Formula(fed)), 0.004, step=8000.0, perturbation=2, threshold=0.4, rounds=300)
    assert found.stable
    expected = fp.ShapleyMechanism().solve(fed).contributions
    np.testing.assert_allclose(found.contributions[-1], expected, atol=4.0)  # whole samples, differences over two


def test_best_responses_follow_the_paper_s_rule() -> None:
    fed = federation()
    found = best_responses(MeasuredGame(Formula(fed)), 0.004, rounds=6, threshold=1e-9)
    assert not found.stable
    assert found.models <= 19 * 6
    for here, slope, after in zip(found.contributions, found.derivatives, found.contributions[1:], strict=False):
        np.testing.assert_allclose(after, np.clip(here + 1000.0 * (slope - 0.004), 0.0, 320.0))
        used = np.rint(here)
        for agent in range(3):
            more = used + 10.0 * (np.arange(3) == agent)
            rise = fp.shapley_values(fed, more).values[agent] - fp.shapley_values(fed, used).values[agent]
            np.testing.assert_allclose(slope[agent], rise / 10.0, atol=1e-12)


def test_at_rest_after_three_quiet_rounds_and_the_schedule_goes_on() -> None:
    found = best_responses(MeasuredGame(Formula(federation())), 0.004, threshold=1e9, rounds=50)
    assert found.stable and len(found.derivatives) == 3
    schedule = found.schedule(7)
    assert schedule.shape == (7, 3)
    np.testing.assert_array_equal(schedule[3:], np.tile(np.rint(found.contributions[3]), (4, 1)))


def test_who_has_nothing_more_is_measured_backwards_and_nothing_stays_nothing() -> None:
    fed = federation(costs=1e-9)
    found = best_responses(MeasuredGame(Formula(fed)), 0.0, start=320.0, rounds=2, threshold=0.0)
    assert (found.derivatives > 0).all()
    np.testing.assert_array_equal(found.contributions[-1], 320.0)
    dear = best_responses(MeasuredGame(Formula(fed)), 100.0, start=5.0, rounds=4, threshold=0.0)
    np.testing.assert_array_equal(dear.contributions[-1], 0.0)


def test_the_grid_has_the_best_of_its_profiles() -> None:
    fed = federation()
    found = grid_search(MeasuredGame(Formula(fed)), 0.004, centre=60.0, reach=40, step=20)
    axis = np.array([20.0, 40.0, 60.0, 80.0, 100.0])
    profiles = np.array(np.meshgrid(axis, axis, axis)).reshape(3, -1).T
    best = max(profiles, key=fed.welfare)
    np.testing.assert_array_equal(found.contributions, best)
    assert found.welfare == pytest.approx(fed.welfare(best))
    assert found.tried == 125


def test_a_grid_says_when_its_best_is_on_its_edge() -> None:
    game = MeasuredGame(Formula(federation()))
    assert grid_search(game, 0.004, centre=250.0, reach=40, step=20).on_edge
    assert grid_search(game, 10.0, centre=20.0, reach=40, step=20).on_edge is False  # nothing lies below zero
    assert grid_search(game, 1e-9, centre=320.0, reach=40, step=20).on_edge is False  # nobody holds more


@pytest.mark.slow
@pytest.mark.parametrize(("noisy", "lost"), [(False, 0.01), (True, 0.05)])
def test_a_surface_finds_the_optimum_from_few_models(noisy: bool, lost: float) -> None:
    fed = federation()
    game = MeasuredGame(Formula(fed, test_size=1000 if noisy else 10**6, noisy=noisy))
    found = surface_search(game, 0.004)
    best = fp.social_optimum(fed).welfare
    assert fed.welfare(found.contributions) >= best - lost * abs(best)
    assert game.trained == found.trained <= 70
    assert abs(found.payments.sum()) <= 1e-12
    if not noisy:
        expected = fp.ExternalityMechanism().solve(fed)
        np.testing.assert_allclose(found.payments, expected.payments, atol=0.02)


def test_standing_alone_is_the_best_of_each_curve() -> None:
    fed = federation()
    found = standing_alone(MeasuredGame(Formula(fed)), 0.004)
    expected = fp.ExternalityMechanism().solve(fed).standalone
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_array_equal(standing_alone(MeasuredGame(Formula(fed)), 100.0), 0.0)


def test_welfare_without_leavers() -> None:
    fed = federation()
    game = MeasuredGame(Formula(fed))
    alone = standing_alone(game, 0.004)
    schedule = np.tile([40, 50, 60], (3, 1))
    utilities = np.array([alone + 1.0, alone + np.array([1.0, -1.0, 1.0]), alone - 1.0])
    found = leaving(game, 0.004, schedule, utilities, alone)
    assert found.leaves.tolist() == [[False] * 3, [False, True, False], [True] * 3]
    whole = fed.payoffs(np.array([40.0, 50.0, 60.0])) - 0.004 * schedule[0]
    np.testing.assert_allclose(found.everybody, whole.sum(), atol=1e-12)
    rest = fed.payoffs(np.array([40.0, 0.0, 60.0])) - 0.004 * schedule[0]
    expected = [whole.sum(), rest[0] + alone[1] + rest[2], alone.sum()]
    np.testing.assert_allclose(found.without, expected, atol=1e-12)

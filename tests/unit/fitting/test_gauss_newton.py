"""The solver against independent ways: finite differences, dense linear algebra, and the limits it must respect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpact.fitting.accuracy_curves import CURVE_FAMILIES
from fedpact.fitting.gauss_newton import WeightedRuns, evaluate, information, minimise, solve_scaled
from fedpact.fitting.parameters import FitRules, Parameters
from fedpact.fitting.posterior import Posterior
from fedpact.utils.errors import NotConverged
from unit.fitting.planted import planted

STEP = 1e-6
DERIVATIVES = 1e-6  # central differences of smooth functions of order one
N_AGENTS = 3


def make_rules(family: str = "power-law", **changes) -> FitRules:
    base = {
        "curve": CURVE_FAMILIES[family],
        "shared": np.array([True, False, True]),
        "known": np.array([not CURVE_FAMILIES[family].has_shape, False, False]),
        "free_ratios": ~np.eye(N_AGENTS, dtype=bool),
        "signed": False,
        "prior": 1.0,
        "scale_mean": -3.0,
    }
    return FitRules(**base | changes)


def data(seed: int = 0) -> WeightedRuns:
    log = planted(seed, n_agents=N_AGENTS, n_runs=25)
    precisions = np.random.default_rng(seed).uniform(1e3, 1e4, log.accuracies.shape)
    precisions[::4, 1] = 0.0  # not measured
    return WeightedRuns(contributions=log.contributions, accuracies=log.accuracies, precisions=precisions)


def point() -> Parameters:
    rng = np.random.default_rng(1)
    ratios = rng.uniform(0.3, 1.5, (N_AGENTS, N_AGENTS))
    np.fill_diagonal(ratios, 1.0)
    curves = np.column_stack([np.full(N_AGENTS, np.log(0.5)), [0.05, 0.1, 0.2], np.full(N_AGENTS, 0.9)])
    return Parameters(scales=np.array([-3.0, -3.5, -2.5]), ratios=ratios, curves=curves)


def slots():
    """Every slot as a unit step: local and shared."""
    for place in np.ndindex(N_AGENTS, N_AGENTS + 4):
        local = np.zeros((N_AGENTS, N_AGENTS + 4))
        local[place] = 1.0
        yield local, np.zeros(3)
    for part in range(3):
        yield np.zeros((N_AGENTS, N_AGENTS + 4)), np.eye(3)[part]


def dense(arrow, n_agents: int = N_AGENTS) -> np.ndarray:
    """The arrow as one matrix, slots of the agents first."""
    n_slots = arrow.blocks.shape[1]
    matrix = np.zeros((n_agents * n_slots + 3,) * 2)
    for agent in range(n_agents):
        own = slice(agent * n_slots, (agent + 1) * n_slots)
        matrix[own, own] = arrow.blocks[agent]
        matrix[own, -3:] = arrow.border[agent]
        matrix[-3:, own] = arrow.border[agent].T
    matrix[-3:, -3:] = arrow.corner
    return matrix


@pytest.mark.parametrize("family", list(CURVE_FAMILIES))
def test_the_gradient_is_that_of_the_misfit(family: str) -> None:
    rules, seen = make_rules(family), data()
    found = evaluate(seen, rules, point())
    arrow = information(seen, found)
    gradient = np.concatenate([arrow.local.ravel(), arrow.shared])
    for place, (local, shared) in enumerate(slots()):
        if not CURVE_FAMILIES[family].has_shape and (local[:, -3].any() or shared[0]):
            continue
        ends = [evaluate(seen, rules, point().moved(sign * STEP * local, sign * STEP * shared)) for sign in (1.0, -1.0)]
        misfits = [end.objective - rules.penalty(end.point) for end in ends]
        expected = (misfits[0] - misfits[1]) / (2.0 * STEP)
        np.testing.assert_allclose(gradient[place], expected, rtol=DERIVATIVES, atol=1e-3)


def test_the_step_is_that_of_the_dense_system() -> None:
    rules = make_rules()
    arrow = information(data(), evaluate(data(), rules, point())).with_prior(*rules.precisions())
    arrow = arrow.restricted(rules.free_local, rules.free_shared)
    gradient = np.concatenate([arrow.local.ravel(), arrow.shared])
    local, shared = arrow.step()
    expected = -np.linalg.solve(dense(arrow), gradient)
    np.testing.assert_allclose(np.concatenate([local.ravel(), shared]), expected, rtol=1e-8, atol=1e-12)


def test_the_spread_is_the_inverse_of_the_dense_information() -> None:
    rules = make_rules()
    gathered = information(data(), evaluate(data(), rules, point()))
    posterior = Posterior(point=point(), rules=rules, gathered=gathered)
    arrow = gathered.with_prior(*rules.precisions()).restricted(rules.free_local, rules.free_shared)
    free = np.concatenate([rules.free_local.ravel(), rules.free_shared])
    expected = np.where(np.outer(free, free), np.linalg.inv(dense(arrow)), 0.0)
    n_slots = N_AGENTS + 4
    for agent in range(N_AGENTS):
        places = np.r_[agent * n_slots : (agent + 1) * n_slots, -3:0]
        np.testing.assert_allclose(posterior.joint[agent], expected[np.ix_(places, places)], rtol=1e-6, atol=1e-12)
    local, shared = posterior.steps(np.eye(free.size))
    factor = np.hstack([local.reshape(free.size, -1), shared])
    np.testing.assert_allclose(factor.T @ factor, expected, rtol=1e-6, atol=1e-10)


def test_it_ends_at_a_point_where_nothing_pulls() -> None:
    rules, seen = make_rules(), data()
    found = minimise(seen, rules, point())
    arrow, precisions, apart = information(seen, found), rules.precisions(), rules.deviations(found.point)
    pull = arrow.local + precisions[0] * apart[0]
    pushes, _ = rules.pushes(found.point)
    pull = np.where(rules.free_local & ~(pushes * pull < 0), pull, 0.0)
    stiffness = np.sqrt(np.diagonal(arrow.blocks, axis1=1, axis2=2) + 1.0)
    assert np.abs(pull / stiffness).max() < 1e-3  # standard errors


def test_limits_hold_and_signs_are_free_where_asked() -> None:
    log = planted(3, n_agents=N_AGENTS, n_runs=40)
    weights = log.weights.copy()
    weights[0, 1] = -0.2 * weights[0, 0]
    given = log.contributions * np.array([1.0, 0.2, 1.0]) + np.array([200.0, 0.0, 0.0])
    exact = 0.1 + 0.8 * (1.0 - (1.0 + given @ weights.T) ** -0.6)
    seen = WeightedRuns(contributions=given, accuracies=exact, precisions=np.full(exact.shape, 1e4))
    start = replace(point(), ratios=np.ones((N_AGENTS, N_AGENTS)))
    assert minimise(seen, make_rules(), start).point.ratios.min() >= 0.0
    found = minimise(seen, make_rules(signed=True, prior=0.0), start).point
    np.testing.assert_allclose(found.ratios[0, 1], -0.2, atol=0.05)


def test_running_out_of_steps_is_loud_and_keeps_the_best() -> None:
    with pytest.raises(NotConverged, match="did not settle within 2 steps") as caught:
        minimise(data(), make_rules(), point(), max_steps=2)
    assert caught.value.result.objective < evaluate(data(), make_rules(), point()).objective


def test_a_start_outside_the_domain_is_loud() -> None:
    outside = replace(point(), ratios=np.full((N_AGENTS, N_AGENTS), -5.0) + 6.0 * np.eye(N_AGENTS))
    with pytest.raises(NotConverged, match="leaves the domain"):
        minimise(data(), make_rules(signed=True), outside)


def test_systems_of_any_scale_and_singular_ones_are_solved() -> None:
    scales = np.array([1e-80, 1.0, 1e60])
    mixed = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
    right = np.array([[1.0], [2.0], [3.0]])
    found = solve_scaled(mixed * np.outer(scales, scales), right * scales[:, None])
    np.testing.assert_allclose(found * scales[:, None], np.linalg.solve(mixed, right), rtol=1e-9, atol=1e-9)
    assert np.isfinite(solve_scaled(np.ones((2, 3, 3)), np.ones((2, 3, 1)))).all()

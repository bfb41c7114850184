"""The nearest point under linear constraints: by its optimality conditions, and by a solver that works another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from fedpact.programs.projection import VIOLATION_TOLERANCE, Projection, nearest_point
from fedpact.utils.errors import NotConverged
from random_cases import cases

SIZE, ROWS = 5, 12


def constraints(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A target, rows and limits that some point with the sum keeps, and the sum."""
    rng = np.random.default_rng(seed)
    target, inside = rng.normal(size=(2, SIZE))
    rows = rng.normal(size=(ROWS, SIZE))
    return target, rows, rows @ inside - rng.exponential(0.3, ROWS), float(inside.sum())


@pytest.mark.parametrize("seed", range(cases(67)))
def test_the_way_from_the_target_is_made_of_what_binds(seed):
    target, rows, limits, total = constraints(seed)
    found = nearest_point(target, rows, limits, total)
    assert found is not None
    np.testing.assert_allclose(found.sum(), total, atol=1e-12)
    room = rows @ found - limits
    assert room.min() >= -VIOLATION_TOLERANCE
    # x - target = multipliers @ binding rows + any multiple of ones, the multipliers not below zero.
    ones = np.ones((SIZE, 1))
    _, left = nnls(np.hstack([rows[room < 1e-10].T, ones, -ones]), found - target)
    assert left < 1e-10


@pytest.mark.parametrize("seed", range(cases(13)))
def test_another_solver_comes_no_closer(seed):
    target, rows, limits, total = constraints(seed)
    found = nearest_point(target, rows, limits, total)
    other = minimize(
        lambda x: ((x - target) ** 2).sum(),
        found + 0.01,
        jac=lambda x: 2.0 * (x - target),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: rows @ x - limits, "jac": lambda x: rows},
            {"type": "eq", "fun": lambda x: x.sum() - total, "jac": lambda x: np.ones(SIZE)},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(other.x, found, atol=1e-6)  # what SLSQP reaches


@pytest.mark.parametrize("seed", range(cases(13)))
def test_constraints_may_become_known_on_the_way(seed):
    target, rows, limits, total = constraints(seed)
    way = Projection(target + (total - target.sum()) / SIZE, np.ones(SIZE))
    for row, limit in zip(rows, limits, strict=True):
        way.append(row[None], np.array([limit]))
        assert way.run()
    np.testing.assert_allclose(way.point, nearest_point(target, rows, limits, total), atol=1e-9)
    np.testing.assert_allclose(rows[way.binding] @ way.point, limits[way.binding], atol=1e-9)


def test_a_target_that_keeps_everything_is_only_moved_to_the_sum():
    found = nearest_point(np.array([1.0, 2.0, 3.0]), np.eye(3), np.zeros(3), 9.0)
    np.testing.assert_allclose(found, [2.0, 3.0, 4.0])


def test_contradictions_are_told():
    assert nearest_point(np.zeros(2), np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones(2), 1.0) is None


def test_everybody_together_is_no_constraint_beside_the_sum():
    found = nearest_point(np.zeros(2), np.ones((1, 2)), np.array([5.0]), 1.0)
    np.testing.assert_allclose(found, [0.5, 0.5])


def test_too_many_steps_are_an_error_that_keeps_the_point():
    way = Projection(np.zeros(3), np.ones(3))
    way.append(np.eye(3)[:2], np.array([1.0, 2.0]))
    with pytest.raises(NotConverged, match="not found in 1 steps") as caught:
        way.run(max_steps=1)
    assert caught.value.result.shape == (3,)

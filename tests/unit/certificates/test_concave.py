"""The concave problem: its ascent against SciPy's, its bounds against random points, its projection and its box."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import fedpact as fp
from fedpact.certificates.concave import ConcaveProblem, maximise
from random_cases import cases

SOLVED_TO = 1e-10  # of payoffs and costs
ROUNDING = 1e-12  # of payoffs and costs


def random_problem(rng: np.random.Generator, *, shared: bool = False) -> ConcaveProblem:
    rows, lots = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    return ConcaveProblem(
        weights=np.where(rng.random((1, rows, lots)) < 0.3, 0.0, rng.uniform(-0.05, 1.0, (1, rows, lots))),
        values=rng.uniform(0.5, 2.0, (1, rows)),
        payoff=fp.PowerLaw(beta=0.5),
        background=rng.uniform(0.0, 3.0, (1, rows)),
        linear=rng.uniform(-0.1, 0.3, (1, lots)),
        quadratic=rng.uniform(0.0, 0.05, (1, lots)) * rng.integers(2),
        upper=rng.uniform(0.5, 4.0, (1, lots)),
        shared=np.eye(lots)[None, :1] + np.eye(lots)[None, 1:2] if shared else np.zeros((1, 0, lots)),
        limits=rng.uniform(0.2, 3.0, (1, 1)) if shared else np.zeros((1, 0)),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_the_ascent_ends_where_scipys_does(shared: bool) -> None:
    rng = np.random.default_rng(int(shared))
    for _ in range(cases(40)):
        problem = random_problem(rng, shared=shared)
        upper = problem.upper[0]
        found = maximise(problem, np.zeros_like(problem.upper))
        limits = [LinearConstraint(problem.shared[0], -np.inf, problem.limits[0])] if shared else []
        trial = minimize(
            lambda x, of=problem: -of.value(x[None])[0],
            0.1 * upper,
            bounds=[(0.0, top) for top in upper],
            constraints=limits,
            tol=1e-12,
        )
        assert found.values[0] >= -trial.fun - 1e-7
        assert found.bounds[0] - found.values[0] <= SOLVED_TO * problem.size(found.x)[0]
        assert (problem.shared[0] @ found.x[0] <= problem.limits[0] * (1.0 + ROUNDING)).all()


def test_the_ascent_goes_along_a_full_shared_cap_where_one_lot_earns_at_a_constant_rate() -> None:
    """Both lots earn; the curved one earns more, so the straight one gives way: min(cap, where log's slope falls)."""
    problem = ConcaveProblem(
        weights=np.array([[[0.0, 1.0]]]),
        values=np.ones((1, 1)),
        payoff=fp.Log(),
        background=np.zeros((1, 1)),
        linear=np.array([[-0.05, 0.05]]),
        quadratic=np.zeros((1, 2)),
        upper=np.full((1, 2), 1.5),
        shared=np.ones((1, 1, 2)),
        limits=np.full((1, 1), 0.5),
    )
    found = maximise(problem, np.zeros((1, 2)))
    np.testing.assert_allclose(found.x[0], [0.0, 0.5], atol=1e-9)
    np.testing.assert_allclose(found.bounds[0], np.log(1.5) - 0.05 * 0.5, rtol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_bounds_hold_wherever_they_are_taken(shared: bool) -> None:
    rng = np.random.default_rng(2)
    for _ in range(cases(20)):
        problem = random_problem(rng, shared=shared)
        points = [problem.project(problem.upper * rng.uniform(0.0, 1.2, problem.upper.shape)) for _ in range(50)]
        highest = max(problem.value(point)[0] for point in points)
        for point in points[:5]:
            bound = problem.value(point) + problem.gaps(point, problem.earned(point)).sum()
            assert highest <= bound[0] + ROUNDING * problem.size(point)[0]

"""The maximiser on programs with known answers: bounded least squares, and optimality within shared caps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from fedpact.solvers.interior_point import GAIN_TOLERANCE, finish, linearised_gains, maximise
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged


@dataclass
class LeastSquares:
    """Maximise -|A s - b|^2 / 2 for many A and b."""

    matrices: FloatArray
    targets: FloatArray
    upper: FloatArray
    shared: FloatArray
    shared_limits: FloatArray

    @property
    def scale(self):
        return (self.targets**2).sum(axis=-1)

    def gradient(self, s):
        left = self.targets - np.einsum("pij,pj->pi", self.matrices, s)
        return np.einsum("pij,pi->pj", self.matrices, left)

    def hessian(self, s):
        return np.swapaxes(self.matrices, -1, -2) @ self.matrices

    def max_step(self, s, d):
        return np.inf

    def at(self, index):
        parts = (self.matrices, self.targets, self.upper)
        return LeastSquares(*(part[index] for part in parts), self.shared, self.shared_limits[index])


def programs(rng, count=40, n=5, caps=0):
    shared = np.zeros((caps, n))
    for cap in range(caps):
        shared[cap, 2 * cap : 2 * cap + 2] = 1.0
    upper = np.exp(rng.uniform(-3.0, 3.0, (count, n))) * (rng.random((count, n)) < 0.9)
    return LeastSquares(
        rng.normal(size=(count, 7, n)) * np.exp(rng.uniform(-3.0, 3.0, (count, 1, n))),
        rng.normal(size=(count, 7)),
        upper,
        shared,
        np.exp(rng.uniform(-4.0, 1.0, (count, caps))),
    )


def test_a_batch_of_programs_agrees_with_bounded_least_squares():
    program = programs(np.random.default_rng(1))
    found = maximise(program)
    assert found.converged.all()
    for matrix, target, upper, s in zip(
        program.matrices, program.targets, program.upper, found.contributions, strict=True
    ):
        free = upper > 0
        theirs = lsq_linear(matrix[:, free], target, (0.0, upper[free]), method="bvls", tol=1e-15)
        np.testing.assert_allclose(s[free], theirs.x, rtol=1e-8, atol=1e-8 * upper.max())


def test_within_shared_caps_the_gain_that_is_left_is_rounding():
    program = programs(np.random.default_rng(2), caps=2)
    found = maximise(program)
    s = found.contributions
    used = s @ program.shared.T
    assert found.converged.all()
    assert (s >= 0).all() and (s <= program.upper).all() and (used <= program.shared_limits * (1 + 1e-12)).all()
    gains, prices = linearised_gains(program, s)
    assert (gains <= GAIN_TOLERANCE).all()
    # A price is paid for what is full, and some caps are.
    assert (prices * (program.shared_limits - used) <= 1e-9 * program.scale[:, None]).all() and (prices > 0).any()


def test_a_point_nearby_is_finished_and_a_far_one_is_told():
    program = programs(np.random.default_rng(4), count=5)
    best = maximise(program).contributions
    np.testing.assert_allclose(finish(program, best).contributions, best, rtol=1e-9, atol=1e-12)
    program.gradient = lambda s: np.full(s.shape, np.nan)
    with pytest.raises(NotConverged, match="linearised gain") as caught:
        maximise(program).require_converged()
    assert caught.value.result.contributions.shape == best.shape

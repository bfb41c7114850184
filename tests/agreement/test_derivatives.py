"""Gradients and Hessians of what is maximised, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.shapley_equilibrium import PotentialProgram
from fedpact.solvers.welfare import WelfareProgram
from strategies import ROOMY, random_federations

# Central differences with a step of 1e-5 of the contribution's scale: off by its square, and by rounding over the step.
DIFFERENCE = 1e-6
STEP = 1e-5


def interior_points(seed: int, count: int, **pinned):
    """Federations with a profile well inside the box, so that steps to both sides are admissible."""
    rng = np.random.default_rng(seed)
    for fed in random_federations(seed, count, **pinned):
        caps = np.where(np.isinf(fed.caps), ROOMY, fed.caps)
        yield fed, caps * rng.uniform(0.05, 0.9, fed.n_agents)


def differences(function, s: np.ndarray) -> np.ndarray:
    """Column j: d function / d s_j."""
    columns = []
    for agent in range(s.size):
        step = np.zeros(s.size)
        step[agent] = STEP * (0.1 + s[agent]) if s[agent] > STEP else 0.1 * s[agent]
        columns.append((function(s + step) - function(s - step)) / (2.0 * step[agent]))
    return np.array(columns).T


def test_welfare_gradient_is_the_derivative_of_welfare():
    for fed, s in interior_points(121, 40):
        gradient = fed.arrays.welfare_gradient(s)
        size = np.abs(gradient).max() + fed.costs.slope(s).max()
        by_difference = differences(fed.welfare, s)
        # Welfare is a difference of payoffs and costs, which may be much larger than its slope over one step.
        blur = 1e-16 * (np.abs(fed.payoffs(s)).sum() + fed.costs.value(s).sum()) / (STEP * np.minimum(s, 0.1 + s))
        assert (np.abs(gradient - by_difference) <= DIFFERENCE * size + 10.0 * blur).all()


@pytest.mark.parametrize("method", ["enumeration", "quadrature"])
def test_shapley_gradient_is_the_derivative_of_each_agent_s_own_value(method):
    for fed, s in interior_points(122, 40):
        shapley = fp.shapley_values(fed, s, method=method)

        def own_values(profile, fed=fed):
            return fp.shapley_values(fed, profile, method="enumeration").values

        by_difference = np.diag(differences(own_values, s))
        size = np.abs(shapley.gradient).max()
        blur = 1e-15 * np.abs(shapley.values).max() / (STEP * s)
        assert (np.abs(shapley.gradient - by_difference) <= DIFFERENCE * size + blur).all()


@pytest.mark.parametrize("kind", [WelfareProgram, PotentialProgram])
def test_hessians_are_symmetric_positive_and_derivatives_of_the_gradient(kind):
    for fed, s in interior_points(123, 30):
        program = kind(fed.arrays)
        hessian = program.hessian(s[None])[0]
        by_difference = -differences(lambda x, program=program: program.gradient(x[None])[0], s)
        np.testing.assert_allclose(hessian, by_difference, rtol=0, atol=1e-5 * np.abs(hessian).max())
        np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-12 * np.abs(hessian).max())
        # Scaled to a unit diagonal, rounding of the eigenvalues is a few units in the last place.
        root = np.sqrt(np.diag(hessian))
        assert np.linalg.eigvalsh(hessian / np.outer(root, root)).min() >= -1e-12

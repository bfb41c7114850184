"""Gradients and Hessians against differences, and the two ways of evaluating the potential against each other."""

from __future__ import annotations

import numpy as np
import pytest
from fedpact.programs.social_optimum import WelfareProgram
from fedpact.shapley.potential import EnumeratedPotential, IntegratedPotential

import fedpact as fp
from strategies import FAMILIES, ROOMY, random_federations

# Central differences with a step of 1e-5 of the contribution's scale: off by its square, and by rounding over the step.
DIFFERENCE = 1e-6
STEP = 1e-5
# Both sums are exact to about 1e-13; harm cancels some of it.
SAME = 1e-9

PROGRAMS = (WelfareProgram, EnumeratedPotential, IntegratedPotential)
every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)


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
        gradient = WelfareProgram(fed).gradient(s)
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


@every_program
def test_hessian_is_the_derivative_of_the_gradient(program):
    for fed, s in interior_points(123, 30):
        made = program(fed)
        hessian = made.hessian(s)
        np.testing.assert_allclose(hessian, differences(made.gradient, s), rtol=0, atol=1e-5 * np.abs(hessian).max())


@every_program
def test_hessian_is_symmetric_and_negative(program):
    for fed, s in interior_points(124, 20):
        hessian = program(fed).hessian(s)
        np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-12 * np.abs(hessian).max())
        # Scaled to a unit diagonal, rounding of the eigenvalues is a few units in the last place.
        root = np.sqrt(np.abs(np.diag(hessian)))
        assert np.linalg.eigvalsh(hessian / np.outer(root, root)).max() <= 1e-12


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_both_evaluations_of_the_potential_agree(family):
    for fed, s in interior_points(125, 20, family=family):
        summed, integrated = EnumeratedPotential(fed), IntegratedPotential(fed)
        for derivative in ("gradient", "hessian"):
            one, other = getattr(summed, derivative)(s), getattr(integrated, derivative)(s)
            np.testing.assert_allclose(other, one, rtol=0, atol=SAME * np.abs(one).max())


def test_potential_gradient_is_the_marginal_share():
    for fed, s in interior_points(126, 20):
        expected = fp.shapley_values(fed, s, method="enumeration").gradient
        size = np.abs(expected).max()
        np.testing.assert_allclose(EnumeratedPotential(fed).gradient(s), expected, rtol=0, atol=1e-13 * size)


def test_an_agent_s_value_is_what_the_potential_loses_without_it():
    for fed, s in interior_points(127, 20):
        values = fp.shapley_values(fed, s, method="enumeration").values
        for potential in (EnumeratedPotential, IntegratedPotential):
            lost = potential(fed).value(s) - potential(fed).value(np.append(0.0, s[1:]))
            np.testing.assert_allclose(lost, values[0], rtol=0, atol=1e-11 * np.abs(values).max())

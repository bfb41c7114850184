"""The maximiser on programs with known answers, one at a time and side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import fedpact as fp
from cases import W1, homogeneous, table_1
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.shapley_equilibrium import ShapleyProgram
from fedpact.programs.social_optimum import WelfareProgram
from fedpact.programs.solver import Status, conclude, finish_batch, linearised_gains, maximise, maximise_batch
from fedpact.programs.tangents import linearised_gap, mixed_gap
from fedpact.shapley.potential import CompiledPotential, EnumeratedPotential
from fedpact.utils.errors import NotConverged
from strategies import random_federations

# Newton steps end at a few units in the last place where the curvature is of order one.
NEWTON = 1e-12


@dataclass
class Logarithms:
    """sum_j gain_j log(1 + s_j) - cost_j s_j, any number side by side: s_j = gain_j / cost_j - 1 within the box."""

    gain: np.ndarray
    cost: np.ndarray
    upper: np.ndarray

    @property
    def scale(self):
        return self.gain.sum(axis=-1)

    def gradient(self, s):
        return self.gain / (1.0 + s) - self.cost

    def curvature(self, s, left, right):
        hessian = -(self.gain / (1.0 + s) ** 2)[..., None] * np.eye(s.shape[-1])
        return DenseCurvature.scaled(hessian, left, right)

    def edges(self):
        return None

    def room(self, s, direction):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(direction < 0, (-1.0 - s) / direction, np.inf).min(axis=-1)

    def start(self):
        return 0.3 * self.upper

    @property
    def answer(self):
        return np.clip(self.gain / self.cost - 1.0, 0.0, self.upper)


def test_single_program_with_agents_at_both_bounds():
    program = Logarithms(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.5, 0.1]), np.array([10.0, 10.0, 10.0]))
    solution = maximise(program)
    np.testing.assert_allclose(solution.contributions, [0.0, 3.0, 10.0], rtol=NEWTON, atol=NEWTON)
    np.testing.assert_allclose(solution.lower_multipliers, [1.0, 0.0, 0.0], atol=NEWTON)
    np.testing.assert_allclose(solution.upper_multipliers, [0.0, 0.0, 3.0 / 11.0 - 0.1], atol=NEWTON)
    assert solution.status is Status.CONVERGED


def test_programs_side_by_side_have_the_answers_they_have_alone():
    rng = np.random.default_rng(1)
    shape = (4, 5, 3)
    program = Logarithms(
        np.exp(rng.uniform(-3, 3, shape)), np.exp(rng.uniform(-3, 3, shape)), np.exp(rng.uniform(-2, 4, shape))
    )
    points, steps = maximise_batch(program)
    np.testing.assert_allclose(points, program.answer, rtol=1e-9, atol=1e-9)
    assert steps < 100


def test_agents_without_room_stay_at_zero():
    program = Logarithms(np.array([1.0, 2.0]), np.array([0.1, 0.5]), np.array([0.0, 10.0]))
    np.testing.assert_allclose(maximise(program).contributions, [0.0, 3.0], atol=NEWTON)


def test_linearised_gain_is_zero_only_at_a_stationary_point():
    upper = np.array([2.0, 2.0, 2.0])
    gains = linearised_gains(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 3.0]), upper)
    np.testing.assert_array_equal(gains, 0.0)
    np.testing.assert_array_equal(linearised_gains(np.array([0.5]), np.array([-2.0]), upper[:1]), [1.0])


def test_linearised_gain_bounds_the_distance_from_the_optimum():
    rng = np.random.default_rng(2)
    for fed in random_federations(31, 40, harm=False):
        program = WelfareProgram(fed)
        point = rng.random(fed.n_agents) * program.upper
        best = fp.social_optimum(fed).welfare
        gain = linearised_gains(point, program.gradient(point), program.upper).sum()
        assert best <= fed.welfare(point) + gain + 1e-12 * (1.0 + abs(best))


def test_multipliers_complete_the_first_order_conditions():
    for fed in random_federations(32, 60):
        for program in (WelfareProgram(fed), ShapleyProgram(fed, EnumeratedPotential(fed))):
            solution = maximise(program)
            gradient = program.gradient(solution.contributions)
            size = np.abs(gradient).max() + fed.costs.slope(solution.contributions).max()
            balance = gradient + solution.lower_multipliers - solution.upper_multipliers
            # The stopping inequality allows 1e-10 of the scale over the whole range of a contribution.
            free = program.upper > 0
            assert (np.abs(balance * program.upper)[free] <= 1e-9 * program.scale + 1e-12 * size).all()
            assert (solution.lower_multipliers >= 0).all() and (solution.upper_multipliers >= 0).all()


def test_residuals_are_far_below_the_tolerance():
    residuals = [maximise(WelfareProgram(fed)).kkt_residual for fed in random_federations(33, 60)]
    assert max(residuals) < 1e-12


def test_a_point_that_is_no_optimum_is_refused_with_the_point():
    program = WelfareProgram(homogeneous(3, 0.02, 0.001))
    with pytest.raises(NotConverged, match=r"the maximiser stopped at a linearised gain of .* above 1e-10") as caught:
        conclude(program, np.array([5.0, 5.0, 5.0]), 0)
    assert caught.value.result.status is Status.STALLED
    np.testing.assert_array_equal(caught.value.result.contributions, 5.0)


def test_solutions_are_read_only():
    solution = fp.social_optimum(table_1(W1)).solution
    for array in (solution.contributions, solution.lower_multipliers, solution.upper_multipliers):
        assert not array.flags.writeable


def test_a_step_that_is_no_number_ends_in_a_refusal():
    """A curvature of NaN, as near the edge of the domain: the maximiser stops where it was, and says so."""

    class Broken(WelfareProgram):
        def gradient(self, contributions):
            assert np.isfinite(contributions).all(), "payoffs are asked about numbers only"
            return super().gradient(contributions)

        def curvature(self, contributions, left, right):
            return DenseCurvature(np.full((3, 3), np.nan))

    federation = fp.Federation(np.ones((3, 3)), costs=0.01, caps=50.0, payoff=fp.Log())
    with pytest.raises(fp.NotConverged, match="stopped at a linearised gain"):
        maximise(Broken(federation))


def test_a_step_clipped_at_a_bound_does_not_leave_the_domain():
    """Both agents leap: along the way more help outweighs more harm, but clipped at the caps it no longer does."""

    class Leap(Curvature):
        def solve_free(self, held, right):
            return np.array([10.0, 2.0])

    class Leaping(WelfareProgram):
        def gradient(self, contributions):
            assert (self.federation.weights @ contributions > -1.0).all(), "payoffs are asked about their domain only"
            return super().gradient(contributions)

        def curvature(self, contributions, left, right):
            return Leap()

    federation = fp.Federation([[1.0, -1.0], [0.0, 1.0]], costs=1e-6, caps=[1.0, 3.0], payoff=fp.Log())
    points, _ = finish_batch(Leaping(federation), np.array([0.9, 1.8]))
    np.testing.assert_allclose(points, [1.0, 1.86])  # as far along the step as the first bound


@pytest.mark.slow
def test_a_point_beyond_the_domain_by_rounding_has_no_gradient():
    """The search for a step rejects it; it must not raise."""
    federation = fp.Federation([[1.0, -1.0], [0.0, 1.0]], costs=0.1, caps=2.0, payoff=fp.PowerLaw(0.5))
    program = ShapleyProgram(federation, CompiledPotential(federation))
    assert np.isfinite(program.gradient(np.array([0.1, 0.9]))).all()
    assert np.isnan(program.gradient(np.array([0.1, 1.0 + 2.3e-16]))).all()


def test_a_point_next_to_a_known_maximum_is_held_against_it():
    program = WelfareProgram(fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.1, payoff=fp.Log()))
    best = maximise(program)
    moved = best.contributions * (1.0 + 1e-7)
    with pytest.raises(NotConverged):
        conclude(program, moved, 0)
    assert conclude(program, moved, 0, near=best).kkt_residual < 1e-10
    with pytest.raises(NotConverged):
        conclude(program, best.contributions * 1.1, 0, near=best)


def test_tangents_on_both_sides_bound_what_one_float_cannot():
    """h = 1e20 (x - a)^2 with a between two floats: each is steep, and yet nothing is gained."""
    x = np.array([0.3])
    below = mixed_gap(lambda y: 1e20 * ((y - x) - 0.4 * np.spacing(0.3)), x)
    assert linearised_gap(1e20 * -0.4 * np.spacing(x), x).sum() > 1e3
    assert below < 1e-9
    steep = mixed_gap(lambda y: y - 0.9, x)
    assert steep >= 0.5 * 0.6**2

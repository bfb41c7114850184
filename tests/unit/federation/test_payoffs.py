"""Payoff families: value, slope, curvature, inverse and measure tell the same story."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.integrate import quad

import fedpact as fp
from fedpact.utils.errors import InvalidInput, OutsideDomain

PAYOFFS = [
    fp.PowerLaw(0.02),
    fp.PowerLaw(1.0),
    fp.PowerLaw([0.005, 0.3, 2.0]),
    fp.Log(),
    fp.Michaelis(0.5),
    fp.Michaelis([2.0, 50.0, 1e3]),
    fp.Exponential(0.3),
    fp.Exponential([0.01, 1.0, 4.0]),
]
# Three agents; both sides of zero, above every floor.
DATA = np.array([[-0.4, -0.3, -0.2], [0.0, 0.0, 0.0], [1e-3, 0.5, 2.0], [7.0, 30.0, 4.0], [40.0, 100.0, 9.0]])

# Central differences with a step of 1e-5 of the reach: off by its square times the bend, and by rounding over the step.
DIFFERENCE = 1e-6

every_payoff = pytest.mark.parametrize("payoff", PAYOFFS, ids=repr)


def step_at(y):
    return 1e-5 * (0.5 + np.abs(y))


@every_payoff
def test_nothing_is_worth_nothing(payoff):
    np.testing.assert_array_equal(payoff.value(np.zeros(3)), 0.0)


@every_payoff
def test_slope_is_the_derivative_of_value(payoff):
    step = step_at(DATA)
    # Where the payoff is saturated values differ in digits they do not have: increments keep them.
    difference = payoff.increment(DATA, step) - payoff.increment(DATA, -step)
    np.testing.assert_allclose(payoff.slope(DATA), difference / (2.0 * step), rtol=DIFFERENCE)


@every_payoff
def test_curvature_is_the_derivative_of_slope(payoff):
    step = step_at(DATA)
    difference = payoff.slope(DATA + step) - payoff.slope(DATA - step)
    np.testing.assert_allclose(payoff.curvature(DATA), difference / (2.0 * step), rtol=DIFFERENCE)


@every_payoff
def test_value_rises_and_bends_down(payoff):
    assert (payoff.slope(DATA) > 0).all()
    assert (payoff.curvature(DATA) < 0).all()


@every_payoff
def test_inverse_slope_undoes_slope(payoff):
    # A relative error of the slope moves y by slope / curvature, a few reaches at most.
    np.testing.assert_allclose(payoff.inverse_slope(payoff.slope(DATA)), DATA, rtol=1e-12, atol=1e-12 * 1e3)


@every_payoff
def test_increment_is_the_difference_of_values(payoff):
    steps = np.array([[0.3, 2.0, 0.1]])
    np.testing.assert_allclose(
        payoff.increment(DATA, steps), payoff.value(DATA + steps) - payoff.value(DATA), rtol=1e-9, atol=1e-15
    )


@every_payoff
@pytest.mark.parametrize("step", [1e-9, 1e-15, -1e-12])
def test_increment_keeps_its_digits_however_small_the_step(payoff, step):
    expected = payoff.slope(DATA) * step + 0.5 * payoff.curvature(DATA) * step**2
    np.testing.assert_allclose(payoff.increment(DATA, np.full(3, step)), expected, rtol=1e-12)


@pytest.mark.parametrize("payoff", [fp.PowerLaw(0.7), fp.Log(), fp.Michaelis(3.0)], ids=repr)
def test_density_is_that_of_the_measure(payoff):
    def density(t: float) -> float:
        return float(np.exp(payoff.log_density(np.array([t])))[0] / t)

    y = 2.0 / float(payoff.unit)
    integral = sum(quad(lambda t: -np.expm1(-y * t) * density(t), *part)[0] for part in ((0.0, 1.0), (1.0, np.inf)))
    np.testing.assert_allclose(integral, payoff.value(2.0), rtol=1e-7)  # the general integrator's own accuracy


@pytest.mark.parametrize(
    ("payoff", "floor"),
    [(fp.PowerLaw(0.3), -1.0), (fp.Log(), -1.0), (fp.Michaelis(2.5), -2.5), (fp.Exponential(1.0), -np.inf)],
)
def test_floor_is_where_the_payoff_falls_to_minus_infinity(payoff, floor):
    assert float(payoff.floor) == floor
    near = np.array([floor + 1e-13]) if np.isfinite(floor) else np.array([-100.0])
    assert payoff.value(near)[0] < -20.0


def test_parameters_are_one_for_all_or_one_per_agent():
    shared, each = fp.Exponential(0.5), fp.Exponential([0.5, 2.0])
    np.testing.assert_allclose(each.value(np.ones((4, 2)))[:, 0], shared.value(np.ones(4)), rtol=1e-15)
    np.testing.assert_array_equal(each.take([1]).rate, [2.0])
    np.testing.assert_array_equal(shared.take([1]).rate, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.PowerLaw(0.0), "payoff.beta must be positive, got 0"),
        (lambda: fp.PowerLaw([0.1, -0.2]), "payoff.beta[1] must be positive, got -0.2"),
        (lambda: fp.Michaelis(-1.0), "payoff.half must be positive, got -1"),
        (lambda: fp.Exponential(np.nan), "payoff.rate must be positive and finite, got nan"),
    ],
)
def test_parameters_must_be_positive(make, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        make()


def test_parameters_are_read_only_copies():
    given = np.array([0.1, 0.2])
    payoff = fp.PowerLaw(given)
    given[0] = 9.0
    np.testing.assert_array_equal(payoff.beta, [0.1, 0.2])
    with pytest.raises(ValueError, match="read-only"):
        payoff.beta[0] = 1.0
    with pytest.raises(AttributeError):
        payoff.beta = 0.5


def test_there_are_no_nodes_outside_the_domain():
    with pytest.raises(OutsideDomain, match="outside the domain"):
        fp.PowerLaw(0.5).time_rule(-1.0 - 2.3e-16, 2.0, 0.3)


def test_slopes_too_large_for_a_number_are_infinite_without_a_warning():
    steep = fp.PowerLaw(30.0)
    edge = np.array([np.nextafter(-1.0, 0.0)])
    assert steep.slope(edge) == np.inf
    assert steep.curvature(edge) == -np.inf
    assert fp.Exponential(100.0).slope(np.array([-1e4])) == np.inf
    assert fp.Exponential(100.0).curvature(np.array([-1e4])) == -np.inf

"""Costs: values, slopes and the refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.costs import as_cost
from fedpact.utils.errors import InvalidInput

NAMES = ["Anna", "Ben"]
COSTS = [fp.Linear(0.3), fp.Linear([0.1, 2.0]), fp.Quadratic(0.5, 0.25), fp.Quadratic([0.0, 1.0], [2.0, 0.0])]
SAMPLES = np.array([[0.0, 0.0], [1.0, 3.0], [40.0, 0.5]])

every_cost = pytest.mark.parametrize("cost", COSTS, ids=repr)


@every_cost
def test_nothing_costs_nothing(cost):
    np.testing.assert_array_equal(cost.value(np.zeros(2)), 0.0)


@every_cost
def test_slope_and_curvature_are_derivatives(cost):
    # Central differences of a quadratic are exact but for rounding.
    np.testing.assert_allclose(cost.slope(SAMPLES), (cost.value(SAMPLES + 0.5) - cost.value(SAMPLES - 0.5)), rtol=1e-12)
    np.testing.assert_allclose(
        cost.curvature(SAMPLES), (cost.slope(SAMPLES + 0.5) - cost.slope(SAMPLES - 0.5)), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fp.Linear(0.0), "costs must be positive, got 0"),
        (lambda: fp.Linear([1.0, -2.0]), "costs[1] must be positive, got -2"),
        (lambda: fp.Quadratic(-1.0, 1.0), "costs.linear must be at least zero, got -1"),
        (lambda: fp.Quadratic(1.0, [1.0, np.inf]), "costs.quadratic[1] must be at least zero and finite, got inf"),
        (
            lambda: fp.Quadratic([0.0, 0.0], [1.0, 0.0]),
            "costs[1] must rise: linear and quadratic are both 0; give one a positive number",
        ),
        (
            lambda: fp.Quadratic([1.0, 2.0], [1.0, 2.0, 3.0]),
            "costs.linear and costs.quadratic must have as many numbers as each other: 2 and 3 given",
        ),
        (lambda: as_cost([0.1, -0.5], NAMES), 'costs[1] must be positive, got -0.5 (member "Ben")'),
        (
            lambda: as_cost(fp.Linear([0.1]), NAMES),
            "costs must be a number or one number per member: 2 members, 1 numbers given",
        ),
        (
            lambda: as_cost([fp.Linear(1.0), 2.0], NAMES),
            "costs must be numbers or one Linear or Quadratic, got a list of costs; give one "
            "Quadratic(linear, quadratic) with a number for each in both",
        ),
    ],
)
def test_refusals_say_what_is_wrong(make, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        make()

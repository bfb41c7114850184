"""Table 1 of the paper: reciprocity ratios for three weight matrices at gamma = 0.001 and beta = 0.02.

The rows of M^Shap and of W1 are met to the digits printed. The other two rows of M^E are not equilibria:

* W2: the printed ratios belong to a profile at which a quasi-Newton method with numerical gradients stops short. The
  optimum is pinned here by its first-order conditions, and the way to the printed digits is retraced.
* W3: agent 0's contribution is zero at the optimum, so its Shapley value is zero and its ratio undefined.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedpact as fp
from fedpact.scenario import example
from fedpact.utils.arrays import FloatArray

BETA, GAMMA = 0.02, 0.001
MATRICES = ("paper-w1", "paper-w2", "paper-w3")
PRINTED_W2 = (0.995, 1.390, 0.801)
PRINTED_W3 = (0.915, 3.375, 0.678)
PRINTED_DIGIT = 5e-4  # three decimals


def federation(name: str) -> fp.Federation:
    return example(name).federation


@pytest.mark.parametrize("name", MATRICES)
def test_instances_are_those_of_the_table(name: str) -> None:
    instance = federation(name)
    assert instance.payoff.beta == BETA
    np.testing.assert_array_equal(instance.costs.linear, GAMMA)
    np.testing.assert_array_equal(instance.weights.diagonal(), 1.0)


@pytest.mark.parametrize("name", MATRICES)
def test_shapley_rows(name: str) -> None:
    outcome = fp.ShapleyMechanism().solve(federation(name))
    np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, atol=PRINTED_DIGIT)
    np.testing.assert_allclose(outcome.reciprocity, 1.0, atol=PRINTED_DIGIT)
    np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, atol=1e-12, err_msg="exact by design")


def test_w1_externality_row() -> None:
    outcome = fp.ExternalityMechanism().solve(federation("paper-w1"))
    np.testing.assert_allclose(outcome.reciprocity_ratios, 1.0, atol=PRINTED_DIGIT)
    np.testing.assert_allclose(outcome.reciprocity, 1.0, atol=PRINTED_DIGIT)
    # 3 beta xi^-(beta + 1) = gamma at the optimum, shared out equally.
    each = ((3 * BETA / GAMMA) ** (1 / (1 + BETA)) - 1) / 3
    np.testing.assert_allclose(outcome.contributions, each, rtol=1e-9)


def test_w1_minimum_over_all_equilibria_is_lower_than_printed() -> None:
    """The definition takes the minimum over all equilibria; the table shows the symmetric one."""
    worst = fp.ExternalityMechanism().solve(federation("paper-w1")).worst_reciprocity
    np.testing.assert_allclose(worst.value, 0.48996, atol=5e-6)


def test_w2_externality_exact() -> None:
    instance = federation("paper-w2")
    outcome = fp.ExternalityMechanism().solve(instance)
    np.testing.assert_allclose(outcome.contributions, [16.8967, 6.1563, 31.2144], atol=5e-5)
    np.testing.assert_allclose(outcome.reciprocity_ratios, [0.896, 1.694, 0.794], atol=PRINTED_DIGIT)
    # An interior point of a concave program at which every first-order condition holds is the optimum.
    reach = 1.0 + instance.weights @ outcome.contributions
    np.testing.assert_allclose(BETA * reach ** (-BETA - 1) @ instance.weights, GAMMA, rtol=1e-9)


def stopped_short(start: float) -> FloatArray:
    """Where L-BFGS-B with default tolerances and numerical gradients stops on W2."""
    weights = federation("paper-w2").weights

    def loss(contributions: FloatArray) -> float:
        reach = weights @ contributions + 1.0
        return float(GAMMA * contributions.sum() - (1.0 - reach**-BETA).sum())

    answer = minimize(loss, np.full(3, start), method="L-BFGS-B", bounds=[(0.0, 400.0)] * 3)
    assert answer.success, "it believes it has converged"
    return np.asarray(answer.x)


def interior_formula_ratios(contributions: FloatArray) -> FloatArray:
    """Ratios with the payments of equation (11), which take the profile for an optimum."""
    instance = federation("paper-w2")
    reach = instance.weights @ contributions + 1.0
    payments = GAMMA * contributions - BETA * reach ** (-BETA - 1) * (reach - 1.0)
    benefits = 1.0 - reach**-BETA + payments
    return benefits / fp.shapley_values(instance, contributions).values


# How far the stopping point is from the printed digits; it moves a little with the rounding of numerical gradients.
@pytest.mark.parametrize(("start", "distance"), [(10.0, 0.003), (5.0, 0.006)])
def test_w2_printed_row_is_where_a_solver_stopped_short(start: float, distance: float) -> None:
    instance = federation("paper-w2")
    optimum = fp.social_optimum(instance)
    contributions = stopped_short(start)
    np.testing.assert_allclose(interior_formula_ratios(contributions), PRINTED_W2, atol=distance)
    missed = optimum.welfare - instance.welfare(contributions)
    assert 1e-6 < missed < 1e-4, "welfare is so flat here that little is lost, and the profile is far off"
    assert np.abs(contributions - optimum.contributions).max() > 2.0
    prices = BETA * (1.0 + instance.weights @ contributions) ** (-BETA - 1) @ instance.weights
    assert np.abs(prices / GAMMA - 1.0).max() > 1e-3, "first-order conditions fail"


def test_w3_has_no_interior_optimum() -> None:
    instance = federation("paper-w3")
    outcome = fp.ExternalityMechanism().solve(instance)
    assert outcome.contributions[0] == 0.0
    reach = 1.0 + instance.weights @ outcome.contributions
    marginal = BETA * reach ** (-BETA - 1) @ instance.weights - GAMMA
    assert marginal[0] < -1e-5, "agent 0's first sample costs more than it is worth"
    np.testing.assert_allclose(marginal[1:], 0.0, atol=1e-12)
    assert outcome.certificates["social-optimality"].verdict == "holds"


def test_w3_agent_0_has_no_ratio() -> None:
    outcome = fp.ExternalityMechanism().solve(federation("paper-w3"))
    assert outcome.shapley_values[0] == 0.0
    assert outcome.reciprocity_ratios[0] == np.inf
    assert outcome.reciprocity_gaps[0] > 0.0
    np.testing.assert_allclose(outcome.reciprocity_ratios[1:], [0.736, 0.753], atol=PRINTED_DIGIT)
    assert np.abs(outcome.reciprocity_ratios[1:] - PRINTED_W3[1:]).max() > 0.05

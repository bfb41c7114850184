"""Equations (11) and (12) and budget balance, inside and on the boundary."""

from __future__ import annotations

import numpy as np

from fedpact.certificates.deviations import price_taking
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.paper.theorems.drawing import any_profile, earned_socially, welfare_optimum
from fedpact.paper.theorems.rationality import SCARCE, WASTEFUL, interior_payments
from fedpact.paper.theorems.theorem import Counterexample, Instance, Theorem, stakes
from fedpact.utils.arrays import FloatArray

STEP = 1e-3  # of a contribution, either way


class Guessing(PowerLaw):
    """A power law on top of what guessing gets right without any data, one time in ten."""

    def value(self, y: FloatArray) -> FloatArray:
        """0.1 + g(y)."""
        return 0.1 + super().value(y)


def interior_prices(instance: Instance) -> FloatArray:
    """Equation (11): da_i/ds_j, less the marginal cost where i = j."""
    federation, profile = instance.federation, instance.contributions
    slopes = federation.marginal_payoffs(profile)[:, None] * federation.weights
    return np.asarray(slopes - np.diag(federation.costs.slope(profile)))


def prices_are_marginal(instance: Instance) -> float:
    """How far prices lie between the difference quotients of a_i - c_i; minus how far columns are from zero sums.

    Utilities are concave in each contribution, so a derivative lies between the quotients to either side.
    """
    federation, profile = instance.federation, instance.contributions
    prices = interior_prices(instance)

    def utilities(changed: FloatArray) -> FloatArray:
        return federation.payoffs(changed) - federation.costs.value(changed)

    here, slack = utilities(profile), np.inf
    for giver, step in enumerate(STEP * profile):
        shift = step * np.eye(profile.size)[giver]
        forward, backward = utilities(profile + shift) - here, here - utilities(profile - shift)
        slack = min(
            slack, float(np.minimum(backward - step * prices[:, giver], step * prices[:, giver] - forward).min())
        )
    unbalanced = float(np.abs(prices.sum(axis=0) * profile).max())
    return min(slack, -unbalanced) / stakes(instance)


def interior_formula(instance: Instance) -> float:
    """Minus how far equation (12) is from -sum_j l_ij s_j, from the mechanism's payments, and from a sum of zero."""
    federation, profile = instance.federation, instance.contributions
    payments = interior_payments(instance)
    off = [
        np.abs(payments + interior_prices(instance) @ profile).max(),
        np.abs(payments - federation.arrays.price_payments(profile)).max(),
        abs(payments.sum()),
    ]
    return -float(max(off)) / stakes(instance)


def interior_formula_balance(instance: Instance) -> float:
    """Minus |sum p_i| by equation (12)."""
    return -abs(float(interior_payments(instance).sum())) / stakes(instance)


def externality_balance(instance: Instance) -> float:
    """Minus |sum p_i| under M^E; rounding is measured by what is bought and sold."""
    federation, profile = instance.federation, instance.contributions
    bought = np.abs(federation.weights) * profile * federation.marginal_payoffs(profile)[:, None]
    return -abs(float(federation.arrays.price_payments(profile).sum())) / (stakes(instance) + float(bought.sum()))


def shapley_balance(instance: Instance) -> float:
    """Minus |sum p_i| under M^Shap."""
    payments = ShapleyMechanism().payments(instance.federation.arrays, instance.contributions)
    return -abs(float(payments.sum())) / stakes(instance)


def boundary_deal(instance: Instance) -> float:
    """Minus the worst of three: |sum p_i|, |p_i - (c_i' s_i - a_i' y_i + mu_i s_i)|, and a gain at one's prices."""
    federation, profile = instance.federation, instance.contributions
    payments = federation.arrays.price_payments(profile)
    multipliers = earned_socially(federation, profile) - federation.costs.slope(profile)
    carried = interior_payments(instance) + np.where(profile > 0, multipliers, 0.0) * profile
    utilities = federation.payoffs(profile) - federation.costs.value(profile) + payments
    gains = price_taking(federation, profile).utilities - utilities
    return -float(max(abs(payments.sum()), np.abs(payments - carried).max(), gains.max())) / stakes(instance)


# One time in ten is right without data, as when accuracies are measured rather than modelled.
GUESSED = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.01, caps=10.0, payoff=Guessing(0.5)),
    contributions=np.array([1.0, 2.0, 3.0]),
)

MONEY = (
    Theorem(
        name="equation-11",
        where="equation (11), section 3.2",
        statement="The prices are the marginal utilities at the optimum, and for each agent's data they sum to zero.",
        assumptions="an interior welfare optimum",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=prices_are_marginal,
        counterexample=Counterexample(dropped="the optimum is interior", instance=SCARCE),
    ),
    Theorem(
        name="equation-12",
        where="equation (12), section 3.2",
        statement="Payments at these prices are c_i' s_i - a_i' (xi_i - 1), and they sum to zero.",
        assumptions="an interior welfare optimum",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=interior_formula,
        counterexample=Counterexample(dropped="the optimum is interior", instance=SCARCE),
    ),
    Theorem(
        name="balance-shapley",
        where="section 3.1",
        statement="Payments under M^Shap sum to zero at every profile.",
        assumptions="nothing is earned without data; any family, weights of any sign",
        draw=any_profile,
        margin=shapley_balance,
        counterexample=Counterexample(dropped="no payoff without data", instance=GUESSED),
    ),
    Theorem(
        name="balance-externality",
        where="section 3.2, last sentence",
        statement="Payments under M^E sum to zero at every profile, optimal or not.",
        assumptions="own prices are l_jj = -sum of the others' for j's data; any family, weights of any sign",
        draw=any_profile,
        margin=externality_balance,
        counterexample=Counterexample(
            dropped="own prices make columns sum to zero (equation (12) instead, off the optimum)",
            instance=WASTEFUL,
            margin=interior_formula_balance,
        ),
    ),
    Theorem(
        name="boundary-payments",
        where="beyond the paper (equations (11) and (12))",
        statement="At every welfare optimum the payments c_i' s_i - a_i' (xi_i - 1) + mu_i s_i, mu_i the multiplier of "
        "the cap, sum to zero, and at the prices behind them nobody would ask for another profile.",
        assumptions="any family, convex costs, weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True),
        margin=boundary_deal,
        counterexample=Counterexample(
            dropped="the multiplier is part of the payment", instance=SCARCE, margin=interior_formula_balance
        ),
    ),
)

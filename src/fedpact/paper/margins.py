"""By how much the paper's claims hold at an instance, and what some of them need beyond what the paper states.

A margin is the slack of a claim as a share of what is at stake for the average agent, the mean of |a_i| + c_i, unless
its docstring names another measure; below zero the claim fails.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Claim
from fedpact.certificates.reciprocity import reciprocity_ratios
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.paper import table1
from fedpact.paper.random_instances import (
    Instance,
    any_profile,
    earned_socially,
    homogeneous_optimum,
    homogeneous_shapley,
    renamable_optimum,
    stakes,
    welfare_optimum,
)
from fedpact.shapley import shapley_values
from fedpact.solvers.groups import standalone_optimum
from fedpact.utils.arrays import FloatArray

# Margins are differences of sums of at most 2^7 numbers of the size of the stakes.
MARGIN_ROUNDING = 1e-11
EASINGS = 2.0 ** -np.arange(1, 15)  # by which share those strictly inside contribute less
CLEAR = 1e-9  # of what a sample earns: net externalities below it have no sign
EQUAL_CONTRIBUTION = 1e-9  # of the largest contribution
STEP = 1e-3  # of a contribution, either way

# Theorem 1 and Corollary 1


def inside(instance: Instance) -> NDArray[np.bool_]:
    """Who contributes something, but not all it has."""
    return (instance.contributions > 0) & (instance.contributions < instance.federation.caps)


def welfare_missed(instance: Instance) -> float:
    """How much welfare rises when those strictly inside ease off: a profile that does better is the proof."""
    federation, profile = instance.federation, instance.contributions
    eased = profile * (1.0 - EASINGS[:, None] * inside(instance))
    payoffs = federation.values * federation.payoff.value(eased @ federation.weights.T)
    welfare = (payoffs - federation.costs.value(eased)).sum(axis=1)
    return float(welfare.max() - federation.welfare(profile)) / stakes(instance)


def over_contribution(instance: Instance) -> float:
    """Above zero, no optimum has everybody contribute at least this much.

    Welfare is concave, so it gains at most max(0, dW/ds_i) (cap_i - s_i) from agents that contribute more; where
    somebody's easing off gains more than that, every optimum lies below the profile for some agent.
    """
    federation, profile = instance.federation, instance.contributions
    slopes = earned_socially(federation, profile) - federation.costs.slope(profile)
    more = float((np.maximum(slopes, 0.0) * (federation.caps - profile)).sum())
    return welfare_missed(instance) - more / stakes(instance)


def over_contribution_of_equals(instance: Instance) -> float:
    """Total contributions above those of the optimum, (n beta / gamma)^(1 / (beta + 1)) - 1, as a share."""
    federation = instance.federation
    beta, cost = float(federation.payoff.parameters["beta"]), float(np.mean(federation.costs.linear))
    total = max((federation.n_agents * beta / cost) ** (1.0 / (beta + 1.0)) - 1.0, 0.0)
    best = min(total, float(federation.caps.sum()))
    return float(1.0 - best / instance.contributions.sum())


# Theorems 2 and 3, Proposition 1


def interior_payments(instance: Instance) -> FloatArray:
    """Equation (12), without the multipliers of caps."""
    return table1.interior_payments(instance.federation, instance.contributions)


def utilities(instance: Instance, payments: FloatArray) -> FloatArray:
    """a_i - c_i + p_i."""
    federation, profile = instance.federation, instance.contributions
    return federation.payoffs(profile) - federation.costs.value(profile) + payments


def gaps(instance: Instance, payments: FloatArray) -> FloatArray:
    """u_i - v_i*, as a share of what is at stake."""
    return np.asarray(utilities(instance, payments) - standalone_optimum(instance.federation)[1]) / stakes(instance)


def externality_payments(instance: Instance) -> FloatArray:
    """The payments of M^E, right on the boundary too."""
    return instance.federation.arrays.price_payments(instance.contributions)


def shapley_gap(instance: Instance) -> float:
    """The lowest gap under M^Shap."""
    federation, profile = instance.federation, instance.contributions
    shares = shapley_values(federation, profile, method="enumeration").values
    return float(gaps(instance, shares - federation.payoffs(profile)).min())


def interior_gap(instance: Instance) -> float:
    """The lowest gap when payments follow equation (12)."""
    return float(gaps(instance, interior_payments(instance)).min())


def reach_beyond_alone(instance: Instance) -> float:
    """The lowest xi_i - 1 - s_i^solo, as a share of xi_i."""
    federation = instance.federation
    alone, _ = standalone_optimum(federation)
    reach = federation.reach(instance.contributions)
    return float(((reach - 1.0 - federation.weights.diagonal() * alone) / reach).min())


def signs(instance: Instance) -> FloatArray:
    """The sign of each T_i; zero where it is not clear."""
    net = instance.federation.net_externality(instance.contributions)
    size = np.abs(earned_socially(instance.federation, instance.contributions)).max()
    return np.asarray(np.where(np.abs(net) > CLEAR * size, np.sign(net), 0.0))


def same_sign_where_helped(instance: Instance) -> float:
    """The same over the agents Proposition 1 speaks of: those with xi_i >= 1."""
    helped = instance.federation.data(instance.contributions) >= 0
    return float(np.min((signs(instance) * gaps(instance, externality_payments(instance)))[helped], initial=np.inf))


def loss_of_the_harmful(instance: Instance) -> float:
    """The smallest loss among the agents with T_i < 0."""
    return float(np.min(-gaps(instance, externality_payments(instance))[signs(instance) < 0], initial=np.inf))


def draw_equals(rng: np.random.Generator) -> Instance:
    """Equal agents that value each other's data alike, at anything up to twice their own."""
    return homogeneous_shapley(rng, weight=float(np.exp(rng.uniform(np.log(0.01), np.log(2.0)))), edges=False)


def draw_harmful(rng: np.random.Generator) -> Instance:
    """An optimum, agents at bounds allowed, with somebody who harms the others on net."""
    while True:
        instance = welfare_optimum(rng, harm=True, edges=True)
        if (signs(instance) < 0).any():
            return instance


def harm_is_interior(instance: Instance) -> bool:
    """Whether all who harm on net are strictly inside, together and alone, and reach xi_i >= 1."""
    federation, profile = instance.federation, instance.contributions
    alone, _ = standalone_optimum(federation)
    free = (profile > 0) & (profile < federation.caps) & (alone > 0) & (alone < federation.caps)
    return bool((free & (federation.data(profile) >= 0))[signs(instance) < 0].all())


def values_others_as_self(instance: Instance) -> bool:
    """Whether everybody's data is worth at least as much to the others as to itself."""
    federation = instance.federation
    return bool((federation.weights >= federation.weights.diagonal()[None, :] - MARGIN_ROUNDING).all())


# Theorem 4 and the sentences round it


def shares(instance: Instance) -> FloatArray:
    """The Shapley values at the profile."""
    return shapley_values(instance.federation, instance.contributions, method="enumeration").values


def benefits(instance: Instance) -> FloatArray:
    """a_i + p_i, with the payments given or else those of M^E."""
    federation, profile = instance.federation, instance.contributions
    payments = federation.arrays.price_payments(profile) if instance.payments is None else instance.payments
    return federation.payoffs(profile) + payments


def share_missed(instance: Instance) -> float:
    """Minus the largest |a_i + p_i - phi_i|."""
    return -float(np.abs(benefits(instance) - shares(instance)).max()) / stakes(instance)


def reciprocity(instance: Instance) -> float:
    """r(s), the lowest (a_i + p_i) / phi_i."""
    return float(reciprocity_ratios(benefits(instance), shares(instance)).min())


def symmetric_optimum(instance: Instance) -> float:
    """The welfare of a symmetric profile less the most there is; minus infinity if the profile is not symmetric."""
    if not is_symmetric(instance) or not 0 < instance.contributions[0] < instance.federation.caps.min():
        return -np.inf
    outcome = ExternalityMechanism().outcome_at(instance.federation, instance.contributions)
    return outcome.certificates[Claim.SOCIAL_OPTIMALITY].margin / stakes(instance)


def is_symmetric(instance: Instance) -> bool:
    """Whether everybody contributes the same."""
    return bool(np.ptp(instance.contributions) <= EQUAL_CONTRIBUTION * instance.contributions.max())


def draw_homogeneous(rng: np.random.Generator) -> Instance:
    """The homogeneous federation and one of its interior optima, every other time the symmetric one."""
    return homogeneous_optimum(rng, symmetric=bool(rng.integers(2)))


def draw_heterogeneous(rng: np.random.Generator) -> Instance:
    """Weights that differ: every other time at random, else depending on the distance round a ring."""
    return renamable_optimum(rng) if rng.integers(2) else welfare_optimum(rng)


def draw_payments(rng: np.random.Generator) -> Instance:
    """Any profile and balanced payments; every other time whoever has the lowest Shapley value pays all the others."""
    instance = any_profile(rng)
    owed = shares(instance) - instance.federation.payoffs(instance.contributions)
    moved = np.full(owed.size, 1.0) if rng.integers(2) else rng.normal(size=owed.size)
    poorest = int(np.argmin(shares(instance)))
    moved[poorest] -= moved.sum()
    return replace(instance, payments=owed + rng.uniform(0.1, 1.0) * stakes(instance) * moved)


def shares_are_positive(instance: Instance) -> bool:
    """Whether every Shapley value is above zero."""
    return bool((shares(instance) > 0).all())


# Equations (11) and (12), budget balance


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


def externality_balance(instance: Instance) -> float:
    """Minus |sum p_i| under M^E; rounding is measured by what is bought and sold."""
    federation, profile = instance.federation, instance.contributions
    bought = np.abs(federation.weights) * profile * federation.marginal_payoffs(profile)[:, None]
    return -abs(float(federation.arrays.price_payments(profile).sum())) / (stakes(instance) + float(bought.sum()))


def shapley_balance(instance: Instance) -> float:
    """Minus |sum p_i| under M^Shap."""
    payments = ShapleyMechanism().payments(instance.federation.arrays, instance.contributions)
    return -abs(float(payments.sum())) / stakes(instance)

"""Theorem 1 and Corollary 1: the Shapley mechanism misses the optimum, and somebody contributes too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation, PowerLaw
from fedpact.paper.theorems.drawing import earned_socially, homogeneous_shapley, shapley_equilibrium
from fedpact.paper.theorems.theorem import Counterexample, Instance, Theorem, stakes

EASINGS = 2.0 ** -np.arange(1, 15)  # by which share those strictly inside contribute less


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


def draw_meeting(rng: np.random.Generator) -> Instance:
    """A Shapley equilibrium, agents at bounds allowed, in which data of somebody strictly inside meets other data."""
    while True:
        instance = shapley_equilibrium(rng, edges=True)
        used = instance.federation.weights > 0
        others = instance.federation.data(instance.contributions)[:, None] > (
            instance.federation.weights * instance.contributions
        )
        if (used & others)[:, inside(instance)].any():
            return instance


def _ring(harm: float, *, cost: float, cap: float) -> Federation:
    """Four agents, each of use to two of the others and harmful to the third."""
    weights = [[1.0, 1.0, 1.0, -harm], [-harm, 1.0, 1.0, 1.0], [1.0, -harm, 1.0, 1.0], [1.0, 1.0, -harm, 1.0]]
    return Federation(weights, costs=cost, caps=cap, payoff=PowerLaw(0.5))


# Here d phi_i / d s_i = sum_k w_ki a_k' = cost at (1, 1, 1, 1): it is the equilibrium and the optimum.
OPTIMAL_RING = Instance(
    federation=_ring(0.44812780726514034, cost=0.19060879184744675, cap=1.25), contributions=np.ones(4)
)
# With more harm the Shapley equilibrium lies below the optimum, 1.517 each.
TIMID_RING = Instance(federation=_ring(0.6, cost=0.12, cap=1.6), contributions=np.full(4, 0.8873457551933742))
# Data so cheap that everybody gives all it has, under both mechanisms.
ALL_CAPPED = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.01, caps=2.0, payoff=PowerLaw(0.5)), contributions=np.full(3, 2.0)
)

OPTIMALITY = (
    Theorem(
        name="theorem-1",
        where="Theorem 1, section 4",
        statement="A Shapley equilibrium strictly inside the caps never maximises welfare.",
        assumptions="weights at least zero, three beneficiaries each, power-law payoffs, linear costs, everybody "
        "strictly between zero and its cap",
        draw=shapley_equilibrium,
        margin=welfare_missed,
        counterexample=Counterexample(dropped="no weight is negative", instance=OPTIMAL_RING),
        strict=True,
    ),
    Theorem(
        name="theorem-1-one-inside",
        where="beyond the paper (Theorem 1 and Corollary 1)",
        statement="One agent strictly inside is enough: if its data meets anybody else's at some receiver, the Shapley "
        "equilibrium is not optimal, and no optimum has everybody contribute as much.",
        assumptions="weights at least zero; nothing about beneficiaries; the other agents may be at zero or at caps",
        draw=draw_meeting,
        margin=over_contribution,
        counterexample=Counterexample(dropped="somebody is strictly inside", instance=ALL_CAPPED),
        strict=True,
    ),
    Theorem(
        name="corollary-1",
        where="Corollary 1, section 4",
        statement="Against every welfare optimum some agent contributes more at an interior Shapley equilibrium.",
        assumptions="as for Theorem 1",
        draw=shapley_equilibrium,
        margin=over_contribution,
        counterexample=Counterexample(dropped="no weight is negative", instance=TIMID_RING),
        strict=True,
    ),
    Theorem(
        name="corollary-1-total",
        where="Corollary 1, section 4, second half",
        statement="Equal agents with equal costs contribute more in total at the Shapley equilibrium than is optimal.",
        assumptions="all weights 1, equal costs, everybody strictly inside",
        draw=lambda rng: homogeneous_shapley(rng, edges=False),
        margin=over_contribution_of_equals,
        counterexample=Counterexample(dropped="the equilibrium is interior", instance=ALL_CAPPED),
        strict=True,
    ),
)

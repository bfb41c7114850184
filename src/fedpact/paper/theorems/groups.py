"""Beyond the paper: no group gains by leaving M^E, and what follows from it."""

from __future__ import annotations

import numpy as np

from fedpact.mechanisms.shapley import ShapleyMechanism
from fedpact.paper.theorems.drawing import shapley_equilibrium, welfare_optimum
from fedpact.paper.theorems.optimality import ALL_CAPPED
from fedpact.paper.theorems.rationality import HARMED, HARMFUL, utilities
from fedpact.paper.theorems.theorem import Counterexample, Instance, Theorem, stakes
from fedpact.solvers.groups import group_optima
from fedpact.utils.arrays import FloatArray


def _externality_utilities(instance: Instance) -> FloatArray:
    return utilities(instance, instance.federation.arrays.price_payments(instance.contributions))


def best_welfare(instance: Instance) -> float:
    """v(N): the welfare of the profile, or what a solver finds if that is more.

    Instances are drawn with their optimum, which a solver reaches up to its tolerance only.
    """
    federation = instance.federation
    everybody = np.ones((1, federation.n_agents), dtype=bool)
    return max(federation.welfare(instance.contributions), float(group_optima(federation, everybody).values[0]))


def loss_of_groups(instance: Instance) -> float:
    """The least any group loses by leaving M^E together, as a share of what is at stake."""
    gains = group_optima(instance.federation).gains(_externality_utilities(instance))
    return -float(gains[1:].max()) / stakes(instance)


def marginal_contribution_kept(instance: Instance) -> float:
    """The lowest v(N) - v(N without i) - U_i under M^E, as a share of what is at stake."""
    without = group_optima(instance.federation, ~np.eye(instance.federation.n_agents, dtype=bool)).values
    added = best_welfare(instance) - without
    return float((added - _externality_utilities(instance)).min()) / stakes(instance)


def gain_of_all_from_shapley(instance: Instance) -> float:
    """What everybody together gains by leaving M^Shap, as a share of what is at stake."""
    federation = instance.federation
    has = utilities(instance, ShapleyMechanism().payments(federation.arrays, instance.contributions))
    everybody = np.ones((1, federation.n_agents), dtype=bool)
    return float(group_optima(federation, everybody).gains(has)[0]) / stakes(instance)


GROUPS = (
    Theorem(
        name="core",
        where="beyond the paper (Theorem 3)",
        statement="Under M^E no group does better by leaving together. For groups of one this is Theorem 3, without "
        "interior optima or three beneficiaries.",
        assumptions="weights at least zero; any concave payoff family, convex costs, any beneficiaries, agents at zero "
        "or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=loss_of_groups,
        counterexample=Counterexample(dropped="no weight is negative", instance=HARMFUL),
    ),
    Theorem(
        name="marginal-contribution",
        where="beyond the paper",
        statement="Under M^E nobody has more than it adds to what the others reach by themselves. So paying everybody "
        "what it adds, as VCG does, runs a deficit.",
        assumptions="weights at least zero; any concave payoff family, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=marginal_contribution_kept,
        counterexample=Counterexample(dropped="no weight is negative", instance=HARMED),
    ),
    Theorem(
        name="shapley-not-core",
        where="beyond the paper (Theorem 1)",
        statement="An interior equilibrium of M^Shap is not in the core: everybody together gains by another deal.",
        assumptions="weights at least zero, everybody strictly between zero and its cap",
        draw=shapley_equilibrium,
        margin=gain_of_all_from_shapley,
        counterexample=Counterexample(dropped="the equilibrium is interior", instance=ALL_CAPPED),
        strict=True,
    ),
)

"""Theorems 2 and 3 and Proposition 1: who does at least as well as alone, and what that really takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation, PowerLaw
from fedpact.paper.results import Judgement
from fedpact.paper.theorems.drawing import (
    earned_socially,
    homogeneous_shapley,
    shapley_equilibrium,
    welfare_optimum,
)
from fedpact.paper.theorems.theorem import MARGIN_ROUNDING, Condition, Counterexample, Instance, Theorem, stakes
from fedpact.shapley import shapley_values
from fedpact.solvers.standalone import standalone_optimum
from fedpact.utils.arrays import FloatArray

CLEAR = 1e-9  # of what a sample earns: net externalities below it have no sign


def interior_payments(instance: Instance) -> FloatArray:
    """Equation (12): c_i' s_i - a_i' (xi_i - 1), without the multipliers of caps."""
    federation, profile = instance.federation, instance.contributions
    spent = federation.costs.slope(profile) * profile
    return np.asarray(spent - federation.marginal_payoffs(profile) * federation.data(profile))


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


def externality_gap(instance: Instance) -> float:
    """The lowest gap under M^E."""
    return float(gaps(instance, externality_payments(instance)).min())


def interior_gap(instance: Instance) -> float:
    """The lowest gap when payments follow equation (12)."""
    return float(gaps(instance, interior_payments(instance)).min())


def reach_beyond_alone(instance: Instance) -> float:
    """The lowest xi_i - 1 - s_i^solo, as a share of xi_i."""
    federation = instance.federation
    alone, _ = standalone_optimum(federation)
    reach = federation.reach(instance.contributions)
    return float(((reach - 1.0 - federation.weights.diagonal() * alone) / reach).min())


def lowest_utility(instance: Instance) -> float:
    """The lowest utility under M^E, as a share of what is at stake."""
    return float(utilities(instance, externality_payments(instance)).min()) / stakes(instance)


def signs(instance: Instance) -> FloatArray:
    """The sign of each T_i; zero where it is not clear."""
    net = instance.federation.net_externality(instance.contributions)
    size = np.abs(earned_socially(instance.federation, instance.contributions)).max()
    return np.asarray(np.where(np.abs(net) > CLEAR * size, np.sign(net), 0.0))


def same_sign(instance: Instance) -> float:
    """The lowest sign(T_i) Delta_i."""
    return float((signs(instance) * gaps(instance, externality_payments(instance))).min())


def same_sign_where_helped(instance: Instance) -> float:
    """The same over the agents Proposition 1 speaks of: those with xi_i >= 1."""
    helped = instance.federation.data(instance.contributions) >= 0
    return float(np.min((signs(instance) * gaps(instance, externality_payments(instance)))[helped], initial=np.inf))


def harmless(instance: Instance) -> NDArray[np.bool_]:
    """Who has T_i >= 0."""
    return np.asarray(instance.federation.net_externality(instance.contributions) >= 0)


def gap_of_the_harmless(instance: Instance) -> float:
    """The lowest gap among the agents with T_i >= 0."""
    return float(np.min(gaps(instance, externality_payments(instance))[harmless(instance)], initial=np.inf))


def unbalanced_gap_of_the_harmless(instance: Instance) -> float:
    """The same when payments follow equation (12)."""
    return float(np.min(gaps(instance, interior_payments(instance))[harmless(instance)], initial=np.inf))


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


def optimum_at(
    weights: list[list[float]], contributions: list[float], *, beta: float, caps: float | list[float]
) -> Instance:
    """The federation in which these contributions are an interior optimum."""
    profile = np.array(contributions)
    blank = Federation(weights, costs=1.0, caps=caps, payoff=PowerLaw(beta))
    costs = earned_socially(blank, profile)
    return Instance(
        federation=Federation(weights, costs=costs, caps=caps, payoff=PowerLaw(beta)), contributions=profile
    )


# Eight equal agents who value each other's data at a hundredth of their own, at their Shapley equilibrium.
STRANGERS = Instance(
    federation=Federation(0.01 * np.ones((8, 8)) + 0.99 * np.eye(8), costs=0.01, caps=1e6, payoff=PowerLaw(1.0)),
    contributions=np.full(8, 40.47125877222428),
)
# Agent 0 uses the others' data three times as well as its own, and is of little use to them.
NARROW = Instance(
    federation=Federation(
        [[1.0, 3.0, 3.0], [0.1, 1.0, 1.0], [0.1, 1.0, 1.0]], costs=0.05, caps=100.0, payoff=PowerLaw(0.5)
    ),
    contributions=np.array([2.8294295616052088, 5.86318805869356, 5.86318805869356]),
)
# Everybody gives all it has, together and alone.
SCARCE = Instance(
    federation=Federation(0.1 * np.ones((3, 3)) + 0.9 * np.eye(3), costs=0.01, caps=2.0, payoff=PowerLaw(0.5)),
    contributions=np.full(3, 2.0),
)
# Agent 0 helps two of the others a little, harms the third, and is strictly inside.
HARMFUL = optimum_at(
    [[1.0, 0.1, 0.1, 0.1], [0.05, 1.0, 1.0, 1.0], [0.05, 1.0, 1.0, 1.0], [-0.4, 1.0, 1.0, 1.0]],
    [1.0, 1.0, 1.0, 1.0],
    beta=0.5,
    caps=[2.0, 4.0, 4.0, 4.0],
)
# Agent 0 harms agent 3 and is harmed: xi_0 < 1, T_0 < 0, and yet it gains, for it is paid for the harm done to it.
HARMED = optimum_at(
    [[1.0, -0.524, -0.488, -0.383], [0.02, 1.0, 1.355, 1.111], [0.02, 1.814, 1.0, 0.956], [-1.869, 1.693, 0.91, 1.0]],
    [0.059, 0.202, 0.494, 0.079],
    beta=0.5,
    caps=[0.062, 0.209, 0.906, 0.59],
)
# Agent 0 would harm the others on net, so it contributes nothing, buys their data and gains.
IDLE = Instance(
    federation=Federation(
        [[1.0, 1.0, 1.0, 1.0], [0.05, 1.0, 1.0, 1.0], [0.05, 1.0, 1.0, 1.0], [-0.4, 1.0, 1.0, 1.0]],
        costs=0.1,
        caps=2.3,
        payoff=PowerLaw(0.5),
    ),
    contributions=np.array([0.0, *[(20.0 ** (2.0 / 3.0) - 1.0) / 3.0] * 3]),
)
# Agent 0 contributes far more than it earns.
WASTEFUL = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.1, caps=50.0, payoff=PowerLaw(0.5)),
    contributions=np.array([40.0, 1.0, 1.0]),
)

RATIONALITY = (
    Theorem(
        name="theorem-2",
        where="Theorem 2, section 5",
        statement="Under M^Shap equal agents with interchangeable data all do at least as well as alone.",
        assumptions="all weights 1 and equal costs; caps may differ and may bind",
        draw=homogeneous_shapley,
        margin=shapley_gap,
        counterexample=Counterexample(dropped="the others' data is worth as much as one's own", instance=STRANGERS),
    ),
    Theorem(
        name="theorem-2-wider",
        where="beyond the paper (Theorem 2)",
        statement="Under M^Shap everybody does at least as well as alone if nobody's data is worth less to another "
        "than to itself, whatever costs and caps are.",
        assumptions="w_ji >= w_ii for all i and j; agents at zero or at caps allowed",
        draw=lambda rng: shapley_equilibrium(rng, edges=True, least=1.0),
        margin=shapley_gap,
        counterexample=Counterexample(dropped="w_ji >= w_ii", instance=NARROW),
    ),
    Theorem(
        name="equal-agents",
        where="section 1, third contribution",
        statement="Where agents are alike in data and cost, nobody loses under M^Shap.",
        assumptions="equal agents with equal costs, who value each other's data alike",
        draw=draw_equals,
        margin=shapley_gap,
        counterexample=Counterexample(dropped="the others' data is worth as much as one's own", instance=STRANGERS),
        condition=Condition(words="the others' data is worth at least one's own", met=values_others_as_self),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="lemma-2",
        where="Lemma 2, appendix C",
        statement="At an optimum without harm everybody reaches at least the data it would gather alone.",
        assumptions="weights at least zero, everybody strictly inside together and alone",
        draw=lambda rng: welfare_optimum(rng, alone=True),
        margin=reach_beyond_alone,
        counterexample=Counterexample(dropped="no weight is negative", instance=HARMFUL),
    ),
    Theorem(
        name="theorem-3",
        where="Theorem 3, section 5",
        statement="Under M^E, with payments by equation (12), everybody does at least as well as alone.",
        assumptions="weights at least zero, three beneficiaries each, everybody strictly inside together and alone",
        draw=lambda rng: welfare_optimum(rng, alone=True),
        margin=interior_gap,
        counterexample=Counterexample(dropped="the optimum is interior", instance=SCARCE),
    ),
    Theorem(
        name="theorem-3-wider",
        where="beyond the paper (Theorem 3; section 9)",
        statement="With payments that carry the caps' multipliers Theorem 3 needs no interior anything: no weight "
        "below zero is enough.",
        assumptions="weights at least zero; any concave payoff family, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True),
        margin=externality_gap,
        counterexample=Counterexample(dropped="no weight is negative", instance=HARMFUL),
    ),
    Theorem(
        name="proposition-1",
        where="Proposition 1, section 8",
        statement="Under M^E an agent gains by taking part exactly if its data does the others good on net.",
        assumptions="weights of any sign with every profile in the domain, everybody strictly inside together and "
        "alone, and xi_i >= 1 for the agent spoken of",
        draw=lambda rng: welfare_optimum(rng, harm=True, alone=True),
        margin=same_sign_where_helped,
        counterexample=Counterexample(dropped="xi_i >= 1", instance=HARMED, margin=same_sign),
    ),
    Theorem(
        name="harmless-gain",
        where="beyond the paper (Proposition 1)",
        statement="Whoever does the others no harm on net does at least as well under M^E as alone, at every optimum.",
        assumptions="T_i >= 0 for the agent spoken of; weights of any sign, any reach, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True, wide=True),
        margin=gap_of_the_harmless,
        counterexample=Counterexample(
            dropped="payments carry the caps' multipliers", instance=SCARCE, margin=unbalanced_gap_of_the_harmless
        ),
    ),
    Theorem(
        name="harmful-lose",
        where="section 9, after Proposition 1",
        statement="Whoever harms the others on net is worse off under M^E than alone.",
        assumptions="weights of any sign with every profile in the domain",
        draw=draw_harmful,
        margin=loss_of_the_harmful,
        counterexample=Counterexample(dropped="the agent contributes something", instance=IDLE),
        strict=True,
        condition=Condition(
            words="the agent is strictly inside, together and alone, and xi_i >= 1", met=harm_is_interior
        ),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="no-negative-utility",
        where="beyond the paper (the remark in section 2.2)",
        statement="Nobody's utility is below zero at an optimum under M^E, however much it harms or is harmed.",
        assumptions="the profile is a welfare optimum; weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True, wide=True),
        margin=lowest_utility,
        counterexample=Counterexample(dropped="the profile is a welfare optimum", instance=WASTEFUL),
    ),
)

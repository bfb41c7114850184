"""Theorem 4 and the sentences round it: when M^E gives everybody its Shapley share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedpact.certificates.claims import Claim
from fedpact.certificates.reciprocity import reciprocity_ratios
from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.paper.results import Judgement
from fedpact.paper.theorems.drawing import any_profile, homogeneous_optimum, renamable_optimum, welfare_optimum
from fedpact.paper.theorems.rationality import optimum_at
from fedpact.paper.theorems.theorem import Condition, Counterexample, Instance, Theorem, stakes
from fedpact.shapley import shapley_values
from fedpact.utils.arrays import FloatArray

EQUAL_CONTRIBUTION = 1e-9  # of the largest contribution


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


# Table 1's W1: any interior profile with this total is an optimum.
LOPSIDED = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02)),
    contributions=np.array([54.0, 0.1857022505, 0.1857022505]),
)
# Weights depend on the distance round the ring only.
RING = optimum_at([[1.0, 2.0, 0.5], [0.5, 1.0, 2.0], [2.0, 0.5, 1.0]], [10.0, 10.0, 10.0], beta=0.3, caps=400.0)
# Table 1's W2 at its optimum.
UNLIKE = optimum_at(
    [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]], [16.8967, 6.1563, 31.2144], beta=0.02, caps=400.0
)
# The best symmetric profile of agents with different costs: the cheapest should do the work.
UNEQUAL_COSTS = Instance(
    federation=Federation(np.ones((3, 3)), costs=[0.05, 0.1, 0.15], caps=400.0, payoff=PowerLaw(0.5)),
    contributions=np.full(3, 1.6940),
)
# Agent 0's data does only harm, its Shapley value is negative, and it pays the others on top of that.
PENALTY = Instance(
    federation=Federation(
        [[1.0, 1.0, 1.0], [-0.4, 1.0, 1.0], [-0.4, 1.0, 1.0]], costs=0.1, caps=1.0, payoff=PowerLaw(0.5)
    ),
    contributions=np.ones(3),
    payments=np.array([-2.0, 1.0, 1.0]),
)

FAIRNESS = (
    Theorem(
        name="lemma-3",
        where="Lemma 3, appendix D",
        statement="Equal agents have an optimum at which all contribute the same, more than nothing.",
        assumptions="all weights 1, equal costs and caps, an interior optimum, standalone optima inside",
        draw=homogeneous_optimum,
        margin=symmetric_optimum,
        counterexample=Counterexample(dropped="equal costs", instance=UNEQUAL_COSTS),
    ),
    Theorem(
        name="theorem-4",
        where="Theorem 4, section 6",
        statement="At a symmetric equilibrium of equal agents M^E gives everybody exactly its Shapley share.",
        assumptions="all weights 1, equal costs and caps, everybody strictly inside and contributing the same",
        draw=homogeneous_optimum,
        margin=share_missed,
        counterexample=Counterexample(dropped="the equilibrium is symmetric", instance=LOPSIDED),
    ),
    Theorem(
        name="theorem-4-wider",
        where="beyond the paper (Theorem 4)",
        statement="M^E gives everybody exactly its Shapley share wherever renaming the agents can put any of them in "
        "any other's place, weights unequal and caps binding or not.",
        assumptions="weights, costs, caps and contributions unchanged under renamings that take every agent to every "
        "other",
        draw=renamable_optimum,
        margin=share_missed,
        counterexample=Counterexample(dropped="renamings leave the weights unchanged", instance=UNLIKE),
    ),
    Theorem(
        name="homogeneous-reciprocity",
        where="section 7.1 and Table 1, first row",
        statement="M^E is perfectly reciprocal in the homogeneous setting, reciprocity being the lowest over all "
        "equilibria.",
        assumptions="all weights 1, equal costs and caps, any interior equilibrium",
        draw=draw_homogeneous,
        margin=lambda instance: reciprocity(instance) - 1.0,
        counterexample=Counterexample(dropped="the equilibrium is symmetric", instance=LOPSIDED),
        condition=Condition(words="only symmetric equilibria are counted", met=is_symmetric),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="only-homogeneous",
        where="section 6, last sentence",
        statement="M^E reaches reciprocity 1 in homogeneous federations only; elsewhere it falls below.",
        assumptions="interior equilibria with weights that differ",
        draw=draw_heterogeneous,
        margin=lambda instance: 1.0 - reciprocity(instance),
        counterexample=Counterexample(dropped="weights differ without any symmetry", instance=RING),
        strict=True,
        expected=Judgement.NOT_CONFIRMED,
    ),
    Theorem(
        name="reciprocity-at-most-one",
        where="section 6, after Theorem 4",
        statement="No payments that balance give everybody more than its Shapley share: r is at most 1.",
        assumptions="payments sum to zero; any profile, weights of any sign",
        draw=draw_payments,
        margin=lambda instance: 1.0 - reciprocity(instance),
        counterexample=Counterexample(dropped="every Shapley value is above zero", instance=PENALTY),
        condition=Condition(words="every Shapley value is above zero", met=shares_are_positive),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="externality-at-most-one",
        where="beyond the paper (section 6)",
        statement="At an optimum M^E never gives everybody more than its Shapley share, negative shares included: "
        "nobody's benefit is below zero.",
        assumptions="the profile is a welfare optimum; weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True),
        margin=lambda instance: 1.0 - reciprocity(instance),
        counterexample=Counterexample(dropped="payments are those of M^E", instance=PENALTY),
    ),
)

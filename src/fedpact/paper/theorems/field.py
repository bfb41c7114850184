"""What other papers claim of their mechanisms: the ones `fedpact.mechanisms` has, held to it in the same way."""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation, PowerLaw
from fedpact.mechanisms import (
    AccuracyShaping,
    CostSharing,
    EqualSplit,
    LeaveOneOut,
    Mechanism,
    Nucleolus,
    SemivalueMechanism,
)
from fedpact.paper.theorems.drawing import MAX_AGENTS, homogeneous_optimum, welfare_optimum
from fedpact.paper.theorems.groups import best_welfare
from fedpact.paper.theorems.optimality import ALL_CAPPED
from fedpact.paper.theorems.theorem import Counterexample, Instance, Theorem, stakes
from fedpact.solvers.groups import group_optima
from fedpact.solvers.standalone import standalone_optimum

MAX_HALVINGS = 60
SMALLEST_STEP = 1e-6  # of a cap: what a smaller one costs is lost in rounding, utility being flat at its best
WITHOUT_HARM = "weights at least zero; any payoff family of the package, convex costs, agents at zero or at caps"
NO_HARM = "no weight is negative"
# The nucleolus is known to 1e-9 of v(N), which is at most what is at stake for all agents together.
NUCLEOLUS_ROUNDING = 1e-9 * MAX_AGENTS

# Two pairs that help each other and harm the other pair: apart they reach more than together.
_FOES = Federation(
    [[1.0, 1.0, -0.4, -0.4], [1.0, 1.0, -0.4, -0.4], [-0.4, -0.4, 1.0, 1.0], [-0.4, -0.4, 1.0, 1.0]],
    costs=0.1, caps=1.0, payoff=PowerLaw(0.5),
)  # fmt: skip
FOES = Instance(federation=_FOES, contributions=np.ones(4))
# Two who harm each other: each has more alone than it adds.
ENEMIES = Instance(
    federation=Federation([[1.0, -0.5], [-0.5, 1.0]], costs=0.1, caps=1.0, payoff=PowerLaw(0.5)),
    contributions=np.ones(2),
)
# The first is of use to the others and has nothing from them: only money makes it bring more than it would alone.
_DONOR = Federation(
    [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]], costs=0.02, caps=100.0, payoff=PowerLaw(0.5)
)  # fmt: skip
DONOR = Instance(federation=_DONOR, contributions=np.full(3, 8.0), other=np.array([20.0, 0.0, 0.0]))
UNEQUAL = Instance(
    federation=Federation([[1.0, 0.1], [1.0, 1.0]], costs=[0.02, 0.2], caps=100.0, payoff=PowerLaw(0.5)),
    contributions=np.array([9.0, 0.5]),
)


def gain_by_deviating(instance: Instance, mechanism: Mechanism) -> float:
    """The most anybody gains by another contribution under a mechanism, as a share of what is at stake."""
    federation, profile = instance.federation, instance.contributions
    has = mechanism.payoffs(federation.arrays, profile) - federation.costs.value(profile)
    has = has + mechanism.payments(federation.arrays, profile)
    return float((mechanism.deviations(federation, profile).utilities - has).max()) / stakes(instance)


def least_added(instance: Instance) -> float:
    """The lowest v(N) - v(N without i) - v(i): what VCG leaves everybody beyond what it has alone."""
    federation = instance.federation
    without = group_optima(federation, ~np.eye(federation.n_agents, dtype=bool)).values
    return float((best_welfare(instance) - without - standalone_optimum(federation)[1]).min()) / stakes(instance)


def shared_surplus(instance: Instance) -> float:
    """(v(N) - sum of v(i)) / n: what Nash bargaining gives everybody beyond what it has alone."""
    federation = instance.federation
    gained = best_welfare(instance) - float(standalone_optimum(federation)[1].sum())
    return gained / federation.n_agents / stakes(instance)


def nucleolus_kept(instance: Instance) -> float:
    """What the group least content with the nucleolus has beyond what it reaches by itself."""
    federation = instance.federation
    utilities = Nucleolus().target_utilities(federation, instance.contributions)
    return -float(group_optima(federation).gains(utilities)[1:].max()) / stakes(instance)


def data_beyond(instance: Instance) -> float:
    """By how much anybody brings more under accuracy shaping than at the other profile, of all contributions."""
    most = AccuracyShaping().solve(instance.federation).contributions
    assert instance.other is not None
    total = float(most.sum() + instance.other.sum())
    return float((most - instance.other).min()) / total if total > 0 else 0.0


def kept_without_money(rng: np.random.Generator) -> Instance:
    """A federation, and as its other profile one at which everybody does as well as alone and nobody is paid."""
    drawn = welfare_optimum(rng, edges=True, few=True)
    federation = drawn.federation
    alone, had = standalone_optimum(federation)
    step = rng.uniform(0.0, 1.0, federation.n_agents) * (federation.caps - alone)
    for _ in range(MAX_HALVINGS):
        tried = np.minimum(alone + step, federation.caps)
        short = federation.payoffs(tried) - federation.costs.value(tried) < had
        if not short.any():
            break
        step = np.where(short, 0.5, 0.9) * step
        step[step < SMALLEST_STEP * federation.caps] = 0.0
    else:
        tried = alone
    return Instance(federation=federation, contributions=drawn.contributions, other=tried)


FIELD = (
    Theorem(
        name="cost-sharing-optimal",
        where="Murhekar et al. 2023",
        statement="Among members who are all alike, M^BG with the factor 1 - 1/n makes the welfare optimum an "
        "equilibrium.",
        assumptions="the homogeneous federation, everybody strictly between zero and its cap",
        draw=homogeneous_optimum,
        margin=lambda instance: -gain_by_deviating(instance, CostSharing()),
        counterexample=Counterexample(dropped="all members are alike", instance=UNEQUAL),
    ),
    Theorem(
        name="shaping-most-data",
        where="Karimireddy et al. 2022",
        statement="Under accuracy shaping nobody brings less than under any rule without money that leaves everybody "
        "at least what it has alone.",
        assumptions="weights at least zero, power-law payoffs, linear costs, agents at zero or at caps",
        draw=kept_without_money,
        margin=data_beyond,
        counterexample=Counterexample(dropped="nobody is paid", instance=DONOR),
    ),
    Theorem(
        name="vcg-keeps",
        where="Clarke 1971, Groves 1973",
        statement="Where everybody has what it adds to the others, nobody has less than alone.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=least_added,
        counterexample=Counterexample(dropped=NO_HARM, instance=ENEMIES),
    ),
    Theorem(
        name="leave-one-out-optimal",
        where="Vickrey 1961, as a payment for data",
        statement="Where everybody has what its data adds to the payoffs of all, the welfare optima are equilibria.",
        assumptions="any weights, any payoff family of the package, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True, few=True),
        margin=lambda instance: -gain_by_deviating(instance, LeaveOneOut()),
        counterexample=Counterexample(
            dropped="everybody is in the group that it adds to (Banzhaf: half of the others are)",
            instance=UNEQUAL,
            margin=lambda instance: -gain_by_deviating(instance, SemivalueMechanism()),
        ),
    ),
    Theorem(
        name="teams-shirk",
        where="Holmstrom 1982",
        statement="Where all payoffs are split equally, a welfare optimum strictly inside the caps is no equilibrium.",
        assumptions="any weights, power-law payoffs, linear costs, everybody strictly between zero and its cap",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=lambda instance: gain_by_deviating(instance, EqualSplit()),
        counterexample=Counterexample(dropped="the optimum is strictly inside the caps", instance=ALL_CAPPED),
        strict=True,
    ),
    Theorem(
        name="nash-bargaining-keeps",
        where="Nash 1950",
        statement="Sharing the gain of all equally leaves nobody with less than it has alone.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=shared_surplus,
        counterexample=Counterexample(dropped=NO_HARM, instance=ENEMIES),
    ),
    Theorem(
        name="nucleolus-core",
        where="Schmeidler 1969",
        statement="The nucleolus is in the core, where this is not empty, as it never is without harm.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=nucleolus_kept,
        rounding=NUCLEOLUS_ROUNDING,
        counterexample=Counterexample(dropped=NO_HARM, instance=FOES),
    ),
)

"""Claims beyond the paper, and of other papers on their mechanisms; and for every claim a counterexample.

A counterexample is a federation in plain numbers that lacks one assumption and at which the claim fails: a check that
cannot fail would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.deviations import price_taking
from fedpact.federation import Federation, Payoff, PowerLaw
from fedpact.mechanisms import (
    AccuracyShaping,
    CostSharing,
    EqualSplit,
    LeaveOneOut,
    Mechanism,
    Nucleolus,
    SemivalueMechanism,
    ShapleyMechanism,
)
from fedpact.paper import theorems
from fedpact.paper.theorems import (
    MAX_AGENTS,
    Instance,
    Margin,
    Theorem,
    _beta,
    _with_costs,
    any_profile,
    earned_by_shapley,
    earned_socially,
    externality_payments,
    gaps,
    homogeneous_optimum,
    interior_payments,
    renamable_optimum,
    shapley_equilibrium,
    shapley_gap,
    share_missed,
    signs,
    stakes,
    utilities,
    welfare_optimum,
)
from fedpact.shapley import shapley_values
from fedpact.solvers.groups import group_optima, standalone_optimum
from fedpact.solvers.welfare import optimum_at
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Counterexample:
    """An instance that lacks one assumption.

    Attributes
    ----------
    dropped
        The assumption it lacks, in words.
    margin
        Where the dropped assumption is a rule, such as how payments are made, the claim under the other rule.
    """

    dropped: str
    instance: Instance
    margin: Margin | None = None


def many(draw: Callable[[np.random.Generator], Instance], *, seed: int, count: int) -> Iterator[Instance]:
    """`count` instances from one seed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield draw(rng)


def optima_of_types(rng: np.random.Generator, *, canonical: bool = False) -> Instance:
    """A federation with twins, whose optima form a face: one of them, or the canonical; `other` is a second optimum.

    What agents are to each other depends on their types only, and there are fewer types than agents.
    """
    n_types, beta = int(rng.integers(1, 4)), _beta(rng)
    types = np.concatenate([np.arange(n_types), rng.integers(0, n_types, int(rng.integers(1, 5)))])
    between = rng.uniform(0.05, 2.0, (n_types, n_types))
    np.fill_diagonal(between, 1.0)
    weights = between[np.ix_(types, types)]
    profile = np.exp(rng.uniform(-1.0, 2.0, types.size))
    room = np.exp(rng.uniform(0.1, 1.5, n_types)) * np.array([profile[types == kind].max() for kind in range(n_types)])
    blank = Federation(weights, costs=1.0, caps=room[types], payoff=PowerLaw(beta))
    federation = _with_costs(blank, earned_socially(blank, profile))
    other = _along_face(rng, weights, profile, federation.caps)
    best = optimum_at(federation, profile).contributions if canonical else profile
    return Instance(federation=federation, contributions=best, other=other)


def _along_face(rng: np.random.Generator, weights: FloatArray, profile: FloatArray, caps: FloatArray) -> FloatArray:
    """From an interior profile in a random direction that changes nobody's reach, up to the first bound."""
    _, singular, rows = np.linalg.svd(weights)
    still = rows[(singular > 1e-12 * singular[0]).sum() :]
    direction = rng.normal(size=still.shape[0]) @ still
    direction = np.where(np.abs(direction) > 1e-9 * np.abs(direction).max(), direction, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(direction > 0, caps - profile, -profile) / direction
    return np.clip(profile + room[direction != 0].min() * direction, 0.0, caps)


def draw_meeting(rng: np.random.Generator) -> Instance:
    """A Shapley equilibrium, agents at bounds allowed, in which data of somebody strictly inside meets other data."""
    while True:
        instance = shapley_equilibrium(rng, edges=True)
        used = instance.federation.weights > 0
        others = instance.federation.data(instance.contributions)[:, None] > (
            instance.federation.weights * instance.contributions
        )
        if (used & others)[:, theorems.inside(instance)].any():
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


def externality_gap(instance: Instance) -> float:
    """The lowest gap under M^E."""
    return float(gaps(instance, externality_payments(instance)).min())


def lowest_utility(instance: Instance) -> float:
    """The lowest utility under M^E, as a share of what is at stake."""
    return float(utilities(instance, externality_payments(instance)).min()) / stakes(instance)


def same_sign(instance: Instance) -> float:
    """The lowest sign(T_i) Delta_i."""
    return float((signs(instance) * gaps(instance, externality_payments(instance))).min())


def harmless(instance: Instance) -> NDArray[np.bool_]:
    """Who has T_i >= 0."""
    return np.asarray(instance.federation.net_externality(instance.contributions) >= 0)


def gap_of_the_harmless(instance: Instance) -> float:
    """The lowest gap among the agents with T_i >= 0."""
    return float(np.min(gaps(instance, externality_payments(instance))[harmless(instance)], initial=np.inf))


def unbalanced_gap_of_the_harmless(instance: Instance) -> float:
    """The same when payments follow equation (12)."""
    return float(np.min(gaps(instance, interior_payments(instance))[harmless(instance)], initial=np.inf))


def with_optimum(
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


# Agent 0 helps two of the others a little, harms the third, and is strictly theorems.inside.
HARMFUL = with_optimum(
    [[1.0, 0.1, 0.1, 0.1], [0.05, 1.0, 1.0, 1.0], [0.05, 1.0, 1.0, 1.0], [-0.4, 1.0, 1.0, 1.0]],
    [1.0, 1.0, 1.0, 1.0],
    beta=0.5,
    caps=[2.0, 4.0, 4.0, 4.0],
)


# Agent 0 harms agent 3 and is harmed: xi_0 < 1, T_0 < 0, and yet it gains, for it is paid for the harm done to it.
HARMED = with_optimum(
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


# Table 1's W1: any interior profile with this total is an optimum.
LOPSIDED = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02)),
    contributions=np.array([54.0, 0.1857022505, 0.1857022505]),
)


# Weights depend on the distance round the ring only.
RING = with_optimum([[1.0, 2.0, 0.5], [0.5, 1.0, 2.0], [2.0, 0.5, 1.0]], [10.0, 10.0, 10.0], beta=0.3, caps=400.0)


# Table 1's W2 at its optimum.
UNLIKE = with_optimum(
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


class Guessing(PowerLaw):
    """A power law on top of what guessing gets right without any data, one time in ten."""

    def value(self, y: FloatArray) -> FloatArray:
        """0.1 + g(y)."""
        return 0.1 + super().value(y)


def interior_formula_balance(instance: Instance) -> float:
    """Minus |sum p_i| by equation (12)."""
    return -abs(float(interior_payments(instance).sum())) / stakes(instance)


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


Gains = Callable[[Federation, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Proportional(Payoff):
    """g(y) = y: concave, but not strictly."""

    family: ClassVar[str] = "proportional"

    def value(self, y: FloatArray) -> FloatArray:
        """g(y)."""
        return np.asarray(y)

    def slope(self, y: FloatArray) -> FloatArray:
        """1 everywhere."""
        return np.ones_like(y)

    def curvature(self, y: FloatArray) -> FloatArray:
        """0 everywhere."""
        return np.zeros_like(y)

    @property
    def floor(self) -> float:
        """There is none."""
        return -np.inf


def second(instance: Instance) -> FloatArray:
    """The other profile of the instance."""
    assert instance.other is not None
    return instance.other


def shapley_gains(federation: Federation, contributions: FloatArray) -> FloatArray:
    """phi_i."""
    return shapley_values(federation, contributions, method="enumeration").values


def round_a_cycle(instance: Instance, gains: Gains) -> float:
    """Minus what two agents gain by moving in turn to the other profile and back, each counted when it moves.

    Monderer and Shapley (1996): a game has an exact potential if and only if every such cycle adds up to zero. What
    data costs its owner cancels.
    """
    start, end = instance.contributions, second(instance)
    corners = [start.copy() for _ in range(4)]
    corners[1][0] = corners[2][0] = end[0]
    corners[2][1] = corners[3][1] = end[1]
    worth = [gains(instance.federation, corner) for corner in corners]
    total = (worth[1] - worth[0])[0] + (worth[2] - worth[1])[1] + (worth[3] - worth[2])[0] + (worth[0] - worth[3])[1]
    return -abs(float(total)) / stakes(instance)


def pulls_together(instance: Instance, earned: Gains) -> float:
    """-(t - s) (F(t) - F(s)) with F_i = du_i/ds_i, as a share of its terms: above zero not both are equilibria.

    At two equilibria F(s) (t - s) <= 0 and F(t) (s - t) <= 0, so the product would be at least zero (Rosen 1965).
    """
    federation, start, end = instance.federation, instance.contributions, second(instance)
    forces = [earned(federation, profile) - federation.costs.slope(profile) for profile in (start, end)]
    terms = (end - start) * (forces[1] - forces[0])
    return -float(terms.sum() / np.abs((end - start) * (np.abs(forces[0]) + np.abs(forces[1]))).sum())


def earned_without_payments(federation: Federation, contributions: FloatArray) -> FloatArray:
    """w_ii a_i': what one more sample is worth to its owner alone."""
    return federation.weights.diagonal() * federation.marginal_payoffs(contributions)


def draw_other(rng: np.random.Generator) -> Instance:
    """An optimum, with harm and bounds, and any profile within the caps at which reaches differ."""
    instance = welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True)
    place = np.clip(rng.uniform(-0.2, 1.2, instance.federation.n_agents), 0.0, 1.0) * instance.federation.caps
    step = rng.uniform(0.1, 1.0)
    return replace(instance, other=instance.contributions + step * (place - instance.contributions))


def less_elsewhere(instance: Instance) -> float:
    """How much welfare is lost at a profile of another reach."""
    federation = instance.federation
    lost = federation.welfare(instance.contributions) - federation.welfare(second(instance))
    return float(lost) / stakes(instance)


def same_on_the_face(instance: Instance) -> float:
    """Minus the difference in welfare, cost or reach between two profiles that should both be optimal."""
    federation, here, there = instance.federation, instance.contributions, second(instance)
    reach = np.abs(federation.reach(there) / federation.reach(here) - 1.0).max()
    welfare = abs(federation.welfare(there) - federation.welfare(here)) / stakes(instance)
    off = 0.0 if optimum_at(federation, here).face.holds(there) else 1.0
    return -float(max(reach, welfare, off))


def utility_moved(instance: Instance) -> float:
    """Minus the largest change in anybody's utility under M^E from one profile to the other."""
    federation = instance.federation
    here, there = (
        federation.payoffs(profile) - federation.costs.value(profile) + federation.arrays.price_payments(profile)
        for profile in (instance.contributions, second(instance))
    )
    return -float(np.abs(here - there).max()) / stakes(instance)


def treats_alike(instance: Instance) -> float:
    """Minus how differently twins contribute, and how far off the agents renamed, from another optimum, end up."""
    federation, here = instance.federation, instance.contributions
    weights = federation.weights
    same = (weights[:, :, None] == weights[:, None, :]).all(axis=0) & (
        federation.costs.linear[:, None] == federation.costs.linear
    )
    apart = (np.abs(here[:, None] - here[None, :]) * same).max()
    backwards = np.arange(here.size)[::-1]
    renamed = optimum_at(federation.take(backwards), second(instance)[backwards]).contributions
    return -float(max(apart, np.abs(renamed - here[backwards]).max()) / here.max())


# Two of three agents' free-riding equilibria: whoever contributes serves all the others twice over.
FREE_RIDERS = Instance(
    federation=Federation(
        [[1.0, 2.0, 2.0], [2.0, 1.0, 2.0], [2.0, 2.0, 1.0]], costs=0.125, caps=10.0, payoff=PowerLaw(1.0)
    ),
    contributions=np.array([1.8284271247461903, 0.0, 0.0]),
    other=np.array([0.0, 1.8284271247461903, 0.0]),
)


# What unlike agents gain without payments depends on who moves first.
UNPAID = Instance(
    federation=Federation(
        [[1.0, 2.0, 0.5], [0.2, 1.0, 0.5], [1.0, 1.0, 1.0]], costs=0.1, caps=10.0, payoff=PowerLaw(0.5)
    ),
    contributions=np.array([1.0, 1.0, 1.0]),
    other=np.array([4.0, 3.0, 1.0]),
)


# Every sample is worth what it costs, however many there are.
FLAT = Instance(
    federation=Federation(np.ones((3, 3)), costs=3.0, caps=10.0, payoff=Proportional()),
    contributions=np.ones(3),
    other=np.array([2.0, 2.0, 2.0]),
)


# Data of the same use, twice as dear from agent 1.
DEARER_TWIN = Instance(
    federation=Federation(np.ones((3, 3)), costs=[0.1, 0.2, 0.3], caps=20.0, payoff=PowerLaw(0.5)),
    contributions=np.array([5.082202, 0.0, 0.0]),
    other=np.array([0.0, 5.082202, 0.0]),
)


# An optimum of the homogeneous federation at which agent 0 does all the work.
ONE_DOES_ALL = Instance(
    federation=Federation(np.ones((3, 3)), costs=0.1, caps=20.0, payoff=PowerLaw(0.5)),
    contributions=np.array([5.0822019955734, 0.0, 0.0]),
    other=np.array([0.0, 5.0822019955734, 0.0]),
)


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


_BEYOND = (
    Theorem(
        name="theorem-1-one-inside",
        where="beyond the paper (Theorem 1 and Corollary 1)",
        statement="One agent strictly inside is enough: if its data meets anybody else's at some receiver, the Shapley "
        "equilibrium is not optimal, and no optimum has everybody contribute as much.",
        assumptions="weights at least zero; nothing about beneficiaries; the other agents may be at zero or at caps",
        draw=draw_meeting,
        margin=theorems.over_contribution,
        strict=True,
    ),
    Theorem(
        name="theorem-2-wider",
        where="beyond the paper (Theorem 2)",
        statement="Under M^Shap everybody does at least as well as alone if nobody's data is worth less to another "
        "than to itself, whatever costs and caps are.",
        assumptions="w_ji >= w_ii for all i and j; agents at zero or at caps allowed",
        draw=lambda rng: shapley_equilibrium(rng, edges=True, least=1.0),
        margin=shapley_gap,
    ),
    Theorem(
        name="theorem-3-wider",
        where="beyond the paper (Theorem 3; section 9)",
        statement="With payments that carry the caps' multipliers Theorem 3 needs no interior anything: no weight "
        "below zero is enough.",
        assumptions="weights at least zero; any concave payoff family, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True),
        margin=externality_gap,
    ),
    Theorem(
        name="harmless-gain",
        where="beyond the paper (Proposition 1)",
        statement="Whoever does the others no harm on net does at least as well under M^E as alone, at every optimum.",
        assumptions="T_i >= 0 for the agent spoken of; weights of any sign, any reach, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True, wide=True),
        margin=gap_of_the_harmless,
    ),
    Theorem(
        name="no-negative-utility",
        where="beyond the paper (the remark in section 2.2)",
        statement="Nobody's utility is below zero at an optimum under M^E, however much it harms or is harmed.",
        assumptions="the profile is a welfare optimum; weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True, wide=True),
        margin=lowest_utility,
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
    ),
    Theorem(
        name="externality-at-most-one",
        where="beyond the paper (section 6)",
        statement="At an optimum M^E never gives everybody more than its Shapley share, negative shares included: "
        "nobody's benefit is below zero.",
        assumptions="the profile is a welfare optimum; weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=True, edges=True),
        margin=lambda instance: 1.0 - theorems.reciprocity(instance),
    ),
    Theorem(
        name="boundary-payments",
        where="beyond the paper (equations (11) and (12))",
        statement="At every welfare optimum the payments c_i' s_i - a_i' (xi_i - 1) + mu_i s_i, mu_i the multiplier of "
        "the cap, sum to zero, and at the prices behind them nobody would ask for another profile.",
        assumptions="any family, convex costs, weights of any sign, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True),
        margin=boundary_deal,
    ),
    Theorem(
        name="core",
        where="beyond the paper (Theorem 3)",
        statement="Under M^E no group does better by leaving together. For groups of one this is Theorem 3, without "
        "interior optima or three beneficiaries.",
        assumptions="weights at least zero; any concave payoff family, convex costs, any beneficiaries, agents at zero "
        "or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=loss_of_groups,
    ),
    Theorem(
        name="marginal-contribution",
        where="beyond the paper",
        statement="Under M^E nobody has more than it adds to what the others reach by themselves. So paying everybody "
        "what it adds, as VCG does, runs a deficit.",
        assumptions="weights at least zero; any concave payoff family, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=marginal_contribution_kept,
    ),
    Theorem(
        name="shapley-not-core",
        where="beyond the paper (Theorem 1)",
        statement="An interior equilibrium of M^Shap is not in the core: everybody together gains by another deal.",
        assumptions="weights at least zero, everybody strictly between zero and its cap",
        draw=shapley_equilibrium,
        margin=gain_of_all_from_shapley,
        strict=True,
    ),
    Theorem(
        name="potential",
        where="beyond the paper (section 3.1)",
        statement="The game of M^Shap has an exact potential.",
        assumptions="paid by Shapley value; any family, convex costs, weights of any sign",
        draw=any_profile,
        margin=lambda instance: round_a_cycle(instance, shapley_gains),
    ),
    Theorem(
        name="one-equilibrium",
        where="beyond the paper (section 3.1)",
        statement="That potential is strictly concave, so M^Shap has exactly one equilibrium.",
        assumptions="paid by Shapley value; any family, convex costs, weights of any sign",
        draw=any_profile,
        margin=lambda instance: pulls_together(instance, earned_by_shapley),
        strict=True,
    ),
    Theorem(
        name="one-reach",
        where="beyond the paper (section 3.2)",
        statement="Everybody reaches the same data at every welfare optimum: other reaches mean less welfare.",
        assumptions="strictly concave payoffs; weights of any sign, agents at zero or at caps",
        draw=draw_other,
        margin=less_elsewhere,
        strict=True,
    ),
    Theorem(
        name="polytope",
        where="beyond the paper (section 3.2)",
        statement="The optima are a polytope: all profiles within the caps of that reach and that cost.",
        assumptions="strictly concave payoffs; the profiles have the same reach and cost",
        draw=optima_of_types,
        margin=same_on_the_face,
    ),
    Theorem(
        name="same-utilities",
        where="beyond the paper (section 3.2)",
        statement="Everybody's utility under M^E is the same at every welfare optimum: the choice among them moves "
        "work and payments only.",
        assumptions="linear costs; both profiles are optimal",
        draw=optima_of_types,
        margin=utility_moved,
    ),
    Theorem(
        name="canonical-optimum",
        where="beyond the paper (section 3.2)",
        statement="The optimum of smallest norm treats twins alike, and renaming the agents permutes it.",
        assumptions="of all the optima, the one of smallest norm",
        draw=lambda rng: optima_of_types(rng, canonical=True),
        margin=treats_alike,
    ),
    Theorem(
        name="cost-sharing-optimal",
        where="Murhekar et al. 2023",
        statement="Among members who are all alike, M^BG with the factor 1 - 1/n makes the welfare optimum an "
        "equilibrium.",
        assumptions="the homogeneous federation, everybody strictly between zero and its cap",
        draw=homogeneous_optimum,
        margin=lambda instance: -gain_by_deviating(instance, CostSharing()),
    ),
    Theorem(
        name="shaping-most-data",
        where="Karimireddy et al. 2022",
        statement="Under accuracy shaping nobody brings less than under any rule without money that leaves everybody "
        "at least what it has alone.",
        assumptions="weights at least zero, power-law payoffs, linear costs, agents at zero or at caps",
        draw=kept_without_money,
        margin=data_beyond,
    ),
    Theorem(
        name="vcg-keeps",
        where="Clarke 1971, Groves 1973",
        statement="Where everybody has what it adds to the others, nobody has less than alone.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=least_added,
    ),
    Theorem(
        name="leave-one-out-optimal",
        where="Vickrey 1961, as a payment for data",
        statement="Where everybody has what its data adds to the payoffs of all, the welfare optima are equilibria.",
        assumptions="any weights, any payoff family of the package, convex costs, agents at zero or at caps",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2)), edges=True, wide=True, few=True),
        margin=lambda instance: -gain_by_deviating(instance, LeaveOneOut()),
    ),
    Theorem(
        name="teams-shirk",
        where="Holmstrom 1982",
        statement="Where all payoffs are split equally, a welfare optimum strictly inside the caps is no equilibrium.",
        assumptions="any weights, power-law payoffs, linear costs, everybody strictly between zero and its cap",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=lambda instance: gain_by_deviating(instance, EqualSplit()),
        strict=True,
    ),
    Theorem(
        name="nash-bargaining-keeps",
        where="Nash 1950",
        statement="Sharing the gain of all equally leaves nobody with less than it has alone.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=shared_surplus,
    ),
    Theorem(
        name="nucleolus-core",
        where="Schmeidler 1969",
        statement="The nucleolus is in the core, where this is not empty, as it never is without harm.",
        assumptions=WITHOUT_HARM,
        draw=lambda rng: welfare_optimum(rng, edges=True, wide=True, few=True),
        margin=nucleolus_kept,
        rounding=NUCLEOLUS_ROUNDING,
    ),
)
CLAIMS: Mapping[str, Theorem] = dict(theorems.THEOREMS) | {claim.name: claim for claim in _BEYOND}

COUNTEREXAMPLES: Mapping[str, Counterexample] = {
    "theorem-1": Counterexample(dropped="no weight is negative", instance=OPTIMAL_RING),
    "theorem-1-one-inside": Counterexample(dropped="somebody is strictly inside", instance=ALL_CAPPED),
    "corollary-1": Counterexample(dropped="no weight is negative", instance=TIMID_RING),
    "corollary-1-total": Counterexample(dropped="the equilibrium is interior", instance=ALL_CAPPED),
    "theorem-2": Counterexample(dropped="the others' data is worth as much as one's own", instance=STRANGERS),
    "theorem-2-wider": Counterexample(dropped="w_ji >= w_ii", instance=NARROW),
    "equal-agents": Counterexample(dropped="the others' data is worth as much as one's own", instance=STRANGERS),
    "lemma-2": Counterexample(dropped="no weight is negative", instance=HARMFUL),
    "theorem-3": Counterexample(dropped="the optimum is interior", instance=SCARCE),
    "theorem-3-wider": Counterexample(dropped="no weight is negative", instance=HARMFUL),
    "proposition-1": Counterexample(dropped="xi_i >= 1", instance=HARMED, margin=same_sign),
    "harmless-gain": Counterexample(
        dropped="payments carry the caps' multipliers", instance=SCARCE, margin=unbalanced_gap_of_the_harmless
    ),
    "harmful-lose": Counterexample(dropped="the agent contributes something", instance=IDLE),
    "no-negative-utility": Counterexample(dropped="the profile is a welfare optimum", instance=WASTEFUL),
    "lemma-3": Counterexample(dropped="equal costs", instance=UNEQUAL_COSTS),
    "theorem-4": Counterexample(dropped="the equilibrium is symmetric", instance=LOPSIDED),
    "theorem-4-wider": Counterexample(dropped="renamings leave the weights unchanged", instance=UNLIKE),
    "homogeneous-reciprocity": Counterexample(dropped="the equilibrium is symmetric", instance=LOPSIDED),
    "only-homogeneous": Counterexample(dropped="weights differ without any symmetry", instance=RING),
    "reciprocity-at-most-one": Counterexample(dropped="every Shapley value is above zero", instance=PENALTY),
    "externality-at-most-one": Counterexample(dropped="payments are those of M^E", instance=PENALTY),
    "equation-11": Counterexample(dropped="the optimum is interior", instance=SCARCE),
    "equation-12": Counterexample(dropped="the optimum is interior", instance=SCARCE),
    "balance-shapley": Counterexample(dropped="no payoff without data", instance=GUESSED),
    "balance-externality": Counterexample(
        dropped="own prices make columns sum to zero (equation (12) instead, off the optimum)",
        instance=WASTEFUL,
        margin=interior_formula_balance,
    ),
    "boundary-payments": Counterexample(
        dropped="the multiplier is part of the payment", instance=SCARCE, margin=interior_formula_balance
    ),
    "core": Counterexample(dropped="no weight is negative", instance=HARMFUL),
    "marginal-contribution": Counterexample(dropped="no weight is negative", instance=HARMED),
    "shapley-not-core": Counterexample(dropped="the equilibrium is interior", instance=ALL_CAPPED),
    "potential": Counterexample(
        dropped="paid by Shapley value (no payments instead)",
        instance=UNPAID,
        margin=lambda instance: round_a_cycle(instance, lambda federation, profile: federation.payoffs(profile)),
    ),
    "one-equilibrium": Counterexample(
        dropped="paid by Shapley value (no payments instead)",
        instance=FREE_RIDERS,
        margin=lambda instance: pulls_together(instance, earned_without_payments),
    ),
    "one-reach": Counterexample(dropped="payoffs are strictly concave", instance=FLAT),
    "polytope": Counterexample(dropped="the profiles cost the same", instance=DEARER_TWIN),
    "same-utilities": Counterexample(dropped="both profiles are optimal", instance=DEARER_TWIN),
    "canonical-optimum": Counterexample(dropped="the optimum has the smallest norm", instance=ONE_DOES_ALL),
    "cost-sharing-optimal": Counterexample(dropped="all members are alike", instance=UNEQUAL),
    "shaping-most-data": Counterexample(dropped="nobody is paid", instance=DONOR),
    "vcg-keeps": Counterexample(dropped=NO_HARM, instance=ENEMIES),
    "leave-one-out-optimal": Counterexample(
        dropped="everybody is in the group that it adds to (Banzhaf: half of the others are)",
        instance=UNEQUAL,
        margin=lambda instance: -gain_by_deviating(instance, SemivalueMechanism()),
    ),
    "teams-shirk": Counterexample(dropped="the optimum is strictly inside the caps", instance=ALL_CAPPED),
    "nash-bargaining-keeps": Counterexample(dropped=NO_HARM, instance=ENEMIES),
    "nucleolus-core": Counterexample(dropped=NO_HARM, instance=FOES),
}

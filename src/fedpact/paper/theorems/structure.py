"""Beyond the paper: the potential of M^Shap, its one equilibrium, and the set of welfare optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedpact.federation import Federation, Payoff, PowerLaw
from fedpact.paper.theorems.drawing import any_profile, earned_by_shapley, optima_of_types, welfare_optimum
from fedpact.paper.theorems.theorem import Counterexample, Instance, Theorem, stakes
from fedpact.shapley import shapley_values
from fedpact.solvers.welfare import optimum_at
from fedpact.utils.arrays import FloatArray

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

STRUCTURE = (
    Theorem(
        name="potential",
        where="beyond the paper (section 3.1)",
        statement="The game of M^Shap has an exact potential.",
        assumptions="paid by Shapley value; any family, convex costs, weights of any sign",
        draw=any_profile,
        margin=lambda instance: round_a_cycle(instance, shapley_gains),
        counterexample=Counterexample(
            dropped="paid by Shapley value (no payments instead)",
            instance=UNPAID,
            margin=lambda instance: round_a_cycle(instance, lambda federation, profile: federation.payoffs(profile)),
        ),
    ),
    Theorem(
        name="one-equilibrium",
        where="beyond the paper (section 3.1)",
        statement="That potential is strictly concave, so M^Shap has exactly one equilibrium.",
        assumptions="paid by Shapley value; any family, convex costs, weights of any sign",
        draw=any_profile,
        margin=lambda instance: pulls_together(instance, earned_by_shapley),
        counterexample=Counterexample(
            dropped="paid by Shapley value (no payments instead)",
            instance=FREE_RIDERS,
            margin=lambda instance: pulls_together(instance, earned_without_payments),
        ),
        strict=True,
    ),
    Theorem(
        name="one-reach",
        where="beyond the paper (section 3.2)",
        statement="Everybody reaches the same data at every welfare optimum: other reaches mean less welfare.",
        assumptions="strictly concave payoffs; weights of any sign, agents at zero or at caps",
        draw=draw_other,
        margin=less_elsewhere,
        counterexample=Counterexample(dropped="payoffs are strictly concave", instance=FLAT),
        strict=True,
    ),
    Theorem(
        name="polytope",
        where="beyond the paper (section 3.2)",
        statement="The optima are a polytope: all profiles within the caps of that reach and that cost.",
        assumptions="strictly concave payoffs; the profiles have the same reach and cost",
        draw=optima_of_types,
        margin=same_on_the_face,
        counterexample=Counterexample(dropped="the profiles cost the same", instance=DEARER_TWIN),
    ),
    Theorem(
        name="same-utilities",
        where="beyond the paper (section 3.2)",
        statement="Everybody's utility under M^E is the same at every welfare optimum: the choice among them moves "
        "work and payments only.",
        assumptions="linear costs; both profiles are optimal",
        draw=optima_of_types,
        margin=utility_moved,
        counterexample=Counterexample(dropped="both profiles are optimal", instance=DEARER_TWIN),
    ),
    Theorem(
        name="canonical-optimum",
        where="beyond the paper (section 3.2)",
        statement="The optimum of smallest norm treats twins alike, and renaming the agents permutes it.",
        assumptions="of all the optima, the one of smallest norm",
        draw=lambda rng: optima_of_types(rng, canonical=True),
        margin=treats_alike,
        counterexample=Counterexample(dropped="the optimum has the smallest norm", instance=ONE_DOES_ALL),
    ),
)

"""What a theorem is here: a claim, a way to draw federations it speaks of, and a number that says whether it holds.

A margin is the slack of the claim as a share of what is at stake for the average agent, the mean of |a_i| + c_i, unless
its docstring names another measure. A claim that allows equality holds down to minus the theorem's `rounding`; a strict
one must exceed it. Every theorem keeps a counterexample, a federation in plain numbers that lacks one assumption
and at which the claim fails: a check that cannot fail would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fedpact.federation import Federation
from fedpact.paper.results import Judgement
from fedpact.utils.arrays import FloatArray

# Margins are differences of sums of at most 2^7 numbers of the size of the stakes.
MARGIN_ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """A federation and the profile a claim is about, an equilibrium unless the claim says otherwise.

    Attributes
    ----------
    other
        A second profile, for claims that compare two.
    payments
        For claims about any payments; otherwise they follow from the mechanism.
    """

    federation: Federation
    contributions: FloatArray
    other: FloatArray | None = None
    payments: FloatArray | None = None


Margin = Callable[[Instance], float]


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Condition:
    """What a claim needs beyond what the paper states: in words, and whether an instance meets it."""

    words: str
    met: Callable[[Instance], bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class Theorem:
    """A claim that random federations can refute.

    Attributes
    ----------
    where
        Where the paper makes the claim; "beyond the paper" otherwise.
    statement, assumptions
        The claim and what it rests on, in our words.
    draw
        A random instance that meets the assumptions by construction.
    margin
        The slack of the claim; below zero it fails.
    counterexample
        An instance without one of the assumptions, at which the claim fails.
    strict
        Whether the claim needs a margin above zero.
    condition
        What the claim needs that the paper does not state, where we know of something.
    rounding
        What a margin may be off by: more than sums of numbers are where it comes from a program solved to a tolerance.
    expected
        The judgement we know.
    """

    name: str
    where: str
    statement: str
    assumptions: str
    draw: Callable[[np.random.Generator], Instance]
    margin: Margin
    counterexample: Counterexample
    strict: bool = False
    condition: Condition | None = None
    rounding: float = MARGIN_ROUNDING
    expected: Judgement = Judgement.CONFIRMED

    def holds(self, margin: float) -> bool:
        """Whether a margin is that of a claim that holds; an undefined one is not."""
        return bool(margin > self.rounding) if self.strict else bool(margin >= -self.rounding)

    def counterexample_margin(self) -> float:
        """The margin at the counterexample."""
        return float((self.counterexample.margin or self.margin)(self.counterexample.instance))


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
    """What random federations say of a theorem.

    Attributes
    ----------
    count, failures, worst
        How many instances were checked, at how many the claim fails, and the smallest margin.
    failures_within, worst_within
        The same over the instances that meet the theorem's condition; all of them where it has none.
    counterexample
        The margin at the counterexample.
    """

    theorem: Theorem
    count: int
    failures: int
    worst: float
    failures_within: int
    worst_within: float
    counterexample: float

    @property
    def judgement(self) -> Judgement:
        """Confirmed if nothing refutes it and the counterexample shows that something could have."""
        if self.failures_within or self.theorem.holds(self.counterexample):
            return Judgement.NOT_CONFIRMED
        return Judgement.CONDITIONAL if self.failures else Judgement.CONFIRMED


def check(theorem: Theorem, *, count: int, seed: int) -> Check:
    """Hold a theorem against `count` random instances."""
    rng = np.random.default_rng(seed)
    within: list[float] = []
    outside: list[float] = []
    for _ in range(count):
        instance = theorem.draw(rng)
        met = theorem.condition is None or theorem.condition.met(instance)
        (within if met else outside).append(theorem.margin(instance))
    failed = [sum(not theorem.holds(margin) for margin in margins) for margins in (within, outside)]
    return Check(
        theorem=theorem,
        count=count,
        failures=sum(failed),
        worst=_smallest(within + outside),
        failures_within=failed[0],
        worst_within=_smallest(within),
        counterexample=theorem.counterexample_margin(),
    )


def _smallest(margins: Iterable[float]) -> float:
    return float(np.min(list(margins), initial=np.inf))


def stakes(instance: Instance) -> float:
    """The mean of |a_i| + c_i: what is at stake for the average agent."""
    federation, profile = instance.federation, instance.contributions
    return float((np.abs(federation.payoffs(profile)) + federation.costs.value(profile)).mean())

"""The paper's theorems on random federations: a statement, a way to draw federations it speaks of, and a margin.

A claim that allows equality holds down to minus rounding; a strict one must exceed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.paper import margins
from fedpact.paper.margins import MARGIN_ROUNDING
from fedpact.paper.markdown import pipe_table
from fedpact.paper.random_instances import (
    Instance,
    any_profile,
    homogeneous_optimum,
    homogeneous_shapley,
    shapley_equilibrium,
    welfare_optimum,
)
from fedpact.paper.results import Judgement, PaperFinding, Result, number

THEOREMS_TEXT = """\
Each claim is held against random federations that meet its assumptions by construction: a profile is drawn, and the
costs that make it an equilibrium follow. The margin is the slack of the claim as a share of what is at stake for the
average agent; below zero the claim fails, and a strict claim needs more than zero.

{table}
"""

Margin = Callable[[Instance], float]


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
        Where the paper makes the claim.
    statement, assumptions
        The claim and what it rests on, in our words.
    draw
        A random instance that meets the assumptions by construction.
    margin
        The slack of the claim; below zero it fails.
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
    strict: bool = False
    condition: Condition | None = None
    rounding: float = MARGIN_ROUNDING
    expected: Judgement = Judgement.CONFIRMED

    def holds(self, margin: float) -> bool:
        """Whether a margin is that of a claim that holds; an undefined one is not."""
        return bool(margin > self.rounding) if self.strict else bool(margin >= -self.rounding)


@dataclass(frozen=True, kw_only=True, eq=False)
class Check:
    """What random federations say of a theorem.

    Attributes
    ----------
    count, failures, worst
        How many instances were checked, at how many the claim fails, and the smallest margin.
    failures_within, worst_within
        The same over the instances that meet the theorem's condition; all of them where it has none.
    """

    theorem: Theorem
    count: int
    failures: int
    worst: float
    failures_within: int
    worst_within: float

    @property
    def judgement(self) -> Judgement:
        """Confirmed if nothing refutes it, with a condition if what it takes keeps it from being refuted."""
        if self.failures_within:
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
    failed = [sum(not theorem.holds(margin) for margin in found) for found in (within, outside)]
    return Check(
        theorem=theorem,
        count=count,
        failures=sum(failed),
        worst=min([*within, *outside], default=np.inf),
        failures_within=failed[0],
        worst_within=min(within, default=np.inf),
    )


def theorems_result(*, count: int = 300, seed: int = 1, progress: Callable[[int, int], None] | None = None) -> Result:
    """Hold every theorem against `count` random federations; `progress` is told how many of how many are done."""
    checks = []
    for done, theorem in enumerate(THEOREMS.values()):
        if progress is not None:
            progress(done, len(THEOREMS))
        checks.append(check(theorem, count=count, seed=seed + done))
    if progress is not None:
        progress(len(THEOREMS), len(THEOREMS))
    return Result(
        name="theorems",
        title="The theorems, on random federations",
        columns=_columns(checks),
        findings=[_finding(each) for each in checks],
        text=THEOREMS_TEXT.format(table=_table(checks)),
    )


def _columns(checks: Sequence[Check]) -> dict[str, Sequence[Any]]:
    theorems = [each.theorem for each in checks]
    return {
        "theorem": [theorem.name for theorem in theorems],
        "where": [theorem.where for theorem in theorems],
        "federations": [each.count for each in checks],
        "failures": [each.failures for each in checks],
        "worst_margin": [_settled(each.theorem, each.worst) for each in checks],
        "condition": [theorem.condition.words if theorem.condition else "" for theorem in theorems],
        "failures_within_condition": [each.failures_within for each in checks],
        "worst_margin_within_condition": [_settled(each.theorem, each.worst_within) for each in checks],
        "judgement": [str(each.judgement) for each in checks],
    }


def _finding(found: Check) -> PaperFinding:
    theorem = found.theorem
    return PaperFinding(
        where=theorem.where,
        statement=f"{theorem.statement} Assumed: {theorem.assumptions}.",
        judgement=found.judgement,
        evidence=_evidence(found),
        expected=theorem.expected,
    )


def _evidence(found: Check) -> str:
    theorem = found.theorem
    said = f"{found.failures} of {found.count} random federations refute it, worst margin {_told(theorem, found.worst)}"
    if theorem.condition is not None:
        said += (
            f"; if {theorem.condition.words}: {found.failures_within} refute it, worst margin "
            f"{_told(theorem, found.worst_within)}"
        )
    return f"{said}."


def _table(checks: Sequence[Check]) -> str:
    heads = ("claim", "where", "refuted by", "of", "worst margin")
    rows = [
        (
            each.theorem.name,
            each.theorem.where,
            str(each.failures),
            str(each.count),
            _told(each.theorem, each.worst),
        )
        for each in checks
    ]
    return pipe_table(heads, rows)


def _settled(theorem: Theorem, margin: float) -> float:
    """Six digits, and rounding counts as zero: the same on every machine."""
    return 0.0 if abs(margin) <= theorem.rounding else float(f"{margin:.6g}")


def _told(theorem: Theorem, margin: float) -> str:
    return number(_settled(theorem, margin), ".2g")


_PAPER = (
    Theorem(
        name="theorem-1",
        where="Theorem 1, section 4",
        statement="A Shapley equilibrium strictly inside the caps never maximises welfare.",
        assumptions="weights at least zero, three beneficiaries each, power-law payoffs, linear costs, everybody "
        "strictly between zero and its cap",
        draw=shapley_equilibrium,
        margin=margins.welfare_missed,
        strict=True,
    ),
    Theorem(
        name="corollary-1",
        where="Corollary 1, section 4",
        statement="Against every welfare optimum some agent contributes more at an interior Shapley equilibrium.",
        assumptions="as for Theorem 1",
        draw=shapley_equilibrium,
        margin=margins.over_contribution,
        strict=True,
    ),
    Theorem(
        name="corollary-1-total",
        where="Corollary 1, section 4, second half",
        statement="Equal agents with equal costs contribute more in total at the Shapley equilibrium than is optimal.",
        assumptions="all weights 1, equal costs, everybody strictly inside",
        draw=lambda rng: homogeneous_shapley(rng, edges=False),
        margin=margins.over_contribution_of_equals,
        strict=True,
    ),
    Theorem(
        name="theorem-2",
        where="Theorem 2, section 5",
        statement="Under M^Shap equal agents with interchangeable data all do at least as well as alone.",
        assumptions="all weights 1 and equal costs; caps may differ and may bind",
        draw=homogeneous_shapley,
        margin=margins.shapley_gap,
    ),
    Theorem(
        name="equal-agents",
        where="section 1, third contribution",
        statement="Where agents are alike in data and cost, nobody loses under M^Shap.",
        assumptions="equal agents with equal costs, who value each other's data alike",
        draw=margins.draw_equals,
        margin=margins.shapley_gap,
        condition=Condition(words="the others' data is worth at least one's own", met=margins.values_others_as_self),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="lemma-2",
        where="Lemma 2, appendix C",
        statement="At an optimum without harm everybody reaches at least the data it would gather alone.",
        assumptions="weights at least zero, everybody strictly inside together and alone",
        draw=lambda rng: welfare_optimum(rng, alone=True),
        margin=margins.reach_beyond_alone,
    ),
    Theorem(
        name="theorem-3",
        where="Theorem 3, section 5",
        statement="Under M^E, with payments by equation (12), everybody does at least as well as alone.",
        assumptions="weights at least zero, three beneficiaries each, everybody strictly inside together and alone",
        draw=lambda rng: welfare_optimum(rng, alone=True),
        margin=margins.interior_gap,
    ),
    Theorem(
        name="proposition-1",
        where="Proposition 1, section 8",
        statement="Under M^E an agent gains by taking part exactly if its data does the others good on net.",
        assumptions="weights of any sign with every profile in the domain, everybody strictly inside together and "
        "alone, and xi_i >= 1 for the agent spoken of",
        draw=lambda rng: welfare_optimum(rng, harm=True, alone=True),
        margin=margins.same_sign_where_helped,
    ),
    Theorem(
        name="harmful-lose",
        where="section 9, after Proposition 1",
        statement="Whoever harms the others on net is worse off under M^E than alone.",
        assumptions="weights of any sign with every profile in the domain",
        draw=margins.draw_harmful,
        margin=margins.loss_of_the_harmful,
        strict=True,
        condition=Condition(
            words="the agent is strictly inside, together and alone, and xi_i >= 1", met=margins.harm_is_interior
        ),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="lemma-3",
        where="Lemma 3, appendix D",
        statement="Equal agents have an optimum at which all contribute the same, more than nothing.",
        assumptions="all weights 1, equal costs and caps, an interior optimum, standalone optima inside",
        draw=homogeneous_optimum,
        margin=margins.symmetric_optimum,
    ),
    Theorem(
        name="theorem-4",
        where="Theorem 4, section 6",
        statement="At a symmetric equilibrium of equal agents M^E gives everybody exactly its Shapley share.",
        assumptions="all weights 1, equal costs and caps, everybody strictly inside and contributing the same",
        draw=homogeneous_optimum,
        margin=margins.share_missed,
    ),
    Theorem(
        name="homogeneous-reciprocity",
        where="section 7.1 and Table 1, first row",
        statement="M^E is perfectly reciprocal in the homogeneous setting, reciprocity being the lowest over all "
        "equilibria.",
        assumptions="all weights 1, equal costs and caps, any interior equilibrium",
        draw=margins.draw_homogeneous,
        margin=lambda instance: margins.reciprocity(instance) - 1.0,
        condition=Condition(words="only symmetric equilibria are counted", met=margins.is_symmetric),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="only-homogeneous",
        where="section 6, last sentence",
        statement="M^E reaches reciprocity 1 in homogeneous federations only; elsewhere it falls below.",
        assumptions="interior equilibria with weights that differ",
        draw=margins.draw_heterogeneous,
        margin=lambda instance: 1.0 - margins.reciprocity(instance),
        strict=True,
        expected=Judgement.NOT_CONFIRMED,
    ),
    Theorem(
        name="reciprocity-at-most-one",
        where="section 6, after Theorem 4",
        statement="No payments that balance give everybody more than its Shapley share: r is at most 1.",
        assumptions="payments sum to zero; any profile, weights of any sign",
        draw=margins.draw_payments,
        margin=lambda instance: 1.0 - margins.reciprocity(instance),
        condition=Condition(words="every Shapley value is above zero", met=margins.shares_are_positive),
        expected=Judgement.CONDITIONAL,
    ),
    Theorem(
        name="equation-11",
        where="equation (11), section 3.2",
        statement="The prices are the marginal utilities at the optimum, and for each agent's data they sum to zero.",
        assumptions="an interior welfare optimum",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=margins.prices_are_marginal,
    ),
    Theorem(
        name="equation-12",
        where="equation (12), section 3.2",
        statement="Payments at these prices are c_i' s_i - a_i' (xi_i - 1), and they sum to zero.",
        assumptions="an interior welfare optimum",
        draw=lambda rng: welfare_optimum(rng, harm=bool(rng.integers(2))),
        margin=margins.interior_formula,
    ),
    Theorem(
        name="balance-shapley",
        where="section 3.1",
        statement="Payments under M^Shap sum to zero at every profile.",
        assumptions="nothing is earned without data; any family, weights of any sign",
        draw=any_profile,
        margin=margins.shapley_balance,
    ),
    Theorem(
        name="balance-externality",
        where="section 3.2, last sentence",
        statement="Payments under M^E sum to zero at every profile, optimal or not.",
        assumptions="own prices are l_jj = -sum of the others' for j's data; any family, weights of any sign",
        draw=any_profile,
        margin=margins.externality_balance,
    ),
)
THEOREMS: Mapping[str, Theorem] = {theorem.name: theorem for theorem in _PAPER}

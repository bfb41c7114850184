"""All the theorems, and the result that `fedpact paper theorems` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedpact.paper.judging import number
from fedpact.paper.markdown import pipe_table
from fedpact.paper.results import PaperFinding, Result
from fedpact.paper.theorems.fairness import FAIRNESS
from fedpact.paper.theorems.field import FIELD
from fedpact.paper.theorems.groups import GROUPS
from fedpact.paper.theorems.money import MONEY
from fedpact.paper.theorems.optimality import OPTIMALITY
from fedpact.paper.theorems.rationality import RATIONALITY
from fedpact.paper.theorems.structure import STRUCTURE
from fedpact.paper.theorems.theorem import Check, Theorem, check

THEOREMS: Mapping[str, Theorem] = {
    theorem.name: theorem for theorem in (*OPTIMALITY, *RATIONALITY, *GROUPS, *FAIRNESS, *MONEY, *STRUCTURE, *FIELD)
}

THEOREMS_TEXT = """\
Each claim is held against random federations that meet its assumptions by construction: a profile is drawn, and the
costs that make it an equilibrium follow. The margin is the slack of the claim as a share of what is at stake for the
average agent; below zero the claim fails, and a strict claim needs more than zero. Every claim has a kept
counterexample, a federation in plain numbers that lacks one assumption and at which the claim fails.

{table}
"""


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
        "dropped_assumption": [theorem.counterexample.dropped for theorem in theorems],
        "counterexample_margin": [_settled(each.theorem, each.counterexample) for each in checks],
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
    theorem, dropped = found.theorem, found.theorem.counterexample.dropped
    said = f"{found.failures} of {found.count} random federations refute it, worst margin {_told(theorem, found.worst)}"
    if theorem.condition is not None:
        said += (
            f"; if {theorem.condition.words}: {found.failures_within} refute it, worst margin "
            f"{_told(theorem, found.worst_within)}"
        )
    return f'{said}; without "{dropped}" the kept counterexample has {_told(theorem, found.counterexample)}'


def _table(checks: Sequence[Check]) -> str:
    heads = ("claim", "where", "refuted by", "of", "worst margin", "counterexample without", "its margin")
    rows = [
        (
            each.theorem.name,
            each.theorem.where,
            str(each.failures),
            str(each.count),
            _told(each.theorem, each.worst),
            each.theorem.counterexample.dropped,
            _told(each.theorem, each.counterexample),
        )
        for each in checks
    ]
    return pipe_table(heads, rows)


def _settled(theorem: Theorem, margin: float) -> float:
    """Six digits, and rounding counts as zero: the same on every machine."""
    return 0.0 if abs(margin) <= theorem.rounding else float(f"{margin:.6g}")


def _told(theorem: Theorem, margin: float) -> str:
    return number(_settled(theorem, margin), ".2g")

"""Mechanisms against properties, a row for each: the same table on the terminal, in the report and in the explorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedpact.certificates import Claim, Verdict
from fedpact.comparison import Comparison
from fedpact.comparison.lies import FACTORS
from fedpact.deals import Outcome
from fedpact.mechanisms import compared_mechanisms
from fedpact.report.numbers import Unit
from fedpact.report.stability import misreporting
from fedpact.report.view import View
from fedpact.report.words import CLAIMS, PROPERTY_HEADS

HEADS = ("mechanism", *PROPERTY_HEADS.values(), "lies gain")
LIES = (
    "the most one member gains by reporting costs or values between half and twice its own, of "
    f"{len(FACTORS)} factors tried"
)
PROPERTY_WORDS = {
    Verdict.HOLDS: "yes",
    Verdict.NOT_REFUTED: "open",
    Verdict.UNDEFINED: "-",
    Verdict.VIOLATED: "no",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class PropertyRow:
    """What holds under one mechanism.

    Attributes
    ----------
    verdicts, cells
        One for each claim, in their order. Where payments do not balance, the cell has the money that is needed from
        outside (+) or left over (-).
    lies
        What a lie gains, a number in the unit of the table, or a word where none does.
    """

    outcome: Outcome
    verdicts: Sequence[Verdict]
    cells: Sequence[str]
    lies: str


def property_rows(comparison: Comparison, unit: Unit) -> list[PropertyRow]:
    """The rows of the table, in the order of the mechanisms."""
    budgets = unit.column([outcome.budget for outcome in comparison], signed=True)
    rows = []
    for outcome, budget in zip(comparison, budgets, strict=True):
        verdicts = {claim: comparison.verdicts[outcome.mechanism][claim] for claim in PROPERTY_HEADS}
        cells = {claim: PROPERTY_WORDS[verdict] for claim, verdict in verdicts.items()}
        if verdicts[Claim.BUDGET_BALANCE] is Verdict.VIOLATED:
            cells[Claim.BUDGET_BALANCE] = budget
        lying = misreporting(comparison, outcome.mechanism, unit)
        rows.append(
            PropertyRow(
                outcome=outcome,
                verdicts=list(verdicts.values()),
                cells=list(cells.values()),
                lies=lying.gain or lying.word,
            )
        )
    return rows


def has_property_table(comparison: Comparison) -> bool:
    """Whether more mechanisms are compared than if none is named; the certificates alone are clearer for a few."""
    return len(comparison.outcomes) > len(compared_mechanisms(comparison.federation))


def properties(view: View) -> dict[str, Any]:
    """What the section of the report shows."""
    return {
        "heads": HEADS,
        "rows": property_rows(view.comparison, view.unit),
        "meanings": [(PROPERTY_HEADS[claim], CLAIMS[claim][0]) for claim in PROPERTY_HEADS]
        + [("lies gain", LIES.capitalize())],
        "unsolved": [(view.comparison.title(name), reason) for name, reason in view.comparison.unsolved.items()],
    }

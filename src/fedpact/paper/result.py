"""One reproduced result of the paper: its numbers, its picture, and what they say of the paper's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Finding", "Judgement", "Result"]


class Judgement(StrEnum):
    """What the computed numbers say of a statement."""

    CONFIRMED = "confirmed"
    CONDITIONAL = "confirmed with a condition"
    NOT_CONFIRMED = "not confirmed"


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """A statement of the paper, judged by numbers.

    Attributes
    ----------
    where
        Where the paper says it, such as "section 7.1, Fig. 1".
    statement
        What it says, in our words.
    judgement
        What the numbers say; worked out from them, never written down.
    evidence
        The number that shows it, in words.
    expected
        What we know the judgement to be; `fedpact paper --check` fails where it comes out otherwise.
    """

    where: str
    statement: str
    judgement: Judgement
    evidence: str
    expected: Judgement

    @property
    def as_expected(self) -> bool:
        """Whether the judgement is the one we know."""
        return self.judgement is self.expected


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """A figure or table of the paper, computed.

    Attributes
    ----------
    name, title
        The name of its files and of the command, such as "fig3"; and what people read.
    columns
        The numbers, for the CSV file: one sequence per column, all of the same length.
    draw
        Draws the figure on a matplotlib `Figure`; None for tables.
    size
        Width and height of the figure in inches.
    text
        Markdown between the title and the findings: parameters, printed and computed side by side, explanations.
    findings
        What the paper's text says of it, with our judgement.
    """

    name: str
    title: str
    columns: Mapping[str, Sequence[Any]]
    findings: Sequence[Finding]
    draw: Callable[[Any], None] | None = None
    size: tuple[float, float] = (9.0, 3.2)
    text: str = ""
    tables: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]] = field(default=())

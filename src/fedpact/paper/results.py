"""The paper's results: what each holds, and all of them by name, in the paper's order.

Each is imported when it is asked for. This module also turns numbers into judgements and words: tolerances, symbols,
number texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from importlib import import_module
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput

Progress = Callable[[int, int], None]

ALL = "all"
RESULTS: Mapping[str, str] = {
    "fig1": "fedpact.paper.fig1_and_2:fig1_result",
    "fig2": "fedpact.paper.fig1_and_2:fig2_result",
    "fig3": "fedpact.paper.fig3:fig3_result",
    "table1": "fedpact.paper.table1:table1_result",
    "fig4": "fedpact.paper.fig4:fig4_result",
    "fig5": "fedpact.paper.fig5:fig5_result",
    "theorems": "fedpact.paper.theorems:theorems_result",
}
ON_REQUEST = ("fig4",)  # it trains models for minutes: not among all


class Judgement(StrEnum):
    """What the computed numbers say of a statement."""

    CONFIRMED = "confirmed"
    CONDITIONAL = "confirmed with a condition"
    NOT_CONFIRMED = "not confirmed"


@dataclass(frozen=True, eq=False)
class PaperFinding:
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
    expected, or_better
        The judgement we know; `fedpact paper --check` fails where it comes out otherwise. Trained models differ from
        machine to machine, so some of their statements may come out better.
    """

    where: str
    statement: str
    judgement: Judgement
    evidence: str
    expected: Judgement = field(kw_only=True)
    or_better: bool = field(default=False, kw_only=True)

    @property
    def as_expected(self) -> bool:
        """Whether the judgement is the one we know."""
        return self.judgement is self.expected or (self.or_better and self.judgement is Judgement.CONFIRMED)


Verdict = tuple[Judgement, str]


class Statements:
    """What the paper says of one result: functions that judge it by the numbers, in the paper's order.

    The docstring of such a function is the statement, in our words; it returns the judgement and the evidence for it.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._all: list[Callable[..., PaperFinding]] = []

    def __str__(self) -> str:
        return self._where

    def statement(
        self, expected: Judgement = Judgement.CONFIRMED, *, where: str = "", or_better: bool = False
    ) -> Callable[[Callable[..., Verdict]], Callable[..., PaperFinding]]:
        """Make the decorated function judge what its docstring says."""

        def decorate(judged: Callable[..., Verdict]) -> Callable[..., PaperFinding]:
            said = " ".join((judged.__doc__ or "").split())

            @wraps(judged)
            def finding(*results: Any) -> PaperFinding:
                verdict, evidence = judged(*results)
                index = where or self._where
                return PaperFinding(index, said, verdict, evidence, expected=expected, or_better=or_better)

            self._all.append(finding)
            return finding

        return decorate

    def judge(self, *results: Any) -> list[PaperFinding]:
        """Every statement, judged by these results."""
        return [finding(*results) for finding in self._all]


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
    findings: Sequence[PaperFinding]
    draw: Callable[[Any], None] | None = None
    size: tuple[float, float] = (9.0, 3.2)
    text: str = ""


def choose_results(names: Iterable[str]) -> list[str]:
    """The results asked for, once each and in the paper's order; all but those on request if none is named.

    Examples
    --------
    >>> choose_results(["table1", "fig2", "table1"])
    ['fig2', 'table1']
    """
    wanted = list(names) or [ALL]
    for name in wanted:
        if name != ALL and name not in RESULTS:
            raise InvalidInput(f"there is no result {name!r}; there are {', '.join(RESULTS)} and {ALL}")
    return [name for name in RESULTS if name in wanted or (ALL in wanted and name not in ON_REQUEST)]


def reproduce(
    name: str, progress: Progress | None = None, *, quick: bool = False, folder: Path | None = None
) -> Result:
    """Compute one result.

    Parameters
    ----------
    progress, quick, folder
        For what trains models: told how many of how many parts are done, a shorter version, where models are kept.
    """
    module, function = RESULTS[name].split(":")
    make = getattr(import_module(module), function)
    options = {"progress": progress, "quick": quick, "folder": folder} if name in ON_REQUEST else {}
    made: Result = make(**options)
    return made


MINUS = "\N{MINUS SIGN}"
SYMBOLS = {"externality": "M^E", "shapley": "M^Shap"}
# Where the paper leaves the caps open: its training experiment gives everybody 400 images.
CAP = 400.0
SAME_AMOUNT = 1e-6  # relative; the solvers are good to about 1e-9
ZERO_AMOUNT = 1e-9  # contributions, payments and gains below are zero
ZERO_NUMBER = 1e-12  # numbers below are rounding


def judge(holds: bool, *, partly: bool = False) -> Judgement:
    """Confirmed where a statement holds as made, conditional where only part of it does.

    Examples
    --------
    >>> str(judge(False, partly=True))
    'confirmed with a condition'
    """
    if holds:
        return Judgement.CONFIRMED
    return Judgement.CONDITIONAL if partly else Judgement.NOT_CONFIRMED


def number(amount: float, form: str = ".3g") -> str:
    """One number; rounding errors are zero, and zero has no sign.

    Examples
    --------
    >>> number(-0.0749), number(-4e-17), number(1.5, ".3f")
    ('−0.0749', '0', '1.500')
    """
    if not isfinite(amount):
        return "undefined" if isnan(amount) else "∞" if amount > 0 else f"{MINUS}∞"
    text = f"{amount if abs(amount) > ZERO_NUMBER else 0.0:{form}}"
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def numbers(amounts: Iterable[float], form: str = ".3g") -> str:
    """Several numbers in brackets, such as a profile of contributions."""
    return f"({', '.join(number(amount, form) for amount in amounts)})"


def span(amounts: Sequence[float], form: str = ".3g") -> str:
    """The range of some numbers: "1.59 to 1.81"."""
    if not amounts:
        return "nothing"
    return f"{number(min(amounts), form)} to {number(max(amounts), form)}"


NUMERIC_CELL = re.compile(r"^[−+-]?[\d,.]+([eE][−+-]?\d+)?( ?%)?$|^∞$|^undefined$")


def pipe_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are set to the right.

    Examples
    --------
    >>> print(pipe_table(["agent", "ratio"], [["0", "0.896"]]))
    | agent | ratio |
    |--:|--:|
    | 0 | 0.896 |
    """
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in heads]
    rule = "|".join("--:" if _is_numeric(column) else ":--" for column in columns)
    cells = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in (heads, *rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([head, f"|{rule}|", *body])


def _is_numeric(column: Sequence[str]) -> bool:
    filled = [text for text in column if text]
    return bool(filled) and all(NUMERIC_CELL.match(text) for text in filled)


def within(amount: float) -> str:
    """How near two numbers are: their distance, unless that is rounding.

    Examples
    --------
    >>> within(7.4e-10), within(3e-17)
    ('7e−10', 'less than 1e−12')
    """
    return (
        number(amount, ".0e") if not abs(amount) <= ZERO_NUMBER else f"less than {ZERO_NUMBER:.0e}".replace("-", MINUS)
    )

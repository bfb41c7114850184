"""What a command shows: sentences, tables, JSON objects, progress.

No control characters of a stranger's text get through, and every terminal can show the signs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedpact.certificates import Claim, Verdict
from fedpact.cli.app import INTERRUPTED
from fedpact.deals import Deal, Outcome
from fedpact.federation import Federation
from fedpact.report.numbers import MINUS, SPACE, Unit
from fedpact.report.tables import ResultTable, measured_tables
from fedpact.scenario import Measured
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import CONTROL, printable

MAX_ROWS = 20
MINUS_AND_INFINITY = str.maketrans({MINUS: "-", "∞": "inf"})
TERMINAL_SIGNS = MINUS_AND_INFINITY | str.maketrans({SPACE: " "})
ALARMS = ("violated", "flagged", "broken")  # cells in red

console = Console(highlight=False, emoji=False)


def say(*parts: str | tuple[str, str], path: bool = False) -> None:
    """A line of texts, those in pairs with a style such as "bold"; one with a `path` is never broken."""
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    line = Text.assemble(*((printable(text.translate(TERMINAL_SIGNS)), style) for text, style in styled))
    console.print(line, soft_wrap=path)


def say_all(sentences: Iterable[str], *, path: bool = False) -> None:
    """A line for each sentence."""
    for sentence in sentences:
        say(sentence, path=path)


def say_written(files: Sequence[object]) -> None:
    """Which files were written, if any."""
    if files:
        say()
        say(f"Written: {', '.join(map(str, files))}", path=True)


def print_json(record: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(json_text(record))


def json_text(record: Any) -> str:
    """A JSON object on several lines, without what a terminal would obey."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


# Tables


def print_table(found: ResultTable | None) -> None:
    """A table of a result, small print left out; of many rows the most important ones. Nothing if there is none.

    Where the terminal is too narrow, the columns that do not fit follow below, beside the names again.
    """
    if found is None:
        return
    shown = found.shown(MAX_ROWS, MAX_ROWS)
    heads = (found.kind, *found.columns)
    texts = [
        [column[row].partition("\n")[0].translate(MINUS_AND_INFINITY) for row in shown]
        for column in (found.names, *found.columns.values())
    ]
    if found.title:
        say((found.title, "bold"))
    for index, (gap, widths) in enumerate(_abreast(heads, texts, console.width)):
        if index:
            say()
        made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        for column, width in widths.items():
            left = column == 0 or heads[column] in found.words
            made.add_column(_plain(heads[column]), justify="left" if left else "right", width=width, overflow="fold")
        for row in zip(*(texts[column] for column in widths), strict=True):
            cells = zip(row, widths, strict=True)
            made.add_row(*(_cell(text, is_gain=heads[column] in found.gains) for text, column in cells))
        console.print(made)
    if len(found.names) > len(shown):
        say(f"... and {len(found.names) - len(shown)} more {found.kind}s; --json prints all")


def _abreast(
    heads: Sequence[str], texts: Sequence[Sequence[str]], room: int
) -> Iterator[tuple[int, Mapping[int, int]]]:
    """Which columns stand side by side, with how much between them and how wide each is; no word is broken.

    The first column, of the names, is repeated before those that would not fit beside it.
    """
    columns = [[printable(text) for text in (head, *column)] for head, column in zip(heads, texts, strict=True)]
    cells = [max(map(cell_len, column[1:]), default=0) for column in columns]
    most = [max(cell_len(column[0]), size) for column, size in zip(columns, cells, strict=True)]
    least = [max(cell_len(word) for text in column for word in text.split(" ")) for column in columns]
    least[0] = min(least[0], room // 2)
    gap = 2 if sum(most) + 2 * (len(most) - 1) <= room else 1
    waiting = list(range(1, len(heads)))
    while True:
        widths = {0: least[0]}
        while waiting and (len(widths) == 1 or sum(widths.values()) + gap * len(widths) + least[waiting[0]] <= room):
            column = waiting.pop(0)
            widths[column] = least[column]
        spare = room - sum(widths.values()) - gap * (len(widths) - 1)
        for wanted in (cells, most):  # heads wrap before cells do
            while spare > 0 and (lacking := [each for each, width in widths.items() if wanted[each] > width]):
                widths[min(lacking, key=lambda each: widths[each])] += 1
                spare -= 1
        yield gap, widths
        if not waiting:
            return


def print_rows(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()) -> None:
    """A table by its rows; cells under `words` begin at the left, as do those under the first head."""
    columns = dict(zip(heads, zip(*rows, strict=True) if rows else [()] * len(heads), strict=True))
    names = columns.pop(heads[0])
    print_table(ResultTable(title=title, names=names, columns=columns, kind=heads[0], words=words))


def print_agents(
    title: str,
    agents: Sequence[str],
    columns: Sequence[tuple[str, Sequence[str]]],
    *,
    sizes: FloatArray,
    kind: str = "member",
) -> None:
    """A row per member (or `kind`) with its text of every column; of many those with the largest sizes."""
    print_table(ResultTable(title=title, names=agents, columns=dict(columns), sizes=sizes, kind=kind))


def _plain(text: str) -> str:
    return escape(printable(text.translate(TERMINAL_SIGNS)))


def _cell(text: str, *, is_gain: bool) -> str:
    """One text; gains in blue and losses in red, told apart by the sign as well."""
    text = _plain(text)
    if text in ALARMS:
        return f"[red]{text}[/red]"
    if not is_gain:
        return text
    return f"[red]{text}[/red]" if text.startswith("-") else f"[blue]{text}[/blue]"


# What several commands say


def say_measured(found: Measured, federation: Federation, unit: Unit) -> None:
    """The tables of what a pilot measured."""
    for index, each in enumerate(measured_tables(found, federation.names, federation.lot_owners, unit)):
        if index:
            say()
        print_table(each)


def say_imbalance(outcome: Outcome, unit: Unit, title: str) -> None:
    """A line on payments that do not balance: what has to come from outside, or is left over; nothing if they do."""
    if outcome.certificates[Claim.BUDGET_BALANCE].verdict is not Verdict.VIOLATED:
        return
    amount, over = unit.text(abs(outcome.budget)), outcome.budget > 0
    does, more = ("pays out", "takes in") if over else ("takes in", "pays out")
    verb = "cover" if over else "take"
    say(f"{title} {does} {amount} more than it {more}: somebody outside has to {verb} that (fedpact settle --sponsor).")


def say_excluded(deal: Deal) -> None:
    """Who is out, and why; where nobody federates all are."""
    for name, reason in deal.excluded.items() if deal.is_federated else ():
        say(f"{name} is out: {printable(reason):.400}.")


# Progress


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, on a terminal only; call what it yields at the start of every step."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=steps)
        begun = 0

        def begin(what: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=_plain(what))
            begun += 1

        yield begin


@contextmanager
def counter(what: str, *, kept: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar that counts what is done, of how many; an interrupt ends the command and says what is `kept`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done, total = 0, 0
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task(what, total=None)

            def count(now: int, of: int) -> None:
                nonlocal done, total
                done, total = now, of
                bar.update(task, completed=done, total=total)

            yield count
    except KeyboardInterrupt:
        there = f"{done} of {total} {what} are" if done else "what is done is"
        said = f"; {there} kept, the same command goes on from there" if kept else ""
        typer.echo(f"interrupted{said}", err=True)
        raise typer.Exit(INTERRUPTED) from None

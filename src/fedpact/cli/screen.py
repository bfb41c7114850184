"""What a command shows: sentences, tables, JSON objects, progress.

Nothing that a terminal would obey gets through from a stranger's text, and all signs are such as every terminal has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedpact.certificates import Claim, Verdict
from fedpact.cli.exit_codes import INTERRUPTED
from fedpact.deals import Deal, Outcome
from fedpact.federation import Federation
from fedpact.report.numbers import MINUS, SPACE, Unit
from fedpact.report.tables import ResultTable, measured_tables
from fedpact.scenario import Measured
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import CONTROL, printable

MAX_WIDTH = 10_000  # of a table that may be as wide as it likes
MAX_ROWS = 20
TERMINAL_SIGNS = str.maketrans({MINUS: "-", SPACE: " ", "∞": "inf"})
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
    """A table of a result, small print left out; of many rows the most important ones. Nothing if there is none."""
    if found is None:
        return
    heads = [_plain(head) for head in (found.kind, *found.columns)]
    if found.title:
        say((found.title, "bold"))
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, head in enumerate((found.kind, *found.columns)):
        made.add_column(heads[place], justify="left" if not place or head in found.words else "right", overflow="fold")
    shown = found.shown(MAX_ROWS, MAX_ROWS)
    for row in shown:
        made.add_row(_plain(found.names[row]), *(_cell(found, head, row) for head in found.columns))
    _keep_words_whole(made, heads)
    console.print(made)
    if len(found.names) > len(shown):
        say(f"... and {len(found.names) - len(shown)} more {found.kind}s; --json prints all")


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


def _cell(found: ResultTable, head: str, row: int) -> str:
    """One text; gains in blue and losses in red, told apart by the sign as well."""
    text = _plain(found.columns[head][row].partition("\n")[0])
    if text in ALARMS:
        return f"[red]{text}[/red]"
    if head not in found.gains:
        return text
    return f"[red]{text}[/red]" if text.startswith("-") else f"[blue]{text}[/blue]"


def _keep_words_whole(made: Table, heads: Sequence[str]) -> None:
    """Let a table that is too wide fit: names wrap between words, and no word of a head or a number is broken."""
    if Measurement.get(console, console.options.update(max_width=MAX_WIDTH), made).maximum <= console.width:
        return
    made.padding = (0, 1, 0, 0)
    for column, head in zip(made.columns[1:], heads[1:], strict=True):
        if column.justify == "right":
            column.width = max(
                *map(len, head.split()), *(Text.from_markup(str(cell)).cell_len for cell in column.cells), 1
            )


# What several commands say


def say_measured(found: Measured, federation: Federation, unit: Unit) -> None:
    """The tables of what a pilot measured."""
    for place, each in enumerate(measured_tables(found, federation.names, federation.lot_owners, unit)):
        if place:
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
        say(f"{name} is out: {printable(reason):.400}.", path=True)


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
        said = f"; {done} of {total} {what} are kept, the same command goes on from there" if done and kept else ""
        typer.echo(f"interrupted{said}", err=True)
        raise typer.Exit(INTERRUPTED) from None

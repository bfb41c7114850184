"""What the commands share: reading a scenario, printing JSON, choosing a mechanism, tables that fit the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedpact.certificates import Claim, Verdict
from fedpact.cli.exit_codes import INTERRUPTED
from fedpact.deals import Outcome
from fedpact.deals.deal_file import holds_deal
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, Mechanism, resolve_mechanism
from fedpact.report.numbers import MINUS, SPACE, Unit
from fedpact.report.tables import ResultTable, measured_tables
from fedpact.scenario import EXAMPLES, Measured, Money, Scenario, example, load_scenario
from fedpact.scenario.members_words import weight_questions
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NoFairDeal, error_context
from fedpact.utils.files import check_writable, choose_format
from fedpact.utils.words import CONTROL, printable

DEFAULT_EXAMPLE = "hospitals"
MAX_WIDTH = 10_000  # of a table that may be as wide as it likes
MAX_ROWS = 20
TERMINAL_SIGNS = str.maketrans({MINUS: "-", SPACE: " ", "∞": "inf"})

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A .toml or .json file, or a built-in federation (hospitals, if none is named).",
        metavar="[SCENARIO]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
NumbersOutput = Annotated[Path, typer.Option("--output", "-o", help="The numbers, as .csv.", metavar="FILE")]
PictureOutput = Annotated[
    Path | None,
    typer.Option("--plot", help="The picture, as .png, .svg or .pdf; beside the numbers if not given.", metavar="FILE"),
]
MECHANISM_NAMES = f"{', '.join(MECHANISMS)}, one that a package registers, or package.module:Class"
MechanismOption = Annotated[str, typer.Option("--mechanism", "-m", help=f"One of {MECHANISM_NAMES}.", metavar="NAME")]

OWN_PAGE = b'<meta name="generator" content="fedpact">'
LENGTH_OF_HEAD = 1000  # bytes of a page that say what wrote it

Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing file.")]


class Terminal(Console):
    """A console that shows control characters in texts instead of sending them to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as rich shows it."""
        return super().render_str(printable(text, keep="\n"), **options)


console = Terminal(highlight=False, emoji=False)


def escape(text: str) -> str:
    """A name or another text of a stranger on one line, without markup or control characters."""
    return escape_markup(printable(text))


def allow_files_from(folder: Path | None) -> None:
    """Let scenarios name files in a folder of the user's choice too, until the end of the command."""
    global _files_from  # noqa: PLW0603 - set once, before a command runs
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"--files-from must be a folder, got {str(folder)!r}")
    _files_from = folder


_files_from: Path | None = None


def read_scenario(given: str) -> Scenario:
    """The scenario of a file, or a built-in one by name."""
    if given in EXAMPLES:
        return example(given)
    if not Path(given).suffix and not os.path.exists(given):
        raise InvalidInput(
            f"there is no file {given!r} and no built-in federation of that name; built in are {', '.join(EXAMPLES)}"
        )
    try:
        scenario = load_scenario(given, files_from=_files_from)
    except InvalidInput as error:
        if not holds_deal(Path(given)):
            raise
        raise InvalidInput(
            f"{given}: this is a deal, and a scenario belongs here; a command that takes both takes the scenario "
            f"first: SCENARIO {given}"
        ) from error
    for question in (
        weight_questions(scenario.federation) if scenario.uncertainty is None and scenario.measured is None else ()
    ):
        typer.echo(f"question: {printable(question)}", err=True)
    if scenario.not_recommended:
        typer.echo(f"warning: {printable(scenario.not_recommended)}", err=True)
    return scenario


def choose_mechanism(name: str) -> Mechanism:
    """The mechanism a person names; an import path counts from the folder they are in as well."""
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return resolve_mechanism(name)


def check_output(path: Path, *, force: bool, suffixes: Sequence[str] = ()) -> None:
    """Refuse, before any work is done, a file that cannot be written or is there and must not be replaced.

    A page that fedpact wrote itself may be replaced: making a report anew needs no `--force`.
    """
    with error_context(str(path)):
        if suffixes:
            choose_format(path, dict.fromkeys(suffixes))
        check_writable(path)
    if os.path.exists(path) and not force and not _is_own_page(path):
        raise InvalidInput(f"{path} exists already; choose another name or say --force")


def _is_own_page(path: Path) -> bool:
    """Whether a page that fedpact wrote lies there, which may be made anew."""
    if path.suffix != ".html" or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return OWN_PAGE in file.read(LENGTH_OF_HEAD)
    return False


@contextmanager
def amounts_in(money: Money | None) -> Iterator[None]:
    """Where there is no fair deal, what it would take is said in the scenario's money, if it has some."""
    try:
        yield
    except NoFairDeal as error:
        if money is None:
            raise
        raise NoFairDeal(error.text(money.text), groups=error.groups, subsidy=error.subsidy) from error


def print_json(record: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(json_text(record))


def json_text(record: Any) -> str:
    """A JSON object on several lines, without what a terminal would obey."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    return CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, on a terminal only; call what it yields at the start of every step."""
    bar = Progress(console=Terminal(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        task = bar.add_task("", total=steps)
        begun = 0

        def begin(what: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=escape(what))
            begun += 1

        yield begin


@contextmanager
def counter(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar that counts, on a terminal only; call what it yields with how many are done, of how many."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)

        def count(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield count


@contextmanager
def resumable(what: str) -> Iterator[Callable[[int, int], None]]:
    """A counter for work that keeps what is done; an interrupt says so and ends the command."""
    done, total = 0, 0
    try:
        with counter(what) as count:

            def report(now: int, of: int) -> None:
                nonlocal done, total
                done, total = now, of
                count(now, of)

            yield report
    except KeyboardInterrupt:
        kept = f"; {done} of {total} {what} are kept, the same command goes on from there" if done else ""
        typer.echo(f"interrupted{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def print_measured(found: Measured, federation: Federation, unit: Unit) -> None:
    """The tables of what a pilot measured."""
    for place, each in enumerate(measured_tables(found, federation.names, federation.lot_owners, unit)):
        if place:
            console.print()
        print_result(each)


def terminal_text(text: str) -> str:
    """A text with signs that every terminal and every file can hold."""
    return text.translate(TERMINAL_SIGNS)


def print_imbalance(outcome: Outcome, unit: Unit, title: str) -> None:
    """A line on payments that do not balance: what has to come from outside, or is left over; nothing if they do."""
    if outcome.certificates[Claim.BUDGET_BALANCE].verdict is not Verdict.VIOLATED:
        return
    amount = escape(terminal_text(unit.text(abs(outcome.budget))))
    if outcome.budget > 0:
        said = f"pays out {amount} more than it takes in: somebody outside has to cover that"
    else:
        said = f"takes in {amount} more than it pays out: somebody outside has to take that"
    console.print(f"{escape(title)} {said} (fedpact settle --sponsor).")


def table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    made = Table(
        title=escape(title) or None,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    return made


def keep_words_whole(made: Table, heads: Sequence[str]) -> None:
    """Let a table that is too wide fit: names wrap between words, and no word of a head or a cell is broken.

    Call it when the rows are in.
    """
    if Measurement.get(console, console.options.update(max_width=MAX_WIDTH), made).maximum <= console.width:
        return
    made.padding = (0, 1, 0, 0)
    for column, head in zip(made.columns[1:], heads[1:], strict=True):
        column.width = max(*map(len, head.split()), *(Text.from_markup(str(cell)).cell_len for cell in column.cells))


def print_result(found: ResultTable | None) -> None:
    """A table of a result, small print left out; of many rows the most important ones. Nothing if there is none."""
    if found is None:
        return
    heads = [terminal_text(head) for head in (found.kind, *found.columns)]
    console.print(f"[bold]{escape(terminal_text(found.title))}[/bold]")
    made = table("", *map(escape, heads))
    for column in made.columns[1:] if found.has_words else ():
        column.justify = "left"
    shown = found.shown(MAX_ROWS, MAX_ROWS)
    for row in shown:
        made.add_row(escape(found.names[row]), *(_cell(found, head, row) for head in found.columns))
    keep_words_whole(made, heads)
    console.print(made)
    if len(found.names) > len(shown):
        console.print(f"... and {len(found.names) - len(shown)} more {found.kind}s; --json prints all")


def _cell(found: ResultTable, head: str, row: int) -> str:
    """One text; gains in blue and losses in red, told apart by the sign as well."""
    text = escape(terminal_text(found.columns[head][row].partition("\n")[0]))
    if head not in found.gains:
        return text
    return f"[red]{text}[/red]" if text.startswith("-") else f"[blue]{text}[/blue]"


def print_agents(
    title: str,
    agents: Sequence[str],
    columns: Sequence[tuple[str, Sequence[str]]],
    *,
    sizes: FloatArray,
    kind: str = "member",
) -> None:
    """A row per member (or `kind`) with its text of every column; of many those with the largest sizes."""
    print_result(ResultTable(title=title, names=agents, columns=dict(columns), sizes=sizes, kind=kind))

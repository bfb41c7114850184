"""What the commands share: reading a scenario, printing JSON, choosing a mechanism, tables that fit the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedpact.mechanisms import MECHANISMS
from fedpact.scenario import Money, Scenario, load_scenario
from fedpact.scenario.examples import EXAMPLES, example
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

__all__ = [
    "AsJson",
    "MechanismOption",
    "ScenarioArgument",
    "Units",
    "console",
    "counter",
    "print_json",
    "progress",
    "read_scenario",
    "table",
]

DEFAULT_EXAMPLE = "hospitals"
MOST_ROWS = 20

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A .toml or .json file, or a built-in federation (hospitals, if none is named).",
        metavar="[SCENARIO]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
MechanismOption = Annotated[
    str, typer.Option("--mechanism", "-m", help=f"One of {', '.join(MECHANISMS)}.", metavar="NAME")
]

console = Console(highlight=False, emoji=False)


def read_scenario(given: str) -> Scenario:
    """The scenario of a file, or a built-in one by name."""
    if given in EXAMPLES:
        return example(given)
    if not Path(given).suffix and not os.path.exists(given):
        raise InvalidInput(
            f"there is no file {given!r} and no built-in federation of that name; built in are {', '.join(EXAMPLES)}"
        )
    return load_scenario(given)


def print_json(record: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error, on a terminal only; call what it yields at the start of every step."""
    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
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
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)

        def count(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield count


class Units:
    """How amounts of payoff are shown: as money where the scenario says what payoff is worth."""

    def __init__(self, money: Money | None) -> None:
        self.factor = money.per_payoff if money else 1.0
        self.label = money.currency if money else "payoff"
        self.is_money = money is not None

    def show(self, amount: float, *, sign: bool = False) -> str:
        """An amount with the digits that matter."""
        digits = 4 if not self.is_money else (0 if abs(self.factor) >= 1000 else 2)
        number = round(amount * self.factor, digits) + 0.0  # no minus zero
        return f"{number:{'+' if sign else ''},.{digits}f}"


def quantity(number: float) -> str:
    """A contribution with four significant digits."""
    if number == 0:
        return "0"
    return f"{number:,.0f}" if abs(number) >= 1e4 else f"{number:.4g}"


def gain(amount: float, units: Units, *, leaves: bool) -> str:
    """A gain in blue or a loss in red, told apart by the sign as well."""
    text = units.show(amount, sign=True)
    return f"[red]{text}[/red]" if leaves else f"[blue]{text}[/blue]"


def table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    made = Table(
        title=escape(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    return made


def shown_agents(sizes: FloatArray) -> tuple[list[int], str]:
    """The agents a table shows, the largest if there are many, and a line about the rest."""
    count = len(sizes)
    if count <= MOST_ROWS:
        return list(range(count)), ""
    largest = sorted(range(count), key=lambda agent: -abs(float(sizes[agent])))[:MOST_ROWS]
    return sorted(largest), f"... and {count - MOST_ROWS} more agents; --json prints all"

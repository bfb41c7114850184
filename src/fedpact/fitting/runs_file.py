"""CSV files of runs: one row is one run, with columns `contributions.NAME`, `accuracy.NAME`, `test_size.NAME`.

    contributions.North,contributions.South,accuracy.North,accuracy.South,test_size.North
    100,0,0.71,,1000
    100,50,0.78,0.74,1000

A file of models made of subsets of the updates has columns `subset.NAME` in place of contributions: 1 where the model
is made of that member's update too, 0 where it is not.

Cells that are empty or say NaN are missing. Rows are counted as a spreadsheet does: the head is row 1.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_text
from fedpact.utils.tables import csv_rows, read_csv_rows

CONTRIBUTIONS, SUBSET, ACCURACY, TEST_SIZE = "contributions", "subset", "accuracy", "test_size"
KINDS = (CONTRIBUTIONS, ACCURACY, TEST_SIZE)
SUBSET_KINDS = (SUBSET, ACCURACY, TEST_SIZE)
MAX_RUNS_READ = 100_000  # a fit of more takes minutes, and knows no more than one of their averages
RULES = {
    CONTRIBUTIONS: "a number of samples, at least 0",
    SUBSET: "1 or 0",
    ACCURACY: "a number between 0 and 1",
    TEST_SIZE: "a number of samples, at least 1",
}


@dataclass(frozen=True)
class _Column:
    place: int
    label: str
    kind: str
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class LogTable:
    """What a file says of runs, or of models made of subsets.

    Attributes
    ----------
    names
        The agents.
    given, accuracies, test_sizes
        (runs, agents), NaN where missing; `given` are contributions, or 1 and 0 for subsets.
    rows
        Where each run stands in the file, from 1.
    """

    names: tuple[str, ...]
    given: FloatArray
    accuracies: FloatArray
    test_sizes: FloatArray
    rows: tuple[int, ...]


def read_runs(path: Path, *, member: str | None = None) -> LogTable:
    """Runs from a CSV file; of one member's accuracies alone if a member is named."""
    with error_context(str(path)):
        return _read_table(path, KINDS, member=member)


def read_subsets(path: Path) -> LogTable:
    """Models made of subsets of the updates, and what they scored, from a CSV file."""
    with error_context(str(path)):
        found = _read_table(path, SUBSET_KINDS)
        for place, agent in np.argwhere(np.isnan(found.given))[:1]:
            raise InvalidInput(
                f"row {found.rows[place]}, column {short_repr(f'{SUBSET}.{found.names[agent]}')} must be "
                f"{RULES[SUBSET]}, the cell is empty"
            )
        return found


def _read_table(path: Path, kinds: Sequence[str], *, member: str | None = None) -> LogTable:
    """A file whose first kind of column says what agents gave."""
    if path.suffix.lower() != ".csv":
        raise InvalidInput(f"the file's name must end in .csv, got {short_repr(path.name)}")
    rows = _cells(read_text(path))
    head_row, head = next(rows, (0, []))
    if not head:
        raise InvalidInput("the file has no rows")
    columns = _columns(head, head_row, kinds, member=member)
    names = [column.name for column in columns if column.kind == kinds[0]]
    numbers, places = _numbers(rows, columns, len(head))
    if not places:
        raise InvalidInput("the file has a head but no runs; write one row per run below it")
    given, accuracies, sizes = (_part(numbers, columns, kind, names) for kind in kinds)
    return LogTable(names=tuple(names), given=given, accuracies=accuracies, test_sizes=sizes, rows=tuple(places))


def runs_text(
    names: Sequence[str], contributions: FloatArray, *, test_sizes: Sequence[float] | None = None, head: bool = True
) -> str:
    """Runs that are still to be made, as the text of a CSV file whose accuracies are empty."""
    kinds = KINDS if test_sizes is not None else KINDS[:2]
    heads = [[f"{kind}.{name}" for kind in kinds for name in names]] if head else []
    sizes = [f"{size:.10g}" for size in test_sizes or ()]
    rows = [[*(f"{given:.10g}" for given in run), *[""] * len(names), *sizes] for run in contributions]
    return csv_rows(heads + rows)


def _cells(content: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, numbered from 1."""
    return ((row, cells) for row, cells in enumerate(read_csv_rows(content), start=1) if any(map(str.strip, cells)))


def _columns(head: Sequence[str], row: int, kinds: Sequence[str], *, member: str | None = None) -> list[_Column]:
    """The columns by what they hold; those of the first kind say who the agents are, all of whom are measured.

    With a member, accuracies of the others may be missing.
    """
    columns = [_column(place, cell.strip(), row, kinds) for place, cell in enumerate(head)]
    seen: set[str] = set()
    for column in columns:
        if column.label in seen:
            raise InvalidInput(
                f"row {row}, column {short_repr(column.label)}: the column appears twice; keep one of them"
            )
        seen.add(column.label)
    names = [column.name for column in columns if column.kind == kinds[0]]
    if not names:
        expected = " and ".join([", ".join(f"{kind}.NAME" for kind in kinds[:-1]), f"{kinds[-1]}.NAME"])
        raise InvalidInput(f"row {row}: there is no column {kinds[0]}.NAME; a head has the columns {expected}")
    for column in columns:
        if column.name not in names:
            raise InvalidInput(
                f"row {row}, column {short_repr(column.label)}: there is no column {kinds[0]}.{column.name}; "
                f"{_nearest(column.name, names, 'agents are')}"
            )
    for name in names if kinds is KINDS and member is None else ():
        if f"{ACCURACY}.{name}" not in seen:
            raise InvalidInput(
                f"row {row}: there is no column {ACCURACY}.{name}, so nothing says what data is worth to agent "
                f'"{name}"; test the model of at least one run on its data, or leave the agent out'
            )
    return columns


def _column(place: int, label: str, row: int, kinds: Sequence[str]) -> _Column:
    kind, _, name = label.partition(".")
    if kind.strip() not in kinds or not name.strip():
        given = "the cell is empty" if not label else "the column is unknown"
        named = [f"{known}.{name}" if name.strip() else f"{known}.NAME" for known in kinds]
        raise InvalidInput(
            f"row {row}, column {short_repr(label) if label else place + 1}: {given}; "
            f"{_nearest(label, named, 'columns are')}"
        )
    return _Column(place, label, kind.strip(), name.strip())


def _nearest(given: str, known: Sequence[str], otherwise: str) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f'did you mean "{near[0]}"?' if near else f"{otherwise} {', '.join(known)}"


def _numbers(
    rows: Iterable[tuple[int, list[str]]], columns: Sequence[_Column], width: int
) -> tuple[list[list[float]], list[int]]:
    numbers: list[list[float]] = []
    places: list[int] = []
    for row, cells in rows:
        if len(places) == MAX_RUNS_READ:
            raise InvalidInput(
                f"the file has more than {MAX_RUNS_READ:,} rows; average runs with equal contributions, or keep some"
            )
        if len(cells) != width:
            raise InvalidInput(f"row {row} must have {width} cells like the head, got {len(cells)}")
        numbers.append([_number(cell, row, column) for cell, column in zip(cells, columns, strict=True)])
        places.append(row)
    return numbers, places


def _number(cell: str, row: int, column: _Column) -> float:
    try:
        number = float(cell)
    except ValueError:
        if not cell.strip():
            return math.nan
        raise _refused(cell, row, column) from None
    if math.isnan(number):
        return number
    lowest = 1.0 if column.kind == TEST_SIZE else 0.0
    if not lowest <= number < math.inf or (column.kind == ACCURACY and number > 1):
        raise _refused(cell, row, column)
    if column.kind == SUBSET and number not in (0.0, 1.0):
        raise _refused(cell, row, column)
    return number


def _refused(cell: str, row: int, column: _Column) -> InvalidInput:
    hint = ""
    if column.kind == ACCURACY:
        percent = cell.strip().removesuffix("%")
        try:
            hint = "; divide percentages by 100" if 1 < float(percent) <= 100 or percent != cell.strip() else ""
        except ValueError:
            hint = ""
    return InvalidInput(
        f"row {row}, column {short_repr(column.label)} must be {RULES[column.kind]}, got {short_repr(cell)}{hint}"
    )


def _part(numbers: list[list[float]], columns: Sequence[_Column], kind: str, names: Sequence[str]) -> FloatArray:
    """One kind of column as a matrix, in the order of the names; NaN where there is no such column."""
    table = np.array(numbers)
    part = np.full((table.shape[0], len(names)), np.nan)
    for column in columns:
        if column.kind == kind:
            part[:, names.index(column.name)] = table[:, column.place]
    return part

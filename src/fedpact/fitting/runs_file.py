"""Tables of runs: one row is one run, with columns `contributions.NAME`, `accuracy.NAME`, `test_size.NAME`.

    contributions.North,contributions.South,accuracy.North,accuracy.South,test_size.North
    100,0,0.71,,1000
    100,50,0.78,0.74,1000

Members with several lots of data, or several tests, have columns `contributions.NAME.LOT` and `accuracy.NAME.TASK`. A
name may hold dots that a space follows ("St. Mary.X-rays" is the lot X-rays of St. Mary). Where every column of
contributions has one of accuracies by the same name, dots are part of the names, unless the caller says otherwise.

A file of models made of subsets of the updates has columns `subset.NAME` in place of contributions: 1 where the model
is made of that member's update too, 0 where it is not.

Cells that are empty or say NaN are missing. Rows are counted as a spreadsheet does: the head is row 1. Separators,
decimal commas and percent signs are those of `fedpact.utils.cells`; a Parquet file has the same columns.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedpact.utils.arrays import FloatArray
from fedpact.utils.cells import NumberFormat, Row, number_format, read_cells
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.tables import csv_rows

CONTRIBUTIONS, SUBSET, ACCURACY, TEST_SIZE = "contributions", "subset", "accuracy", "test_size"
COLUMN_KINDS = (CONTRIBUTIONS, ACCURACY, TEST_SIZE)
SUBSET_KINDS = (SUBSET, ACCURACY, TEST_SIZE)
OWN_NAME = re.compile(r"\.(?=\S)")  # the dot between a member's name and that of its lot or task
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

    @property
    def parts(self) -> tuple[str, str]:
        """The member, and its lot or task; empty if that has no name."""
        member, _, own = OWN_NAME.sub("\0", self.name, count=1).partition("\0")
        return member.strip(), own.strip()


Keys = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class LogTable:
    """What a file says of runs, or of models made of subsets.

    Attributes
    ----------
    lots, tasks
        The member, and the name of its lot or task, of every column; the member's name again where it has one.
    given, accuracies, test_sizes
        (runs, lots) and twice (runs, tasks), NaN where missing; `given` are contributions, or 1 and 0 for subsets.
    rows
        Where each run stands in the file, from 1.
    has_lots
        Whether members have several lots or tasks, by what the columns are called.
    """

    lots: Keys
    tasks: Keys
    given: FloatArray
    accuracies: FloatArray
    test_sizes: FloatArray
    rows: tuple[int, ...]
    has_lots: bool = False

    @classmethod
    def of_members(
        cls, names: Sequence[str], given: FloatArray, accuracies: FloatArray, sizes: FloatArray, rows: Sequence[int]
    ) -> LogTable:
        """A table of members with one lot and one task each."""
        keys = tuple((name, name) for name in names)
        return cls(lots=keys, tasks=keys, given=given, accuracies=accuracies, test_sizes=sizes, rows=tuple(rows))

    @property
    def names(self) -> tuple[str, ...]:
        """The agents."""
        return tuple(dict.fromkeys(name for name, _ in self.lots))


def read_runs(path: Path, *, member: str | None = None, lots: bool | None = None) -> LogTable:
    """Runs from a CSV file; of one member's accuracies alone if a member is named.

    `lots` says whether what follows a dot in a name is a lot or a task; if not given, the columns decide.
    """
    with error_context(str(path)):
        return _read_table(path, COLUMN_KINDS, member=member, lots=lots)


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


def _read_table(path: Path, kinds: Sequence[str], *, member: str | None = None, lots: bool | None = False) -> LogTable:
    """A file whose first kind of column says what agents gave."""
    found = read_cells(path, max_rows=MAX_RUNS_READ + 2)  # the head, and one to tell that there are more
    if not found:
        raise InvalidInput("the file has no rows")
    (head_row, head), rows = found[0], found[1:]
    columns = _distinct_columns(head, head_row, kinds)
    given, measured = ([column for column in columns if column.kind == kind] for kind in kinds[:2])
    if lots is None:  # dots are part of names where every column of contributions has one of accuracies
        same = {column.name for column in given} == {column.name for column in measured}
        lots = member is None and not same and any(column.parts[1] for column in columns)
    key = {column.label: column.parts if lots else (column.name, "") for column in columns}
    _check_columns(columns, key, head_row, kinds, member=member, lots=lots)
    numbers, places = _numbers(rows, columns)
    if not lots:  # accuracies of whoever gives
        measured = [_Column(column.place, f"{kinds[1]}.{column.name}", kinds[1], column.name) for column in given]
    elif member is not None:
        measured = [column for column in measured if key[column.label][0] == member]
    parts = [
        _part(numbers, columns, kind, [column.name for column in chosen])
        for kind, chosen in zip(kinds, (given, measured, measured), strict=True)
    ]
    keys = [
        tuple((who, own or who) for who, own in (key.get(column.label, (column.name, "")) for column in chosen))
        for chosen in (given, measured)
    ]
    return LogTable(
        lots=keys[0],
        tasks=keys[1],
        given=parts[0],
        accuracies=parts[1],
        test_sizes=parts[2],
        rows=tuple(places),
        has_lots=lots,
    )


def runs_text(
    lots: Sequence[str],
    contributions: FloatArray,
    *,
    tasks: Sequence[str] | None = None,
    test_sizes: Sequence[float] | None = None,
) -> str:
    """Runs that are still to be made, as the text of a CSV file whose accuracies are empty.

    `lots` and `tasks` are what the columns are called: the names of the members, where they have one each.
    """
    tasks = lots if tasks is None else tasks
    sizes = [f"{size:.10g}" for size in test_sizes or ()]
    kinds = {CONTRIBUTIONS: lots, ACCURACY: tasks} | ({TEST_SIZE: tasks} if sizes else {})
    head = [f"{kind}.{name}" for kind, names in kinds.items() for name in names]
    rows = [[*(f"{given:.10g}" for given in run), *[""] * len(tasks), *sizes] for run in contributions]
    return csv_rows([head, *rows])


def _distinct_columns(head: Sequence[str], row: int, kinds: Sequence[str]) -> list[_Column]:
    """The columns by what they hold, none of them twice."""
    columns = [_column(place, cell.strip(), row, kinds) for place, cell in enumerate(head)]
    seen: set[str] = set()
    for column in columns:
        if column.label in seen:
            raise InvalidInput(
                f"row {row}, column {short_repr(column.label)}: the column appears twice; keep one of them"
            )
        seen.add(column.label)
    return columns


def _check_columns(
    columns: Sequence[_Column],
    key: Mapping[str, tuple[str, str]],
    row: int,
    kinds: Sequence[str],
    *,
    member: str | None,
    lots: bool,
) -> None:
    """Columns of the first kind say who the agents are, all of whom are measured.

    With a member, accuracies of the others may be missing.
    """
    givers, receivers = ({key[each.label][0] for each in columns if each.kind == kind} for kind in kinds[:2])
    tasks = [column.name for column in columns if column.kind == ACCURACY]
    if not givers:
        expected = " and ".join([", ".join(f"{kind}.NAME" for kind in kinds[:-1]), f"{kinds[-1]}.NAME"])
        raise InvalidInput(f"row {row}: there is no column {kinds[0]}.NAME; a head has the columns {expected}")
    for column in sorted(columns, key=lambda each: bool(key[each.label][0] in givers and each.name[-1:] != ".")):
        who, own = key[column.label]
        where = f"row {row}, column {short_repr(column.label)}"
        alike = [other for other in columns if other.kind == column.kind and key[other.label][0] == who]
        if lots and (not who or column.name.endswith(".")):
            raise InvalidInput(f"{where}: a name is missing; columns are {column.kind}.NAME or {column.kind}.NAME.LOT")
        if lots and not own and len(alike) > 1:
            raise InvalidInput(
                f'{where}: "{who}" has other columns {column.kind}.{who}.NAME; give this one a name as well'
            )
        if who not in givers:
            near = _nearest(who, sorted(givers), "members are")
            raise InvalidInput(f"{where}: there is no column {kinds[0]}.{who}{' or one of its lots' * lots}; {near}")
        if kinds is COLUMN_KINDS and who not in receivers and member in {None, who}:
            raise InvalidInput(
                f"{where}: there is no column {ACCURACY}.{who}{' or one of its tasks' * lots}, so nothing says what "
                f'data is worth to member "{who}"; test the model of at least one run on its data, or leave the member '
                f"out"
            )
        if lots and column.kind == TEST_SIZE and column.name not in tasks:
            near = _nearest(column.name, tasks, "tasks are")
            raise InvalidInput(f"{where}: there is no column {ACCURACY}.{column.name}; {near}")


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


def _numbers(rows: Sequence[Row], columns: Sequence[_Column]) -> tuple[list[list[float]], list[int]]:
    numbers: list[list[float]] = []
    places: list[int] = []
    written = number_format(rows)
    for row, cells in rows:
        if len(places) == MAX_RUNS_READ:
            raise InvalidInput(
                f"the file has more than {MAX_RUNS_READ:,} rows; average runs with equal contributions, or keep some"
            )
        if len(cells) != len(columns):
            raise InvalidInput(f"row {row} must have {len(columns)} cells like the head, got {len(cells)}")
        numbers.append([_number(cell, row, column, written) for cell, column in zip(cells, columns, strict=True)])
        places.append(row)
    if not places:
        raise InvalidInput("the file has a head but no runs; write one row per run below it")
    return numbers, places


def _number(cell: str, row: int, column: _Column, written: NumberFormat) -> float:
    try:
        with error_context(f"row {row}, column {short_repr(column.label)}"):
            number = written.number(cell)
    except InvalidInput:
        raise
    except ValueError:
        raise _refused(cell, row, column) from None
    if math.isnan(number):
        return number
    if column.kind != ACCURACY and "%" in cell:
        raise _refused(cell, row, column)
    lowest = 1.0 if column.kind == TEST_SIZE else 0.0
    if not lowest <= number < math.inf or (column.kind == ACCURACY and number > 1):
        raise _refused(cell, row, column)
    if column.kind == SUBSET and number not in (0.0, 1.0):
        raise _refused(cell, row, column)
    return number


def _refused(cell: str, row: int, column: _Column) -> InvalidInput:
    hint = ""
    if column.kind == ACCURACY:
        try:
            hint = "; divide percentages by 100, or write 71 %" if 1 < float(cell) <= 100 else ""
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
        if column.kind == kind and column.name in names:
            part[:, names.index(column.name)] = table[:, column.place]
    return part

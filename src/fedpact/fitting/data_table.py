"""Tables of records as people keep them: named columns of numbers or texts, from CSV, Parquet or NPZ files.

What a cell may look like is the business of `fedpact.utils.cells`. A column is of numbers if all its cells are; one
where nearly all are is a mistake that is named, not a column of texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.cells import CELL_FORMATS, NumberFormat, is_missing, number_format, read_cells
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import choose_format, read_bytes
from fedpact.utils.memory_limits import read_arrays
from fedpact.utils.tables import read_parquet

MAX_COLUMNS = 100_000  # of a table
MOSTLY_NUMBERS = 0.8  # share of a column's cells from which the others are mistakes
Column = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class DataTable:
    """Records with named columns.

    Attributes
    ----------
    columns
        By name: float64 with NaN where something is missing, or objects that are texts, None where missing.
    rows
        Where each record stands in its file, as a spreadsheet counts.
    source
        The file.
    """

    columns: Mapping[str, Column]
    rows: Sequence[int]
    source: Path

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: NDArray[Any]) -> DataTable:
        """Some of the records."""
        rows = np.asarray(self.rows)[chosen]
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return DataTable(columns=columns, rows=rows.tolist(), source=self.source)

    def without(self, name: str) -> DataTable:
        """The table without a column."""
        kept = {other: column for other, column in self.columns.items() if other != name}
        return DataTable(columns=kept, rows=self.rows, source=self.source)


def read_data_table(path: Path) -> DataTable:
    """The records of a file.

    Raises
    ------
    InvalidInput
        If the file cannot be read or breaks a rule; the message names the file and, of a table, row and column.
    """
    with error_context(str(path)):
        kind = choose_format(path, TABLE_FORMATS)
        if kind == "csv":
            return _from_cells(path)
        columns = _from_npz(path) if kind == "npz" else _from_parquet(path)
        lengths = {name: len(column) for name, column in columns.items()}
        if not lengths or not max(lengths.values()):
            raise InvalidInput("the file holds no records")
        for name, length in lengths.items():
            if length != (first := next(iter(lengths.values()))):
                raise InvalidInput(f"the arrays must be equally long: {next(iter(lengths))} {first}, {name} {length}")
        return DataTable(columns=columns, rows=range(1, len(next(iter(columns.values()))) + 1), source=path)


TABLE_FORMATS = CELL_FORMATS | {".npz": "npz"}


def _from_cells(path: Path) -> DataTable:
    rows = read_cells(path)
    if not rows:
        raise InvalidInput("the file has no rows; write the columns' names and a row per record, or remove the file")
    (head_row, head), records = rows[0], rows[1:]
    names = [name.strip() for name in head]
    if not records:
        raise InvalidInput("the file has a head but no records; write one row per record below it")
    for row, cells in records:
        if len(cells) != len(names):
            raise InvalidInput(f"row {row} must have {len(names)} cells like the head, got {len(cells)}")
    places = [row for row, _ in records]
    first = [cells[0] for _, cells in records] if not names[0] else []
    numbered = first == [str(place) for place in range(len(records))]  # as pandas writes its index
    _check_names(names[1:] if numbered else names, head_row, offset=int(numbered))
    written = number_format(records)
    columns = {
        name: _column(name, [cells[place] for _, cells in records], places, written)
        for place, name in enumerate(names)
        if place or not numbered
    }
    return DataTable(columns=columns, rows=places, source=path)


def _check_names(names: Sequence[str], row: int, *, offset: int) -> None:
    seen: set[str] = set()
    for place, name in enumerate(names):
        if not name:
            raise InvalidInput(f"row {row}, column {place + 1 + offset}: the column has no name; give it one")
        if name in seen:
            raise InvalidInput(f"row {row}, column {short_repr(name)}: the column appears twice; keep one of them")
        seen.add(name)
    if all(_is_plain_number(name) for name in names):
        raise InvalidInput(f"row {row} must name the columns, got numbers; write the columns' names above the records")


def _is_plain_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column(name: str, cells: list[str], rows: Sequence[int], written: NumberFormat) -> Column:
    numbers = _plain_numbers(cells, written)
    if numbers is not None:
        return numbers
    numbers = np.full(len(cells), np.nan)
    strays: list[int] = []
    for place, cell in enumerate(cells):
        try:
            numbers[place] = written.number(cell)
        except InvalidInput as error:
            raise error.within(f"row {rows[place]}, column {short_repr(name)}") from error
        except ValueError:
            strays.append(place)
    if not strays:
        return numbers
    present = sum(not is_missing(cell) for cell in cells)
    if len(strays) < (1.0 - MOSTLY_NUMBERS) * present:
        raise InvalidInput(
            f"row {rows[strays[0]]}, column {short_repr(name)} must be a number like the others of its column, got "
            f"{short_repr(cells[strays[0]])}; leave it empty if it is not known"
        )
    return _texts([cell.strip() for cell in cells])


def _plain_numbers(cells: list[str], written: NumberFormat) -> Column | None:
    """Numbers where all cells are plain ones, or missing: in nearly all columns of large tables, soon told."""
    try:
        return np.array(list(map(float, cells)))
    except ValueError:
        known = ["nan" if is_missing(cell) else cell for cell in cells]
        if written.comma == "decimal":
            known = [cell.replace(",", ".") if "." not in cell else "?" for cell in known]
        try:
            return np.array(list(map(float, known)))
        except ValueError:
            return None


def _texts(cells: Sequence[str | None]) -> Column:
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if cell is None or is_missing(cell) else cell for cell in cells]
    return column


def _from_parquet(path: Path) -> dict[str, Column]:
    return {name: plain_column(name, column) for name, column in read_parquet(read_bytes(path)).items()}


def plain_column(name: str, column: Sequence[Any]) -> Column:
    """Numbers, or texts; what is missing is None or NaN."""
    if any(isinstance(entry, str) for entry in column):
        return _texts([None if entry is None else str(entry).strip() for entry in column])
    try:
        return np.array([np.nan if entry is None else float(entry) for entry in column])
    except (TypeError, ValueError) as error:
        kind = next(type(entry).__name__ for entry in column if entry is not None)
        raise InvalidInput(f"column {short_repr(name)} must hold numbers or texts, got {kind}") from error


def _from_npz(path: Path) -> dict[str, Column]:
    """Arrays with an entry per record are columns; those with a row per record, a column for each of theirs."""
    content = read_bytes(path)
    try:
        arrays = read_arrays(content, "write fewer records or columns")
    except InvalidInput:
        raise
    except Exception as error:  # whatever a file raises that is no such archive
        raise InvalidInput("this is no archive of arrays as numpy.savez writes it") from error
    columns: dict[str, Column] = {}
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype.kind not in "biufU":
            raise InvalidInput(
                f"array {name!r} must hold a number or a text per record, got {array.dtype} {array.shape}"
            )
        width = 1 if array.ndim == 1 else math.prod(array.shape[1:])
        if not array.size or width > MAX_COLUMNS:
            raise InvalidInput(
                f"array {name!r} must hold a row per record and up to {MAX_COLUMNS:,} columns, got shape {array.shape}"
            )
        flat = array.reshape(len(array), width)
        labels = [name] if array.ndim == 1 else [f"{name} {place}" for place in range(1, flat.shape[1] + 1)]
        for label, column in zip(labels, flat.T, strict=True):
            columns[label] = _texts(column.tolist()) if array.dtype.kind == "U" else column.astype(np.float64)
    return columns

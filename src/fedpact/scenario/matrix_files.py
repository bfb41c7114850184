"""Matrices kept in a file of their own, beside the scenario: weights, and the factor of uncertain numbers.

Weights are a table or a NumPy archive. A table (CSV) is the bare matrix, or the matrix with agents' names
along the top and down the side, in the same order, or along the top alone; the row receives, the column gives:

    ,North,South
    North,1.0,0.2
    South,0.4,1.0

Where members have several lots of data or tasks, the lots stand along the top and the tasks down the side.

An NPZ file comes from `scipy.sparse.save_npz`, or from `numpy.savez(path, weights=matrix)`. The factor of uncertain
numbers is an NPZ file with an array of that name (see `Uncertainty`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import choose_format, read_arrays, read_bytes
from fedpact.utils.tables import NumberFormat, Row, is_number, number_format, read_cells

REMEDY = "keep sparse weights as a sparse matrix, by scipy.sparse.save_npz"


def read_weights(path: Path, *, square: bool = True) -> tuple[Any, list[str] | None, list[str] | None]:
    """The matrix in a file, and the names of its columns and of its rows if the file has them."""
    with error_context(f"weights file {path}"):
        table = partial(_read_table, square=square)
        readers: dict[str, Callable[[Path], Any]] = {".csv": table, ".npz": _read_npz, ".tsv": table}
        matrix, columns, rows = choose_format(path, readers)(path)
        return matrix, columns, rows


def read_factor(path: Path) -> FloatArray:
    """The factor of uncertain numbers in a file."""
    with error_context(f"factor file {path}"):
        choose_format(path, {".npz": None})
        with _readable(' with an array "factor"; write the scenario again'):
            arrays = read_arrays(read_bytes(path), "leave the factor out")
            return np.asarray(arrays["factor"], dtype=np.float64)


@contextmanager
def _readable(remedy: str) -> Iterator[None]:
    """Say that an archive cannot be read, and the remedy, whatever zipfile, zlib, NumPy or SciPy stumble over."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"the file is not a readable NPZ archive{remedy}") from error


def _read_table(path: Path, *, square: bool) -> tuple[Any, list[str] | None, list[str] | None]:
    rows = read_cells(path)
    if not rows:
        raise InvalidInput("the file holds no numbers")
    _, first = rows[0]
    each = "member" if square else "lot"
    written = number_format(rows)
    if is_number(first[0], written):
        width = len(rows) if square else len(first)
        return [_numbers_of(row, width, each, written) for row in rows], None, None
    if square and len(rows) - 1 == len(first) and all(is_number(cells[0], written) for _, cells in rows[1:]):
        names = [cell.strip() for cell in first]  # along the top alone
        return [_numbers_of(row, len(names), each, written) for row in rows[1:]], names, names
    names = [cell.strip() for cell in first[1:]]
    if not names:
        raise InvalidInput(
            f"row 1 must hold numbers, or an empty cell and the members' names, separated by commas, "
            f"got {short_repr(first[0])}"
        )
    if square and len(rows) - 1 != len(names):
        raise InvalidInput(f"there must be one row per member: {len(names)} names in row 1, {len(rows) - 1} rows below")
    matrix = []
    for index, (row, cells) in enumerate(rows[1:]):
        if square and cells[0].strip() != (name := names[index]):
            raise InvalidInput(
                f"row {row} must start with {short_repr(name)}, got {short_repr(cells[0])}; "
                f"name the members in the same order along the top and down the side"
            )
        matrix.append(_numbers_of((row, cells[1:]), len(names), each, written, first_column=2))
    return matrix, names, [cells[0].strip() for _, cells in rows[1:]]


def _numbers_of(given: Row, width: int, each: str, written: NumberFormat, *, first_column: int = 1) -> list[float]:
    row, cells = given
    if len(cells) != width:
        raise InvalidInput(f"row {row} must have {width} numbers, one per {each}, got {len(cells)}")
    try:
        numbers = list(map(float, cells))  # as in nearly all rows of large matrices, which must not take long
        if all(map(math.isfinite, numbers)):
            return numbers
    except ValueError:
        pass
    return [_number(row, column, cell, written) for column, cell in enumerate(cells, start=first_column)]


def _number(row: int, column: int, cell: str, written: NumberFormat) -> float:
    try:
        with error_context(f"row {row}, column {column}"):
            number = written.number(cell)
    except InvalidInput:
        raise
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"row {row}, column {column} must be a finite number such as 0.25, got {short_repr(cell)}")
    return number


def _read_npz(path: Path) -> tuple[Any, None, None]:
    with _readable("; write it with scipy.sparse.save_npz(path, matrix) or numpy.savez(path, weights=matrix)"):
        weights = _matrix_of(read_bytes(path))
    if weights is None:
        raise InvalidInput('the archive has no array called "weights"; write it with numpy.savez(path, weights=matrix)')
    if weights.dtype.kind not in "iuf" or weights.dtype.itemsize > np.dtype(np.float64).itemsize:
        raise InvalidInput(f"the weights must be real numbers of at most 64 bits, got dtype {weights.dtype}")
    return weights, None, None


def _matrix_of(content: bytes) -> Any:
    """The dense or sparse matrix in an archive, None if it holds neither."""
    arrays = read_arrays(content, REMEDY)
    if "weights" in arrays:
        return arrays["weights"]
    if "format" not in arrays:
        return None
    weights = sp.load_npz(io.BytesIO(content))
    if hasattr(weights, "check_format"):
        weights.check_format(full_check=True)  # SciPy trusts the indices otherwise, and reads out of bounds
    return weights

"""Files of labelled samples: `.csv` with a column `label` and numbers in all others, or `.npz` with two arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.sample_values import checked_samples_and_labels
from fedpact.utils.arrays import FloatArray
from fedpact.utils.cells import NumberFormat, number_format, read_cells
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import read_arrays, read_bytes
from fedpact.utils.tables import csv_rows

LABEL = "label"


def read_samples(path: Path) -> tuple[FloatArray, NDArray[Any]]:
    """Features (N, d) and labels (N,) of a file.

    Raises
    ------
    InvalidInput
        If the file cannot be read or breaks a rule; the message names the file and, of a table, row and column.
    """
    with error_context(str(path)):
        if path.suffix.lower() != ".npz":
            return _read_table(path)
        try:
            arrays = read_arrays(read_bytes(path), "write fewer samples or features")
        except InvalidInput:
            raise
        except Exception as error:  # whatever a file raises that is no such archive
            raise InvalidInput("this is no archive of arrays as numpy.savez writes it") from error
        if not {"features", "labels"} <= set(arrays):
            raise InvalidInput(
                f"the archive must hold the arrays features and labels, got {', '.join(arrays) or 'none'}"
            )
        features = arrays["features"]
        rows = features.reshape(len(features), -1) if features.ndim > 2 else features  # images, say
        return checked_samples_and_labels("the file's", rows, arrays["labels"])


def lots_text(values: FloatArray, lots: Any, names: Any, labels: Any) -> str:
    """A table with a row per sample, in the order of the file: its place from 1, label, value and lot."""
    rows = zip(labels.tolist(), values.tolist(), lots.tolist(), strict=True)
    cells = [
        [str(row), str(label), f"{value:.6g}", names[lot]] for row, (label, value, lot) in enumerate(rows, start=1)
    ]
    return csv_rows([["sample", LABEL, "value", "lot"], *cells])


def _read_table(path: Path) -> tuple[FloatArray, NDArray[Any]]:
    rows = read_cells(path)
    if not rows:
        raise InvalidInput("the file has no rows")
    (_, head), samples = rows[0], rows[1:]
    head = [cell.strip() for cell in head]
    if LABEL not in head:
        raise InvalidInput(f"there is no column {LABEL!r}; the first row names the columns, got {', '.join(head)[:80]}")
    if not samples:
        raise InvalidInput("the file has a head but no samples; write one row per sample below it")
    place, written = head.index(LABEL), number_format(samples)
    features = np.empty((len(samples), len(head) - 1))
    labels = []
    for index, (row, cells) in enumerate(samples):
        if len(cells) != len(head):
            raise InvalidInput(f"row {row} must have {len(head)} cells like the head, got {len(cells)}")
        labels.append(cells[place].strip())
        if not labels[-1]:
            raise InvalidInput(f"row {row}, column {LABEL!r} is empty; every sample needs a label")
        numbers = [(name, cell) for name, cell in zip(head, cells, strict=True) if name != LABEL]
        features[index] = [_number(row, name, cell, written) for name, cell in numbers]
    return checked_samples_and_labels("the file's", features, np.array(labels))


def _number(row: int, column: str, cell: str, written: NumberFormat) -> float:
    try:
        with error_context(f"row {row}, column {column!r}"):
            return written.number(cell)
    except InvalidInput:
        raise
    except ValueError:
        raise InvalidInput(f"row {row}, column {column!r} must be a number, got {short_repr(cell)}") from None

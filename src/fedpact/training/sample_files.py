"""Files of labelled samples: a table with a column `label` and numbers in all others, or `.npz` with two arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.pilots.members import column_list, pandas, read_table
from fedpact.fitting.sample_values import checked_samples_and_labels
from fedpact.utils.arrays import FloatArray
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
    if path.suffix.lower() != ".npz":
        return _read_table(path)
    with error_context(str(path)):
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
    """A table with a row per sample, in the order of the file: its number from 1, label, value and lot."""
    rows = zip(labels.tolist(), values.tolist(), lots.tolist(), strict=True)
    cells = [
        [str(row), str(label), f"{value:.6g}", names[lot]] for row, (label, value, lot) in enumerate(rows, start=1)
    ]
    return csv_rows([["sample", LABEL, "value", "lot"], *cells])


def _read_table(path: Path) -> tuple[FloatArray, NDArray[Any]]:
    table = read_table(path)
    with error_context(str(path)):
        if LABEL not in table:
            raise InvalidInput(
                f"there is no column {LABEL!r}; the first row names the columns, got {column_list(table)}"
            )
        numbers = table.drop(columns=LABEL).apply(pandas().to_numeric, errors="coerce")
        for row, column in np.argwhere(table.isna() | numbers.isna().reindex(columns=table.columns, fill_value=False))[
            :1
        ]:
            name, cell = table.columns[column], table.iloc[row, column]
            must = "hold a label" if name == LABEL else "be a number"
            raise InvalidInput(f"row {row + 2}, column {name!r} must {must}, got {short_repr(str(cell))}")
        return checked_samples_and_labels("the file's", numbers, table[LABEL].astype(str).to_numpy(dtype=str))

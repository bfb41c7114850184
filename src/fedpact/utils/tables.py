"""The numbers of a sweep as a file: CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from fedpact.utils.errors import MissingExtra, error_context
from fedpact.utils.files import check_writable, choose_format, replace_files

Columns = Mapping[str, Sequence[Any]]


def write_table(path: Path, columns: Columns) -> None:
    """Write columns of equal length, whole or not at all; the name's ending says in which format."""
    with error_context(str(path)):
        replace_files({path: choose_format(path, FORMATS)(columns)})


def check_table_name(path: Path) -> None:
    """Refuse before any work a name that could not be written later."""
    with error_context(str(path)):
        choose_format(path, FORMATS)
        check_writable(path)
        if path.suffix.lower() == ".parquet":
            _pyarrow()


def csv_text(columns: Columns) -> str:
    """Columns as CSV: numbers with all their digits, NaN as an empty cell."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, column) for column in columns.values()), strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, float) and value != value else value  # noqa: PLR0124 - NaN differs from itself


def _csv(columns: Columns) -> bytes:
    return csv_text(columns).encode()


def _parquet(columns: Columns) -> bytes:
    pyarrow = _pyarrow()
    content = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({name: list(column) for name, column in columns.items()}), content)
    return content.getvalue()


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415 - optional dependency
        import pyarrow.parquet  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pyarrow", "frame") from error
    return pyarrow


FORMATS: Mapping[str, Callable[[Columns], bytes]] = {".csv": _csv, ".parquet": _parquet}

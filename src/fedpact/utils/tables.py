"""Tables as files: CSV, or Parquet where pyarrow is installed.

Spreadsheets run text that begins like a formula. In CSV files it stands with an apostrophe in front, which
`read_csv_rows` takes off again.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, MissingExtra, error_context, short_repr
from fedpact.utils.files import check_memory, check_writable, choose_format, replace_files

Columns = Mapping[str, Sequence[Any]]
CELL_BYTES = 64  # that a cell takes at least, as an object
REMEDY = "write fewer rows or columns; large tables and weights fit in an .npz file"
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")  # the last four are wide, for East Asian keyboards
SPLITTING = re.compile(r'[,;|\t"\r\n]')
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-?inf")


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
    return csv_rows([tuple(columns), *zip(*columns.values(), strict=True)])


def csv_rows(rows: Iterable[Iterable[Any]], *, line_end: str = "\n") -> str:
    """Rows as CSV, as `csv_text` writes them. By hand: the `csv` module does not quote other countries' separators.

    Examples
    --------
    >>> print(csv_rows([["=SUM(A1)", -0.5]]), end="")
    '=SUM(A1),-0.5
    """
    return "".join(",".join(map(_cell, row)) + line_end for row in rows)


def read_csv_rows(content: str, *, separator: str = ",") -> Iterator[list[str]]:
    """The rows of CSV text; names that begin like formulas without the apostrophe before them."""
    reader = csv.reader(StringIO(content, newline=""), strict=True, delimiter=separator)
    try:
        for row in reader:
            yield [cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell for cell in row]
    except csv.Error as error:
        raise InvalidInput(f"the file is not valid CSV: {error} (at line {reader.line_num})") from error


def _cell(value: Any) -> str:
    """A cell as text, in quotes where a comma, or what stands for one in other countries, would split it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value != value:  # noqa: PLR0124 - NaN differs from itself
        return ""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        value = f"'{value}"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if SPLITTING.search(text) else text


def _csv(columns: Columns) -> bytes:
    return csv_text(columns).encode()


def _parquet(columns: Columns) -> bytes:
    pyarrow = _pyarrow()
    content = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({name: list(column) for name, column in columns.items()}), content)
    return content.getvalue()


def read_parquet(content: bytes) -> dict[str, list[Any]]:
    """The columns of a Parquet file by name; what is missing is None."""
    pyarrow = _pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(BytesIO(content))
        _check_cells(file)
        schema = file.schema_arrow
        columns = [column.to_pylist() for column in file.read().columns]
    except InvalidInput:
        raise
    except Exception as error:  # whatever a damaged file raises
        raise InvalidInput("the file is not a readable Parquet file; write it again") from error
    if len(set(schema.names)) < len(schema.names):
        raise InvalidInput("the file has two columns of one name; keep one of them")
    return dict(zip(schema.names, columns, strict=True))


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file that takes more memory than a table may."""
    _check_cells(_pyarrow().parquet.ParquetFile(path))


def _check_cells(file: Any) -> None:
    cells = file.metadata.num_rows * file.metadata.num_columns
    check_memory(CELL_BYTES * cells, f"a table of {cells:,} cells", REMEDY)
    nested = [field.name for field in file.schema_arrow if _pyarrow().types.is_nested(field.type)]
    if nested:
        raise InvalidInput(f"column {short_repr(nested[0])} must hold a number or a text in each row, not a list")


def _pyarrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415 - optional dependency
        import pyarrow.parquet  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("pyarrow", "frame") from error
    return pyarrow


FORMATS: Mapping[str, Callable[[Columns], bytes]] = {".csv": _csv, ".parquet": _parquet}

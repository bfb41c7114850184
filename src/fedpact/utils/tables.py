"""Tables as CSV files.

Spreadsheets run text that begins like a formula. In CSV files it stands with an apostrophe in front, which
`read_csv_rows` takes off again.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import check_writable, choose_format, replace_files

Columns = Mapping[str, Sequence[Any]]
FORMATS = {".csv": "csv"}
FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")  # the last four are wide, for East Asian keyboards
SPLITTING = re.compile(r'[,;|\t"\r\n]')
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-?inf")


def write_table(path: Path, columns: Columns) -> None:
    """Write columns of equal length, whole or not at all."""
    check_table_name(path)
    with error_context(str(path)):
        replace_files({path: csv_text(columns).encode()})


def check_table_name(path: Path) -> None:
    """Refuse before any work a name that could not be written later."""
    with error_context(str(path)):
        choose_format(path, FORMATS)
        check_writable(path)


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

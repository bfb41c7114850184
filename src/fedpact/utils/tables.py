"""Tables as CSV files, written for any spreadsheet and read as people write them.

Spreadsheets run text that begins like a formula. In CSV files it stands with an apostrophe in front, which
`read_csv_rows` takes off again.

A file that is read may be separated by commas, semicolons, tabs or bars; the one that every row has equally often is
it. Empty columns at the end are dropped. Numbers may have a decimal comma, thousands set apart, a percent sign. Where
"1,234" may be a thousand or a little more than one, other cells of the file decide; if none of them does, the file is
refused.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.files import check_writable, choose_format, read_text, replace_files

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


Row = tuple[int, list[str]]

CELL_FORMATS = {".csv": "csv", ".tsv": "csv"}
SEPARATORS = ";\t|,"  # of two that fit, the first: a comma may be a decimal comma
STATED_SEPARATOR = re.compile(r"\s*sep=(.)\s*", re.IGNORECASE)  # the first line of a file that Excel wrote
SAMPLED_ROWS, SAMPLED_TEXT = 20, 1 << 20  # rows and characters that tell the separator
MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "-", "?", "."})
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
GROUPED = re.compile(rf"[+-]?\d{{1,3}}(?:[ {SPACES}']\d{{3}})+(?:[.,]\d+)?")  # 12 345,6
MIXED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d+|[+-]?\d{1,3}(?:\.\d{3})+,\d+|[+-]?\d{1,3}(?:[.,]\d{3}){2,}")
COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
THREE_AFTER = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # one thing as a decimal comma, another as thousands
ONE_SEPARATOR = re.compile(r"[+-]?0*[1-9]\d{0,2}[.,]\d{3}", re.ASCII)  # by itself it may mean two numbers
DOT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")


def read_cells(path: Path, *, max_rows: int | None = None) -> list[Row]:
    """The rows of a CSV file that are not blank, numbered as a spreadsheet does; the first of them only.

    All rows have the same columns, unless the file gives some of them more or fewer cells.
    """
    choose_format(path, CELL_FORMATS)
    return text_cells(read_text(path), max_rows=max_rows)


def text_cells(content: str, *, max_rows: int | None = None) -> list[Row]:
    """The rows of CSV text, as `read_cells` gives those of a file."""
    return _without_empty_end(list(islice(_csv_rows(content), max_rows)))


def _csv_rows(content: str) -> Iterator[Row]:
    separator, skipped = find_separator(content)
    rows = enumerate(read_csv_rows(content, separator=separator), start=1)
    return ((row, cells) for row, cells in islice(rows, skipped, None) if any(map(str.strip, cells)))


def find_separator(content: str) -> tuple[str, int]:
    """What stands between the cells, and how many rows at the start only say so."""
    stated = STATED_SEPARATOR.fullmatch(content[:80].split("\n", maxsplit=1)[0])
    if stated is not None:
        return stated[1], 1
    counts = {separator: _cell_counts(content[:SAMPLED_TEXT], separator) for separator in SEPARATORS}
    for separator, found in counts.items():
        if len(set(found)) == 1 and found[0] > 1:
            return separator, 0
    first = {separator: found[0] if found else 1 for separator, found in counts.items()}
    most = max(first, key=lambda each: first[each])
    return (",", 0) if first[","] > 1 or first[most] == 1 else (most, 0)


def _cell_counts(content: str, separator: str) -> list[int]:
    rows = csv.reader(StringIO(content, newline=""), delimiter=separator)
    try:
        return [len(cells) for cells in islice((row for row in rows if any(map(str.strip, row))), SAMPLED_ROWS)]
    except csv.Error:  # which the reader of the whole file tells
        return []


def _without_empty_end(rows: list[Row]) -> list[Row]:
    """Without columns at the end that are empty in every row, and without what single rows add to the head's."""
    if not rows:
        return rows
    head = rows[0][1]
    width = len(head)
    while width > 1 and not head[width - 1].strip():
        width -= 1
    if any(cell.strip() for _, cells in rows for cell in cells[width : len(head)]):
        width = len(head)  # a column without a name that holds something
    return [(row, _trim(cells, width)) for row, cells in rows]


def _trim(cells: list[str], width: int) -> list[str]:
    while len(cells) > width and not cells[-1].strip():
        cells = cells[:-1]
    return cells


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a file are written.

    Examples
    --------
    >>> german = NumberFormat.of(["0,25", "1.234,5", "87 %"])
    >>> [german.number(cell) for cell in ["0,25", "1.234,5", "87 %", "3"]]
    [0.25, 1234.5, 0.87, 3.0]
    """

    # what a comma between digits is: "decimal", "thousands", or "unknown" where nothing in the file says so
    comma: str = "unknown"

    @classmethod
    def of(cls, cells: Iterable[str]) -> NumberFormat:
        """The format that cells show; those that are no numbers say nothing."""
        has_dots = False
        for given in cells:
            if "," not in given and (has_dots or "." not in given):
                continue
            cell = given.strip().removesuffix("%").strip()
            if COMMA.fullmatch(cell) and not THREE_AFTER.fullmatch(cell):
                return cls("decimal")
            if MIXED.fullmatch(cell) and ("." in cell and "," in cell):
                return cls("decimal" if cell.rfind(",") > cell.rfind(".") else "thousands")
            has_dots = has_dots or bool(DOT.fullmatch(cell))
        return cls("thousands" if has_dots else "unknown")

    def number(self, cell: str) -> float:
        """The number in a cell, NaN if it is missing; a dot may set thousands apart where commas are decimal.

        Raises
        ------
        ValueError
            If the cell holds no number.
        InvalidInput
            If it may be two numbers.
        """
        text = cell.strip()
        if self.comma == "decimal" and "." in text and ONE_SEPARATOR.fullmatch(text):
            raise InvalidInput(f"{text!r} may be {text.replace('.', ',')} or {text.replace('.', '')}; write it so")
        with suppress(ValueError):
            return float(text)
        if is_missing(text):
            return math.nan
        if text.endswith("%") and not is_missing(text[:-1]):
            return self.number(text[:-1]) / 100.0
        return float(self._plain(text))

    def _plain(self, text: str) -> str:
        """A number as Python writes it."""
        if GROUPED.fullmatch(text):
            return re.sub(rf"[ {SPACES}']", "", text).replace(",", ".")
        if MIXED.fullmatch(text):
            if "," in text and "." in text:
                decimal = max(",.", key=text.rfind)
                return text.replace("." if decimal == "," else ",", "").replace(",", ".")
            return text.replace(",", "").replace(".", "")
        if not COMMA.fullmatch(text):
            return text
        if self.comma == "unknown" and THREE_AFTER.fullmatch(text):
            dotted, whole = text.replace(",", "."), text.replace(",", "")
            raise InvalidInput(f"{text!r} may be {dotted} or {whole}; write it so, in all cells")
        return text.replace(",", "" if self.comma == "thousands" and THREE_AFTER.fullmatch(text) else ".")


def typed_number(text: str) -> float:
    """A number that a person wrote by itself, where no other number tells what its separators are.

    Raises
    ------
    ValueError
        If it is no number.
    InvalidInput
        If it may be two numbers, with ways to write either.

    Examples
    --------
    >>> typed_number("20 000"), typed_number("20.000,50"), typed_number("0,25")
    (20000.0, 20000.5, 0.25)
    """
    plain = text.strip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if ONE_SEPARATOR.fullmatch(plain):
        small, large = (decimal_text(float(re.sub("[.,]", each, plain))) for each in (".", ""))
        raise InvalidInput(f"{plain!r} can be read as {small} or as {large}; write {small} or {large}")
    return NumberFormat.of([plain]).number(plain)


def decimal_text(number: float) -> str:
    """A number in digits that cannot be taken for thousands: 12.345 is written as 12.3450."""
    text = f"{number:.10g}"
    return f"{text}0" if ONE_SEPARATOR.fullmatch(text) else text


def number_format(rows: Sequence[Row]) -> NumberFormat:
    """How the numbers below a head are written."""
    return NumberFormat.of(_with_commas(rows))


def _with_commas(rows: Sequence[Row]) -> Iterator[str]:
    """The cells that may say what a comma is; all, if one of them has a comma."""
    if not any("," in cell for _, cells in rows for cell in cells):
        return iter(())
    return (cell for _, cells in rows for cell in cells)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is nothing."""
    return not cell or cell.strip().lower() in MISSING


def is_number(cell: str, written: NumberFormat) -> bool:
    """Whether a cell holds a number."""
    try:
        return not math.isnan(written.number(cell))
    except ValueError:
        return False

"""Plain data as TOML or JSON text that people can read: one line per key, one line per row of a matrix.

The writers know the structure of scenario files and no more: texts, floats, lists of them, one matrix, and tables one
level deep or lists of these. Floats are written by `repr`, so they come back bit for bit. By hand, because libraries
put every number of a matrix on a line of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 100


def toml_text(document: Mapping[str, Any]) -> str:
    """A TOML document, tables after everything else."""
    tables = {key: given for key, given in document.items() if isinstance(given, Mapping)}
    lists = {key: given for key, given in document.items() if isinstance(given, list) and isinstance(given[0], Mapping)}
    blocks = [_toml_lines({key: given for key, given in document.items() if key not in tables | lists})]
    blocks += [f"[{key}]\n{_toml_lines(given)}" for key, given in tables.items()]
    blocks += [f"[[{key}]]\n{_toml_lines(each)}" for key, given in lists.items() for each in given]
    return "\n".join(blocks)


def _toml_lines(entries: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(given)}\n" for key, given in entries.items())


def toml_value(given: Any) -> str:
    """A text, a float, or a list of these or of rows."""
    if isinstance(given, str) and "\n" in given:
        return '"""\n' + "\n".join(quote(line)[1:-1] for line in given.split("\n")) + '"""'
    return _value(given)


def json_text(document: Mapping[str, Any]) -> str:
    """A JSON object; it must hold no infinity."""
    return _value(document) + "\n"


def quote(given: str) -> str:
    """A text in quotes, on one line.

    Examples
    --------
    >>> print(quote('the "North" clinic'))
    "the \\"North\\" clinic"
    """
    # JSON's escapes are all TOML escapes; TOML also wants DEL escaped.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(given: Any, indent: str = "") -> str:
    """What TOML and JSON write alike, and objects of JSON; a list on one line if it is short and flat."""
    inner = indent + "  "
    if isinstance(given, Mapping):
        entries = [f"{inner}{quote(key)}: {_value(each, inner)}" for key, each in given.items()]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if not isinstance(given, list):
        return quote(given) if isinstance(given, str) else repr(given)
    is_matrix = bool(given) and isinstance(given[0], list)
    lines = matrix_lines(given) if is_matrix else [_value(each, inner) for each in given]
    line = f"[{', '.join(lines)}]"
    if not is_matrix and len(line) <= WIDTH:
        return line
    return "[\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}]"


def matrix_lines(rows: Sequence[Sequence[float]]) -> list[str]:
    """The rows of a matrix, its columns aligned."""
    cells = [[repr(entry) for entry in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [f"[{', '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))}]" for row in cells]

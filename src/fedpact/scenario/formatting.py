"""Plain data as TOML or JSON text that people can read: one line per key, one line per row of a matrix.

The writers know the structure of scenario files and no more: texts, floats, lists of them, one matrix, and tables one
level deep or lists of these. Floats are written by `repr`, so they come back bit for bit. By hand, because libraries
put every number of a matrix on a line of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WIDTH = 100


def toml_text(document: Mapping[str, Any]) -> str:
    """A TOML document, tables after everything else."""
    tables = {key: given for key, given in document.items() if isinstance(given, Mapping)}
    lists = {key: given for key, given in document.items() if _is_list_of_tables(given)}
    blocks = [_toml_lines({key: given for key, given in document.items() if key not in tables.keys() | lists.keys()})]
    blocks += [f"[{key}]\n{_toml_lines(given)}" for key, given in tables.items()]
    blocks += [f"[[{key}]]\n{_toml_lines(each)}" for key, given in lists.items() for each in given]
    return "\n".join(blocks)


def _is_list_of_tables(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and isinstance(given[0], Mapping)


def _toml_lines(entries: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(given)}\n" for key, given in entries.items())


def toml_value(given: Any) -> str:
    """A text, a float, or a list of these or of rows."""
    if isinstance(given, str):
        return toml_string(given) if "\n" not in given else _toml_paragraphs(given)
    return _list(given, _toml_scalar, indent="  ") if isinstance(given, list) else repr(given)


def toml_string(given: str) -> str:
    """A text in quotes, on one line.

    Examples
    --------
    >>> print(toml_string('the "North" clinic'))
    "the \\"North\\" clinic"
    """
    # JSON's escapes are all TOML escapes; TOML also wants DEL escaped.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_paragraphs(given: str) -> str:
    lines = [toml_string(line)[1:-1] for line in given.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'


def _toml_scalar(given: Any) -> str:
    return toml_string(given) if isinstance(given, str) else repr(given)


def json_text(document: Mapping[str, Any]) -> str:
    """A JSON object; it must hold no infinity."""
    return _object(document, indent="") + "\n"


def _object(document: Mapping[str, Any], *, indent: str) -> str:
    inner = indent + "  "
    lines = [f"{inner}{_json_scalar(key)}: {_json_value(given, inner)}" for key, given in document.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _json_value(given: Any, indent: str) -> str:
    if isinstance(given, Mapping):
        return _object(given, indent=indent)
    if _is_list_of_tables(given):
        return "[" + ", ".join(_object(each, indent=indent) for each in given) + "]"
    return _list(given, _json_scalar, indent=indent + "  ") if isinstance(given, list) else _json_scalar(given)


def _json_scalar(given: Any) -> str:
    return json.dumps(given, ensure_ascii=False, allow_nan=False)


def _list(given: Sequence[Any], scalar: Callable[[Any], str], *, indent: str) -> str:
    """A list on one line if it is short and flat, otherwise one item per line."""
    if given and isinstance(given[0], list):
        lines = matrix_lines(given)
    else:
        lines = [scalar(entry) for entry in given]
        if len(line := f"[{', '.join(lines)}]") <= WIDTH:
            return line
    return "[\n" + ",\n".join(indent + line for line in lines) + f"\n{indent[:-2]}]"


def matrix_lines(rows: Sequence[Sequence[float]]) -> list[str]:
    """The rows of a matrix, its columns aligned."""
    cells = [[repr(entry) for entry in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [f"[{', '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))}]" for row in cells]

"""The parts scenario files are made of: texts, numbers, tables. Each reader takes a label and what the file says there.

`label` is the place as the reader of the file knows it, such as `caps[2]` or `payoff.beta`. The readers look at types
only; what the numbers must satisfy is the business of `Federation`, which speaks of the same labels.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import short_repr

__all__ = [
    "INFINITY_TEXTS",
    "capacities",
    "check_keys",
    "name_list",
    "number",
    "numbers",
    "rows",
    "table",
    "text",
]

# JSON has no infinity, so files spell it; the first is what we write.
INFINITY_TEXTS = ("inf", "Infinity")


def text(label: str, given: Any) -> str:
    """A text that can be written to a file again."""
    if not isinstance(given, str):
        raise InvalidInput(f"{label} must be a text in quotes, got {short_repr(given)}")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{label} must be text that UTF-8 can hold, got {short_repr(given)}") from error
    return given


def name_list(label: str, given: Any) -> list[str]:
    """A list of names, none of them blank."""
    if not isinstance(given, list):
        raise InvalidInput(f"{label} must be a list of one name per agent, got {short_repr(given)}")
    names = [text(f"{label}[{agent}]", name) for agent, name in enumerate(given)]
    for agent, name in enumerate(names):
        if not name.strip():
            raise InvalidInput(f"{label}[{agent}] must not be blank, got {short_repr(name)}")
    return names


def number(label: str, given: Any, rule: str = "a number") -> float:
    """One number; booleans and texts are none."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        remedy = "; write numbers without quotes" if isinstance(given, str) else ""
        raise InvalidInput(f"{label} must be {rule}, got {short_repr(given)}{remedy}")
    try:
        return float(given)
    except OverflowError as error:
        raise InvalidInput(f"{label} must be below 1.8e308, the largest float, got {short_repr(given)}") from error


def numbers(label: str, given: Any) -> float | list[float]:
    """One number, or a list of one per agent."""
    if isinstance(given, list):
        return [
            entry if type(entry) is float else number(f"{label}[{index}]", entry) for index, entry in enumerate(given)
        ]
    return number(label, given, "a number or a list of one number per agent")


def rows(label: str, given: Any, *, files: str) -> list[list[float]]:
    """A matrix: a list of lists of numbers; `files` are the kinds that may hold one instead."""
    if not isinstance(given, list):
        raise InvalidInput(f"{label} must be a list of rows, or the name of a {files} file, got {short_repr(given)}")
    for place, row in enumerate(given):
        if not isinstance(row, list):
            raise InvalidInput(f"{label}[{place}] must be a list of one number per agent, got {short_repr(row)}")
    return [
        [
            entry if type(entry) is float else number(f"{label}[{place}, {column}]", entry)
            for column, entry in enumerate(row)
        ]
        for place, row in enumerate(given)
    ]


def capacities(label: str, given: Any) -> float | list[float]:
    """Like `numbers`, with infinity also spelled out."""
    if isinstance(given, list):
        return numbers(label, [_infinity(entry) for entry in given])
    return numbers(label, _infinity(given))


def _infinity(given: Any) -> Any:
    return math.inf if given in INFINITY_TEXTS else given


def table(label: str, given: Any, known: Iterable[str], *, required: Iterable[str] = ()) -> Mapping[str, Any]:
    """A table (an object in JSON) with all of the `required` keys and none but the `known` ones."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{label} must be a table with the keys {', '.join(known)}, got {short_repr(given)}")
    check_keys(given, known, prefix=f"{label}.")
    for key in required:
        if key not in given:
            raise InvalidInput(f"{label}.{key} is missing; {label} needs the keys {', '.join(required)}")
    return given


def check_keys(given: Mapping[str, Any], known: Iterable[str], *, prefix: str = "") -> None:
    """Refuse the first key that is not `known`, and name the nearest that is."""
    known = list(known)
    for key in given:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1)
            remedy = f'did you mean "{prefix}{nearest[0]}"?' if nearest else f"known keys here are {', '.join(known)}"
            if prefix and not nearest:
                remedy += "; keys of the whole file stand above its first [table]"
            raise InvalidInput(f"unknown key {short_repr(prefix + str(key))}; {remedy}")

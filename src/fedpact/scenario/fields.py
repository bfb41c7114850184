"""The parts scenario files are made of: texts, numbers, tables. Each reader takes a field and what the file says there.

`field` is the key as the reader of the file knows it, such as `caps` or `payoff.beta`. The readers look at types only;
what the numbers must satisfy is the business of `Federation`, which speaks of the same fields.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr

# JSON has no infinity, so files spell it; the first is what we write.
INFINITY_TEXTS = ("inf", "Infinity")

Index: TypeAlias = "int | tuple[int, ...]"


def text(field: str, given: Any, *, index: Index = ()) -> str:
    """A text that can be written to a file again."""
    if not isinstance(given, str):
        raise _refusal(field, index, "must be a text in quotes", given)
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise _refusal(field, index, "must be text that UTF-8 can hold", given) from error
    return given


def name(field: str, given: Any, *, index: Index = ()) -> str:
    """A text that is not blank."""
    if not text(field, given, index=index).strip():
        raise _refusal(field, index, "must not be blank", given)
    return str(given)


def name_list(field: str, given: Any) -> list[str]:
    """A list of names, none of them blank."""
    if not isinstance(given, list):
        remedy = f"; write it as {short_repr([given])}" if isinstance(given, str) else ""
        raise _refusal(field, (), "must be a list of names", given, remedy)
    errors = ErrorCollector()
    for agent, entry in enumerate(given):
        errors.attempt(name, field, entry, index=agent)
    errors.raise_errors()
    return given


def number(field: str, given: Any, rule: str = "a number", *, index: Index = ()) -> float:
    """One number; booleans and texts are none."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        is_percent = isinstance(given, str) and given.strip().endswith("%")
        remedy = "; write 60 % as 0.6, without quotes" if is_percent else "; write numbers without quotes"
        remedy = remedy if isinstance(given, str) else ""
        raise _refusal(field, index, f"must be {rule}", given, remedy)
    try:
        return float(given)
    except OverflowError as error:
        raise _refusal(field, index, "must be below 1.8e308, the largest float", given) from error


def numbers(field: str, given: Any) -> float | list[float]:
    """One number, or a list of one per agent."""
    if not isinstance(given, list):
        return number(field, given, "a number or a list of numbers")
    return [entry if type(entry) is float else number(field, entry, index=index) for index, entry in enumerate(given)]


def rows(field: str, given: Any, *, files: str) -> list[list[float]]:
    """A matrix: a list of lists of numbers; `files` are the kinds that may hold one instead."""
    if not isinstance(given, list):
        raise _refusal(field, (), f"must be a list of rows, or the name of a {files} file", given)
    for index, row in enumerate(given):
        if not isinstance(row, list):
            raise _refusal(field, index, "must be a list of numbers, one per column", row)
    return [
        row
        if set(map(type, row)) == {float}  # as in nearly all rows of large matrices, which must not take long
        else [number(field, entry, index=(index, column)) for column, entry in enumerate(row)]
        for index, row in enumerate(given)
    ]


def _refusal(field: str, index: Index, rule: str, given: Any, remedy: str = "") -> InvalidInput:
    said = f", got {short_repr(given)}{remedy}"
    return InvalidInput(field=field, index=index, rule=rule, value=given, given=said)


def capacities(field: str, given: Any) -> float | list[float]:
    """Like `numbers`, with infinity also spelled out."""
    if isinstance(given, list):
        return numbers(field, [math.inf if entry in INFINITY_TEXTS else entry for entry in given])
    return math.inf if given in INFINITY_TEXTS else numbers(field, given)


def table(field: str, given: Any, known: Iterable[str], *, required: Iterable[str] = ()) -> Mapping[str, Any]:
    """A table (an object in JSON) with all of the `required` keys and none but the `known` ones."""
    if not isinstance(given, Mapping):
        raise _refusal(field, (), f"must be a table with the keys {', '.join(known)}", given)
    check_keys(given, known, prefix=f"{field}.")
    for key in required:
        if key not in given:
            way_out = f"; {field} needs the keys {', '.join(required)}"
            raise InvalidInput(field=f"{field}.{key}", rule="is missing", given=way_out)
    return given


def record(field: str, given: Any, readers: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """A table with exactly these keys, each read by its reader."""
    given = table(field, given, readers, required=readers)
    return {key: reader(f"{field}.{key}", given[key]) for key, reader in readers.items()}


def check_keys(
    given: Mapping[str, Any], known: Iterable[str], *, prefix: str = "", remedies: Mapping[str, str] | None = None
) -> None:
    """Refuse the keys that are not `known`, and name the nearest that is, or the remedy for this one."""
    known, errors = list(known), ErrorCollector()
    for key in given:
        if key in known:
            continue
        nearest = difflib.get_close_matches(str(key), known, n=1)
        remedy = f'did you mean "{prefix}{nearest[0]}"?' if nearest else f"known keys here are {', '.join(known)}"
        if prefix and not nearest:
            remedy += "; keys of the whole file stand above its first [table]"
        remedy = (remedies or {}).get(key, remedy)
        errors.errors.append(InvalidInput(f"unknown key {short_repr(prefix + str(key))}; {remedy}"))
    errors.raise_errors()

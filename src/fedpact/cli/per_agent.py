"""Options that say something for every agent, or for every lot or task where members have several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation.lots import lots_by_name, stated_by_name
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.tables import typed_number

MAX_LISTED_NAMES = 6  # names in a message
Each = list[str] | None  # a number for all, one per member with commas, or NAME=NUMBER; may be repeated
Rule = tuple[Callable[[float], object], str]
FINITE: Rule = (np.isfinite, "a finite number")


def entries_by_name(option: str, given: Sequence[str]) -> dict[str, str]:
    """What is said for all, under the empty name, and what by NAME=TEXT; nothing twice."""
    stated: dict[str, str] = {}
    for entry in given:
        name, equals, text = entry.rpartition("=")
        if equals and not name.strip():
            raise InvalidInput(f"{option}: a name is missing before the = in {entry!r:.60}")
        if name.strip() in stated:
            raise InvalidInput(f"{option} says two things of {name.strip() or 'everybody'}; keep one of them")
        stated[name.strip()] = text.strip()
    return stated


def per_agent(
    option: str, given: Sequence[str], names: Sequence[str], otherwise: ArrayLike, *, rule: Rule = FINITE
) -> FloatArray:
    """One number per agent: `otherwise` where nothing is said; what is said of one counts more than what of all.

    Examples
    --------
    >>> per_agent("--samples", ["400", "City=600", "0=100"], ["North", "City", "South"], 0.0).tolist()
    [100.0, 600.0, 400.0]
    """
    numbers = np.array(np.broadcast_to(np.asarray(otherwise, dtype=np.float64), len(names)))
    stated = entries_by_name(option, given)
    general = stated.pop("", None)
    if general is not None:
        parts, kind = [_number(option, part, rule, general) for part in general.split(",")], _kind(names)
        if len(parts) not in (1, len(names)):
            counts = f"{len(names)} {kind}s, {len(parts)} numbers given"
            raise InvalidInput(f"{option} must be a number for all or one per {kind}: {counts}")
        numbers[:] = parts
    named: dict[str, float] = {}
    for name, text in stated.items():
        whose = name if name not in names and lots_by_name(name, names) else names[find_agent(option, name, names)]
        if whose in named:
            raise InvalidInput(f"{option} says two things of {whose}; keep one of them")
        named[whose] = _number(option, text, rule, f"{name}={text}")
    for index, number in enumerate(stated_by_name(option, named, names)):
        numbers[index] = numbers[index] if number is None else number
    return numbers


def _kind(names: Sequence[str]) -> str:
    """What the names are of: members, lots or tasks."""
    return str(getattr(names, "kind", "member"))


def _number(option: str, text: str, rule: Rule, entry: str) -> float:
    try:
        number = typed_number(text)
    except InvalidInput as error:
        raise error.within(option) from error
    except ValueError as error:
        raise InvalidInput(f"{option} must be NUMBER, NUMBER,NUMBER,... or NAME=NUMBER, got {entry!r:.60}") from error
    if not rule[0](number):
        raise InvalidInput(f"{option} must be {rule[1]}, got {entry!r:.60}")
    return number


def find_agent(option: str, given: str, names: Sequence[str]) -> int:
    """The index of a member, lot or task given by name or number."""
    for name in (given, given.strip()):
        if name in names:
            return list(names).index(name)
    short = given.strip()
    if short.isascii() and short.isdecimal() and len(short) <= len(str(len(names))) and int(short) < len(names):
        return int(short)
    kind, last = _kind(names), len(names) - 1
    listed = ", ".join(names[:MAX_LISTED_NAMES]) + (", ..." if len(names) > MAX_LISTED_NAMES else "")
    raise InvalidInput(
        f"{option}: there is no {kind} {short!r}; {kind}s are numbered 0 to {last}, or called by name: {listed}"
    )

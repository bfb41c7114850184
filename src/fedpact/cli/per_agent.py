"""Options that say a number for every agent, or for every lot or task where members have several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

MAX_LISTED_NAMES = 6  # names in a message
EACH = "A number for all, one per member with commas, or NAME=NUMBER; may be repeated."


def per_agent(option: str, given: Sequence[str], names: Sequence[str], otherwise: ArrayLike) -> FloatArray:
    """One number per agent: `otherwise` where nothing is said, and where more than one thing is said the last.

    Nobody may be named twice.

    Examples
    --------
    >>> per_agent("--samples", ["400", "City=600", "0=100"], ["North", "City", "South"], 0.0).tolist()
    [100.0, 600.0, 400.0]
    """
    numbers = np.array(np.broadcast_to(np.asarray(otherwise, dtype=np.float64), len(names)))
    named: set[int] = set()
    for entry in given:
        name, equals, text = entry.rpartition("=")
        if equals:
            place = find_agent(option, name, names)
            if place in named:
                raise InvalidInput(f"{option} names {_kind(names)} {names[place]!r} twice; say one number for it")
            named.add(place)
            numbers[place] = _number(option, text, entry)
            continue
        parts = [_number(option, part, entry) for part in entry.split(",")]
        if len(parts) not in (1, len(names)):
            kind = _kind(names)
            raise InvalidInput(
                f"{option} must be a number for all or one per {kind}: {len(names)} {kind}s, {len(parts)} numbers given"
            )
        numbers[:] = parts
    return numbers


def _kind(names: Sequence[str]) -> str:
    """What the names are of: members, lots or tasks."""
    return str(getattr(names, "kind", "member"))


def _number(option: str, text: str, entry: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise InvalidInput(f"{option} must be NUMBER, NUMBER,NUMBER,... or NAME=NUMBER, got {entry!r:.60}") from error
    if not np.isfinite(number):
        raise InvalidInput(f"{option} must be a finite number, got {entry!r:.60}")
    return number


def find_agent(option: str, given: str, names: Sequence[str]) -> int:
    """The place of a member, lot or task given by name or number."""
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

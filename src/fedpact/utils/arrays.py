"""Numbers given per agent: checked once, kept as read-only float arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.errors import InvalidInput

__all__ = [
    "NON_NEGATIVE",
    "POSITIVE",
    "FloatArray",
    "checked_numbers",
    "first_where",
    "non_negative",
    "positive",
    "read_only_copy",
]

FloatArray = NDArray[np.float64]

POSITIVE = "positive and finite"
NON_NEGATIVE = "at least zero and finite"


def read_only_copy(array: ArrayLike) -> FloatArray:
    """A read-only float copy of `array`, never sharing memory with it."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def first_where(mask: NDArray[np.bool_]) -> int | None:
    """Index of the first true entry, or None."""
    hits = np.flatnonzero(mask)
    return int(hits[0]) if hits.size else None


def checked_numbers(
    label: str,
    given: Any,
    accepts: Callable[[FloatArray], NDArray[np.bool_]],
    rule: str,
    *,
    names: Sequence[str] | None = None,
    who: str | None = None,
) -> FloatArray:
    """A read-only array of one number, or one per agent, every entry of which passes `accepts`.

    The result is 0-d when one number was given. With `names` a 1-d array must have one entry per name, and errors
    speak of the agent by name; `who` names the agent of a single number.
    """
    try:
        if given is None:
            raise TypeError("nothing given")
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{label} must be a number or one number per agent, got {given!r:.80}") from error
    if array.ndim > 1:
        raise InvalidInput(f"{label} must be a number or one number per agent, got an array of shape {array.shape}")
    if names is not None and array.ndim == 1 and array.size != len(names):
        raise InvalidInput(
            f"{label} must be a number or one number per agent: {len(names)} agents, {array.size} numbers given"
        )
    index = first_where(~accepts(np.atleast_1d(array)))
    if index is not None:
        entry = label if array.ndim == 0 else f"{label}[{index}]"
        name = names[index] if names is not None and array.ndim == 1 else who
        about = "" if name is None else f' (agent "{name}")'
        number = np.atleast_1d(array)[index]
        stated = rule.removesuffix(" and finite") if np.isfinite(number) else rule
        raise InvalidInput(f"{entry} must be {stated}, got {number:g}{about}")
    array.setflags(write=False)
    return array


def positive(array: FloatArray) -> NDArray[np.bool_]:
    """Entries that are positive and finite."""
    return (array > 0) & np.isfinite(array)


def non_negative(array: FloatArray) -> NDArray[np.bool_]:
    """Entries that are at least zero and finite."""
    return (array >= 0) & np.isfinite(array)

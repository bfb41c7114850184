"""How many random cases a test tries: a few by default, all of them with `make test-slow`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
ALL_CASES = os.environ.get("FEDPACT_ALL_CASES", "") not in {"", "0"}
FEW = 2
SHARE = 16  # one case in so many is tried by default, or a few


def cases(count: int, few: int = FEW) -> int:
    """How many of `count` random cases to try."""
    return count if ALL_CASES else max(min(count, few), count // SHARE)


def some(values: Iterable[T], few: int = FEW) -> list[T]:
    """A few of the values that a test takes one by one, spread over all of them; every one with all cases."""
    every = list(values)
    if ALL_CASES or len(every) <= few:
        return every
    return [every[place * (len(every) - 1) // max(few - 1, 1)] for place in range(few)]

"""How many random cases a test tries: a few by default, all of them with `make test-slow`."""

from __future__ import annotations

import os

ALL_CASES = os.environ.get("FEDPACT_ALL_CASES", "") not in {"", "0"}
FEW = 5
SHARE = 8  # one case in so many is tried by default, or a few


def cases(count: int, few: int = FEW) -> int:
    """How many of `count` random cases to try."""
    return count if ALL_CASES else max(min(count, few), count // SHARE)

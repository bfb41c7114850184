"""Counts and names in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def count_text(count: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> count_text(1, "agent"), count_text(1200, "agent")
    ('1 agent', '1,200 agents')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def join_names(names: Sequence[str], *, most: int | None = None) -> str:
    """Names in a sentence, the first few of them if they are many.

    Examples
    --------
    >>> join_names(["City", "County", "Clinic"])
    'City, County and Clinic'
    >>> join_names(["City", "County", "Clinic"], most=1)
    'City and 2 more'
    """
    shown = list(names[:most])
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown):,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)

"""Counts and names in a sentence, and texts of strangers made safe to show."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_NAMES = 5  # in a sentence

# What a terminal obeys instead of showing it, and what turns the direction of the text that follows; lone surrogates.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def count_text(count: int, noun: str) -> str:
    """A count with its noun.

    Examples
    --------
    >>> count_text(1, "agent"), count_text(1200, "agent")
    ('1 agent', '1,200 agents')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def differing_texts(one: float, other: float) -> tuple[str, str]:
    """Two numbers in six digits, or in as many as it takes to see that they differ.

    Examples
    --------
    >>> differing_texts(0.1716251, 0.2), differing_texts(0.1716251, 0.1716252)
    (('0.171625', '0.2'), ('0.1716251', '0.1716252'))
    """
    texts = ((f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in range(6, 18))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{one:.6g}", f"{other:.6g}"))


def join_names(names: Sequence[str], *, most: int | None = None) -> str:
    """Names in a sentence, the first few of them if they are many.

    Examples
    --------
    >>> join_names(["City", "County", "Clinic"])
    'City, County and Clinic'
    >>> join_names(["City", "County", "Clinic"], most=1)
    'City and 2 more'
    """
    most = len(names) if most is None or len(names) == most + 1 else most  # "1 more" takes no less room than a name
    shown = list(names[:most])
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown):,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def group_text(group: Sequence[str], everybody: Sequence[str], *, most: int) -> str:
    """A group in a sentence; if it is large, by those who are not in it where they are few.

    Examples
    --------
    >>> group_text(["City", "County", "Clinic"], ["City", "County", "Clinic", "North"], most=1)
    'all but North'
    """
    rest = [name for name in everybody if name not in set(group)]
    if len(group) > most and 0 < len(rest) <= most:
        return f"all but {join_names(rest)}"
    return join_names(group, most=most)


def printable(text: str, *, keep: str = "") -> str:
    r"""A text with its control characters spelled out, but for those in `keep`.

    Examples
    --------
    >>> print(printable("City\x1b[2J"))
    City\x1b[2J
    """
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)

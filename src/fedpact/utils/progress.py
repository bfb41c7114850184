"""How far long work is, for whoever shows it: `report_progress` says it, `listen_to_progress` hears it.

Work deep inside a solver need not know who asked for it. Without a listener nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("progress_listener", default=None)


def report_progress(what: str) -> None:
    """Say how far the work is, in a few words."""
    listener = _listener.get()
    if listener is not None:
        listener(what)


@contextmanager
def listen_to_progress(listener: Callable[[str], None]) -> Iterator[None]:
    """Have a function called with what is reported within the block.

    Examples
    --------
    >>> with listen_to_progress(print):
    ...     report_progress("12 groups")
    12 groups
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)

"""One computation at a time, for questions that are still wanted, and the latest results of each kind.

Requests arrive on several threads. Sliders, downloads and steps come back to the same federation, so its results are
kept. Long sweeps run beside the turns, and end when the page no longer wants them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

MAX_RESULTS = 64  # of each kind that are kept
LOOK_UP = 0.1  # seconds between two looks whether the answer is still wanted

T = TypeVar("T")


class Cancelled(Exception):
    """The page no longer wants the answer."""


# Set where a question is answered, once nobody waits for the answer any more.
abandoned: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)


class Turns:
    """A lock that questions stop waiting for, by `Cancelled`, once the page has abandoned them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def is_taken(self) -> bool:
        """Whether somebody has the turn."""
        return self._lock.locked()

    def acquire(self) -> None:
        """Wait for one's turn, while the answer is wanted."""
        gone = abandoned.get()
        while gone is None or not gone.is_set():
            if self._lock.acquire(timeout=LOOK_UP):
                return
        raise Cancelled

    def release(self) -> None:
        """The next one's turn."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Results:
    """The latest results of each kind; `turns` is held while one is computed."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._kept: dict[str, OrderedDict[Any, Any]] = {}

    def of(self, kind: str, key: Any, work: Callable[[], T]) -> T:
        """What was kept under a key, or what `work` returns."""
        with self.turns:
            kept = self._kept.setdefault(kind, OrderedDict())
            if key not in kept:
                kept[key] = work()
                while len(kept) > MAX_RESULTS:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            found: T = kept[key]
            return found

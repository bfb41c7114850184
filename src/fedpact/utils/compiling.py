"""When compiled kernels are worth their wait, and word to whoever waits: once per installation, some seconds.

Small problems are solved without. Numba is loaded only when a kernel is first needed, so who wants to hear of compiling
says so before, with `tell_of_compiling`; each module of kernels then calls `announce_compiling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

SMALL_WORK = 20_000  # entries of small matrices: NumPy takes some hundredths of a second for them
_many_to_come: ContextVar[bool] = ContextVar("many_to_come", default=False)

_listeners: list[Callable[[], None]] = []


def tell_of_compiling(listener: Callable[[], None]) -> None:
    """Have the listener called once, when the first kernel is compiled."""
    _listeners.append(listener)


def announce_compiling() -> None:
    """From here on, the listeners hear of the first kernel that is compiled."""
    if not _listeners:
        return
    from numba.core import event  # noqa: PLC0415 - heavy

    class Notice(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            while _listeners:
                _listeners.pop()()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Notice())  # type: ignore[no-untyped-call]


@contextmanager
def expecting_many() -> Iterator[None]:
    """Within the block even small problems are solved by compiled code: there are many of them."""
    before = _many_to_come.set(True)
    try:
        yield
    finally:
        _many_to_come.reset(before)


def are_many_expected() -> bool:
    """Whether this is within `expecting_many`."""
    return _many_to_come.get()


def pays_to_compile(work: int) -> bool:
    """Whether compiled code is worth its wait for so much work.

    It depends on nothing else: the same problem is solved the same way, however many came before.
    """
    return work > SMALL_WORK or are_many_expected()

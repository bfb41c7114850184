"""A word while kernels are compiled, which happens once per installation and takes a while."""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event

__all__ = ["announce_compilation"]


class _Announcement(event.Listener):  # type: ignore[misc]
    told = False

    def on_start(self, event: Any) -> None:
        if not self.told and sys.stderr.isatty():
            sys.stderr.write("compiling for this machine, once per installation: up to half a minute\n")
        self.told = True

    def on_end(self, event: Any) -> None:
        pass


def announce_compilation() -> None:
    """Say so on a terminal when something is compiled rather than found in the cache."""
    event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]

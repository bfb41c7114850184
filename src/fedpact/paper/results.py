"""The results by name, in the paper's order. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from inspect import signature
from typing import cast

from fedpact.errors import InvalidInput
from fedpact.paper.result import Result

__all__ = ["ALL", "RESULTS", "chosen", "reproduce"]

Progress = Callable[[int, int], None]

ALL = "all"
RESULTS: Mapping[str, str] = {
    "fig1": "fedpact.paper.fig1:fig1_result",
    "fig2": "fedpact.paper.fig2:fig2_result",
    "fig3": "fedpact.paper.fig3:fig3_result",
    "table1": "fedpact.paper.table1:table1_result",
    "fig5": "fedpact.paper.fig5:fig5_result",
    "theorems": "fedpact.paper.theorems:theorems_result",
}


def chosen(names: Iterable[str]) -> list[str]:
    """The results asked for, once each and in the paper's order; all of them if none is named.

    Examples
    --------
    >>> chosen(["table1", "fig2", "table1"])
    ['fig2', 'table1']
    """
    wanted = list(names) or [ALL]
    for name in wanted:
        if name != ALL and name not in RESULTS:
            raise InvalidInput(f"there is no result {name!r}; there are {', '.join(RESULTS)} and {ALL}")
    return [name for name in RESULTS if name in wanted or ALL in wanted]


def reproduce(name: str, progress: Progress | None = None) -> Result:
    """Compute one result; `progress` is told how many of how many parts are done, where a result has parts."""
    module, function = RESULTS[name].split(":")
    make = cast(Callable[..., Result], getattr(import_module(module), function))
    return make(progress=progress) if "progress" in signature(make).parameters else make()

"""The results by name, in the paper's order. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import cast

from fedpact.paper.result import Result
from fedpact.utils.errors import InvalidInput

__all__ = ["ALL", "ON_REQUEST", "RESULTS", "chosen", "reproduce"]

Progress = Callable[[int, int], None]

ALL = "all"
RESULTS: Mapping[str, str] = {
    "fig1": "fedpact.paper.fig1:fig1_result",
    "fig2": "fedpact.paper.fig2:fig2_result",
    "fig3": "fedpact.paper.fig3:fig3_result",
    "table1": "fedpact.paper.table1:table1_result",
    "fig4": "fedpact.paper.fig4:fig4_result",
    "fig5": "fedpact.paper.fig5:fig5_result",
    "theorems": "fedpact.paper.theorems:theorems_result",
    "heterogeneous": "fedpact.paper.heterogeneous:heterogeneous_result",
}
ON_REQUEST = ("fig4", "heterogeneous")  # they train models for minutes: not among all


def chosen(names: Iterable[str]) -> list[str]:
    """The results asked for, once each and in the paper's order; all but those on request if none is named.

    Examples
    --------
    >>> chosen(["table1", "fig2", "table1"])
    ['fig2', 'table1']
    """
    wanted = list(names) or [ALL]
    for name in wanted:
        if name != ALL and name not in RESULTS:
            raise InvalidInput(f"there is no result {name!r}; there are {', '.join(RESULTS)} and {ALL}")
    return [name for name in RESULTS if name in wanted or (ALL in wanted and name not in ON_REQUEST)]


def reproduce(
    name: str, progress: Progress | None = None, *, quick: bool = False, folder: Path | None = None
) -> Result:
    """Compute one result.

    Parameters
    ----------
    progress
        Told how many of how many parts are done, where a result has parts.
    quick
        A shorter version, where there is one.
    folder
        Where what was trained is kept, where anything is.
    """
    module, function = RESULTS[name].split(":")
    make = cast(Callable[..., Result], getattr(import_module(module), function))
    offered = {"progress": progress, "quick": quick, "folder": folder}
    return make(**{option: given for option, given in offered.items() if option in signature(make).parameters})

"""One setting for all the cores this package uses: FEDPACT_THREADS, or `set_threads`.

It counts the worker processes of sweeps and the threads of training; where fedpact is imported first, the setting
reaches the linear algebra libraries too. Without it, all cores this process may use are used.
"""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

from fedpact.utils.errors import InvalidInput

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

THREADS_VARIABLE = "FEDPACT_THREADS"
MIN_SHARED_ROWS = 500  # of matrices that several threads factor faster than one
LIBRARY_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def available() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """How many cores are used."""
    return _count


def set_threads(count: int) -> None:
    """Use `count` threads from here on, at most as many as there were when the process started."""
    global _count  # noqa: PLW0603 - one setting for the process
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _most:
        raise InvalidInput(
            f"threads must be a whole number from 1 to {_most}, got {count!r}; {THREADS_VARIABLE} raises the most"
        )
    _count = count


@cache
def _linear_algebra() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - where something is solved

    return ThreadpoolController()


def on_one_thread(size: int) -> AbstractContextManager[object]:
    """Keep linear algebra on one thread within the block, unless matrices have many rows: small ones lose by more."""
    many = size >= MIN_SHARED_ROWS
    return nullcontext() if many else _linear_algebra().limit(limits=1, user_api="blas")


def thread_setting() -> str | None:
    """What FEDPACT_THREADS says; raises `InvalidInput` if it is no count."""
    given = os.environ.get(THREADS_VARIABLE)
    if given is not None and (not given.isdecimal() or int(given) < 1):
        raise InvalidInput(f"{THREADS_VARIABLE} must be a whole number of at least 1, got {given!r}")
    return given


def _tell_libraries() -> int:
    """Hand the setting to libraries that have not been imported yet; what the user said to them directly wins.

    Returns how many cores are used.
    """
    try:
        given = thread_setting()
    except InvalidInput as error:  # an import does not fail for it; the command line does
        warnings.warn(f"{error}; it is ignored", stacklevel=2)
        given = None
    if given is not None:
        for library in LIBRARY_VARIABLES:
            os.environ.setdefault(library, given)
    return available() if given is None else int(given)


_most = _count = _tell_libraries()

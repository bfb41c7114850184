"""One setting for all the cores this package uses: FEDPACT_THREADS, or `set_threads`.

It counts the threads of compiled kernels and the worker processes of sweeps, whose kernels then use one each. Linear
algebra never runs inside a kernel, so the two do not compete; where fedpact is imported first, the setting reaches the
linear algebra libraries too. Without it, all cores this process may use are used.
"""

from __future__ import annotations

import os
import sys
import warnings

from fedpact.utils.errors import InvalidInput

THREADS_VARIABLE = "FEDPACT_THREADS"
LIBRARY_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def available() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """How many threads compiled kernels use."""
    import numba  # noqa: PLC0415 - reads the environment when imported

    return int(numba.get_num_threads())


def set_threads(count: int) -> None:
    """Use `count` threads from here on, at most as many as there were when the process started."""
    import numba  # noqa: PLC0415 - reads the environment when imported

    most = int(getattr(numba.config, "NUMBA_NUM_THREADS"))  # noqa: B009 - set when numba is imported
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise InvalidInput(
            f"threads must be a whole number from 1 to {most}, got {count!r}; {THREADS_VARIABLE} raises the most"
        )
    numba.set_num_threads(count)


def thread_setting() -> str | None:
    """What FEDPACT_THREADS says; raises `InvalidInput` if it is no count."""
    given = os.environ.get(THREADS_VARIABLE)
    if given is not None and (not given.isdecimal() or int(given) < 1):
        raise InvalidInput(f"{THREADS_VARIABLE} must be a whole number of at least 1, got {given!r}")
    return given


def _tell_libraries() -> None:
    """Hand the setting to libraries that have not been imported yet; what the user said to them directly wins."""
    try:
        given = thread_setting()
    except InvalidInput as error:  # an import does not fail for it; the command line does
        warnings.warn(f"{error}; it is ignored", stacklevel=2)
        return
    if given is None:
        return
    for library in LIBRARY_VARIABLES:
        if "numba" not in sys.modules or library != "NUMBA_NUM_THREADS":
            os.environ.setdefault(library, given)


_tell_libraries()

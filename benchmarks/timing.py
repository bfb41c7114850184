"""How things are timed: processor seconds, the best of a few runs, after one that does not count.

Processor time, of this process and of those it started, hardly depends on what else the machine does.
"""

import resource
import time
from collections.abc import Callable
from typing import Any


def processor_seconds() -> float:
    """Seconds of processor time used so far, by this process and by finished ones that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def best_of(call: Callable[[], Any], *, repeats: int = 3, warm: bool = True) -> tuple[float, Any]:
    """Seconds of the fastest run, and what the last one returned."""
    result = call() if warm else None
    seconds = []
    for _ in range(repeats):
        start = processor_seconds()
        result = call()
        seconds.append(processor_seconds() - start)
    return min(seconds), result


def once(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the only run, for what takes long."""
    return best_of(call, repeats=1, warm=False)

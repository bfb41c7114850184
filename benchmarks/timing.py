"""How things are timed: the best of a few runs, after one that does not count."""

import time
from collections.abc import Callable
from typing import Any


def best_of(call: Callable[[], Any], *, repeats: int = 3, warm: bool = True) -> tuple[float, Any]:
    """Seconds of the fastest run, and what the last one returned."""
    result = call() if warm else None
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result

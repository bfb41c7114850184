"""Work shared out to processes of this machine, by joblib: as many as `fedpact.thread_count()`, one thread each."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from fedpact.utils.errors import FedpactError
from fedpact.utils.threads import THREADS_VARIABLE, set_threads, thread_count

Item = TypeVar("Item")
Result = TypeVar("Result")

CALLER_CHECK_SECONDS = 1.0

# The workers of a process are one pool; who ends it early ends it for all, so its users take turns.
_pool = threading.Lock()


class _Abandoned(Exception):
    """Nobody wants the rest."""


def map_parallel(
    function: Callable[[Item], Result], items: Sequence[Item]
) -> Generator[tuple[Item, Result], None, None]:
    """Every item with what the function makes of it, in the order they are done.

    Workers start afresh and do not run the caller's script again. An interrupt, an error in a task and closing the
    generator end them at once; what was yielded before is not lost.

    Raises
    ------
    FedpactError
        If a worker process is killed, or cannot import the function or an item.
    """
    import joblib  # noqa: PLC0415 - slow to import, and only needed here
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415 - as above

    with _pool:
        with joblib.parallel_config(backend="loky", n_jobs=thread_count(), inner_max_num_threads=1):
            parallel = joblib.Parallel(
                return_as="generator_unordered",
                batch_size=1,
                max_nbytes=None,
                initializer=_prepare_worker,
                initargs=(os.getpid(),),
            )
        tasks = (joblib.delayed(_run)(function, index, item) for index, item in enumerate(items))
        results: Any = (found for found in list[Any]())
        try:
            with _holding_interrupts():  # one that came meanwhile is heard at its end, and ends the workers below
                results = parallel(tasks)
            for index, found in results:
                yield items[index], found
        except TerminatedWorkerError as error:
            raise FedpactError(
                "a worker process ended, perhaps for lack of memory; started again with a checkpoint the work goes on "
                f"where it was, and {THREADS_VARIABLE}=1 works without workers"
            ) from error
        except BrokenProcessPool as error:
            reason = str(error.__cause__).strip('"\n ').rpartition("\n")[2]
            raise FedpactError(
                f"worker processes cannot import what they need: {reason}; {THREADS_VARIABLE}=1 works without workers"
            ) from error
        finally:
            with suppress(_Abandoned, StopIteration):
                results.throw(_Abandoned)  # ends the workers where there is work left, without a warning


@contextmanager
def _holding_interrupts() -> Iterator[None]:
    """Start workers that an interrupt of the terminal does not reach, not even while they start: they inherit this.

    An interrupt that comes meanwhile is heard right after, whichever thread it reaches: in the middle joblib would
    leave half a pool behind.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # whose start, which workers cause, would let interrupts through again
    heard: list[int] = []
    in_charge = threading.current_thread() is threading.main_thread()  # no other hears interrupts
    usual = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number)) if in_charge else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if in_charge:
            signal.signal(signal.SIGINT, usual)
    if heard:
        raise KeyboardInterrupt


def _prepare_worker(caller: int) -> None:
    """In a worker, before it works: interrupts are the caller's business alone, and nobody works for a dead caller."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(caller,), daemon=True).start()


def _end_with(caller: int) -> None:
    while os.getppid() == caller:
        time.sleep(CALLER_CHECK_SECONDS)
    os._exit(1)


def _run(function: Callable[[Item], Result], index: int, item: Item) -> tuple[int, Result]:
    """In a worker: one task on one thread, which shares nothing out itself."""
    set_threads(1)
    return index, run_on_one_thread(function, item)


def run_on_one_thread(function: Callable[[Item], Result], item: Item) -> Result:
    """What a worker would make of an item, in this process: linear algebra on several threads rounds differently."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - slow to import

    with threadpool_limits(1):
        return function(item)

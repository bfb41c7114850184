"""Pieces that take long, shared out to processes of one thread each.

Workers are started afresh rather than forked, because threads do not survive a fork. They do not run the caller's
script again, as fresh processes otherwise do, so scripts need no `if __name__ == "__main__"`. An interrupt is the
caller's business alone: it ends the workers at once. They end by themselves when the caller dies.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedpact.comparison.sweeps import Arrays, Piece
from fedpact.federation import Federation
from fedpact.utils.errors import FedpactError
from fedpact.utils.threads import VARIABLE, thread_count

__all__ = ["share_out", "worth_sharing"]

WORTH = 200  # points


def worth_sharing(pieces: Sequence[Piece]) -> bool:
    """Whether workers would gain more time than starting them takes."""
    return thread_count() > 1 and sum(piece.size for piece in pieces) >= WORTH and _can_travel(pieces[0].federation)


def share_out(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, Arrays]]:
    """Every piece with what was found, in the order they are done."""
    others = set(active_children())
    pool = ProcessPoolExecutor(thread_count(), mp_context=get_context("spawn"), initializer=_prepare)
    finished = False
    try:
        with _starting():
            waiting: dict[Future[Arrays], Piece] = {pool.submit(piece.solve): piece for piece in pieces}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
        finished = True
    except BrokenProcessPool as error:
        raise FedpactError(
            "a worker process of the sweep ended, perhaps for lack of memory; started again a sweep with a checkpoint "
            f"goes on where it was, and {VARIABLE}=1 works without workers"
        ) from error
    finally:
        if not finished:
            for worker in set(active_children()) - others:
                worker.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _can_travel(federation: Federation) -> bool:
    """Whether workers can find the classes: they do not know those of the caller's script."""
    return all(type(part).__module__ != "__main__" for part in (federation.payoff, federation.costs))


@contextmanager
def _starting() -> Iterator[None]:
    """While workers start: they inherit one thread, deafness to interrupts, and no script to run."""
    script, setting = sys.modules["__main__"], os.environ.get(VARIABLE)
    deaf = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if deaf else set()
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        if setting is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = setting
        if deaf:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    """In a worker, before it works."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)

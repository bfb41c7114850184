"""Running a sweep: the grid in pieces, each a batch; on all cores; finished pieces are kept.

Mechanisms that compiled code solves use the threads of the kernels. The others are shared out to processes, each with
one thread, where there is enough to do for them to pay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.batch import BatchOutcome, solve_batch
from fedpact.batch.profiles import is_compiled
from fedpact.errors import InvalidInput, NotConverged
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, mechanism_named
from fedpact.outcome import PER_AGENT
from fedpact.properties.certificate import Claim
from fedpact.sweeps.axes import Axis, batch_at, parse_axis
from fedpact.sweeps.checkpoint import Checkpoint
from fedpact.sweeps.result import Sweep
from fedpact.threads import VARIABLE, thread_count

__all__ = ["METRICS", "sweep"]

METRICS = (*PER_AGENT, "welfare", "reciprocity", *(str(claim) for claim in Claim))
MOST_AGENTS = 500
MOST_AXES = 2
COMPILED_PIECE = 2000  # points
SINGLE_PIECE = 10
WORTH_PROCESSES = 200  # points of single solves
FLAGS = ("solved", "on_boundary", "in_domain")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Some points of the grid under one mechanism; it travels to other processes."""

    federation: Federation
    axes: Sequence[Axis]
    mechanism: str
    metrics: Sequence[str]
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.mechanism}-{self.start}-{self.stop}"

    def solve(self) -> Arrays:
        """The metrics and flags of its points, by name."""
        grids = np.meshgrid(*(axis.points for axis in self.axes), indexing="ij")
        batch = batch_at(self.federation, self.axes, [grid.ravel()[self.start : self.stop] for grid in grids])
        try:
            outcome = solve_batch(batch, mechanism_named(self.mechanism))
        except NotConverged as error:  # the points that have no equilibrium are marked in `solved`
            if not isinstance(error.result, BatchOutcome):
                raise
            outcome = error.result
        found = {metric: np.asarray(_metric(outcome, metric)) for metric in self.metrics}
        return found | {flag: np.asarray(getattr(outcome, flag)) for flag in FLAGS}


def sweep(
    federation: Federation,
    vary: Sequence[str | Axis],
    *,
    metrics: Sequence[str] = ("ir_gaps",),
    mechanisms: Sequence[str] = ("externality", "shapley"),
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Path | None = None,
) -> Sweep:
    """Metrics of the mechanisms' outcomes over one or two parameters.

    Parameters
    ----------
    vary
        What to vary, such as `["weights[0,1]=-3:3:121", "weights[1,0]=-3:3:121"]`.
    metrics
        Fields of an outcome, such as "ir_gaps" or "welfare", or claims, such as "nash", whose margin is meant.
    progress
        Called with the number of points done and of all points.
    checkpoint
        A folder for finished pieces: an interrupted sweep that is started again goes on from there. It is left for the
        caller to remove.

    Examples
    --------
    >>> import numpy as np
    >>> from fedpact import Federation, PowerLaw
    >>> base = Federation(np.ones((3, 3)), costs=0.001, caps=400.0, payoff=PowerLaw(0.02))
    >>> found = sweep(base, ["costs=0.001,0.002"], metrics=["contributions"], mechanisms=["externality"])
    >>> found.metrics["externality"]["contributions"].round(4).tolist()
    [[18.1238, 18.1238, 18.1238], [9.0244, 9.0244, 9.0244]]
    """
    axes = [parse_axis(each, federation) if isinstance(each, str) else each for each in vary]
    _check(federation, axes, metrics, mechanisms)
    total = int(np.prod([axis.points.size for axis in axes]))
    pieces = [piece for name in mechanisms for piece in _pieces(federation, axes, name, metrics, total)]
    kept = Checkpoint(checkpoint, _identity(federation, axes, metrics, mechanisms)) if checkpoint else None
    done: dict[str, Arrays] = {}
    finished = 0
    for piece, found in _solved(pieces, kept):
        done[piece.name] = found
        finished += piece.stop - piece.start
        if progress:
            progress(finished, total * len(mechanisms))
    return _assembled(federation, axes, metrics, mechanisms, [(piece, done[piece.name]) for piece in pieces])


def _check(federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], mechanisms: Sequence[str]) -> None:
    if not 1 <= len(axes) <= MOST_AXES:
        raise InvalidInput(f"a sweep varies one or two parameters, got {len(axes)}")
    if len(axes) == MOST_AXES and axes[0].label == axes[1].label:
        raise InvalidInput(f"the two parameters must differ, got {axes[0].label} twice")
    if federation.n_agents > MOST_AGENTS:
        raise InvalidInput(f"sweeps take up to {MOST_AGENTS} agents, got {federation.n_agents}")
    for what, given, known in (("metric", metrics, METRICS), ("mechanism", mechanisms, tuple(MECHANISMS))):
        for name in given:
            if name not in known:
                raise InvalidInput(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not given or len(set(given)) < len(given):
            raise InvalidInput(f"name at least one {what}, each once, got {list(given)}")


def _pieces(
    federation: Federation, axes: Sequence[Axis], mechanism: str, metrics: Sequence[str], total: int
) -> list[Piece]:
    sample = batch_at(federation, axes, [axis.points[:1] for axis in axes])
    size = COMPILED_PIECE if is_compiled(sample, mechanism_named(mechanism)) else SINGLE_PIECE
    return [
        Piece(
            federation=federation,
            axes=axes,
            mechanism=mechanism,
            metrics=metrics,
            start=start,
            stop=min(start + size, total),
        )
        for start in range(0, total, size)
    ]


def _solved(pieces: Sequence[Piece], kept: Checkpoint | None) -> Iterator[tuple[Piece, Arrays]]:
    """Every piece with what was found, those on disk first, in no order otherwise."""
    open_pieces = []
    for piece in pieces:
        found = kept.load(piece.name) if kept else None
        if found is None:
            open_pieces.append(piece)
        else:
            yield piece, found
    for piece, found in _worked_out(open_pieces):
        if kept:
            kept.save(piece.name, found)
        yield piece, found


def _worked_out(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, Arrays]]:
    single = [piece for piece in pieces if piece.stop - piece.start <= SINGLE_PIECE]
    parallel = thread_count() > 1 and sum(piece.stop - piece.start for piece in single) >= WORTH_PROCESSES
    for piece in pieces:
        if not (parallel and piece in single):
            yield piece, piece.solve()
    if not parallel:
        return
    pool = ProcessPoolExecutor(thread_count(), mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        waiting: dict[Future[Arrays], Piece] = {pool.submit(piece.solve): piece for piece in single}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    """In a worker, before it works: the cores are shared out already, and an interrupt is the parent's business."""
    import signal  # noqa: PLC0415 - in workers only

    from fedpact.threads import set_threads  # noqa: PLC0415 - in workers only

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[VARIABLE] = "1"
    set_threads(1)


def _metric(outcome: BatchOutcome, metric: str) -> FloatArray:
    if metric in set(Claim):
        return outcome.certificates[metric].margins
    return np.asarray(getattr(outcome, metric))


def _assembled(
    federation: Federation,
    axes: Sequence[Axis],
    metrics: Sequence[str],
    mechanisms: Sequence[str],
    solved: Sequence[tuple[Piece, Arrays]],
) -> Sweep:
    shape = tuple(axis.points.size for axis in axes)

    def joined(mechanism: str, name: str) -> np.ndarray:
        parts = np.concatenate([found[name] for piece, found in solved if piece.mechanism == mechanism])
        return parts.reshape(shape + parts.shape[1:])

    return Sweep(
        axes=tuple(axes),
        agents=federation.agent_names,
        metrics={name: {metric: joined(name, metric) for metric in metrics} for name in mechanisms},
        solved={name: joined(name, "solved") for name in mechanisms},
        on_boundary={name: joined(name, "on_boundary") for name in mechanisms},
        in_domain={name: joined(name, "in_domain") for name in mechanisms},
    )


def _identity(federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], mechanisms: Sequence[str]) -> str:
    from importlib.metadata import version  # noqa: PLC0415 - for long sweeps only

    varied = [(axis.label, axis.points.tobytes()) for axis in axes]
    return repr((version("fedpact"), federation.signature(), varied, list(metrics), list(mechanisms)))

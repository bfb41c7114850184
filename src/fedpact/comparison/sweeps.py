"""Running a sweep: the grid in pieces, each a batch; on all cores; finished pieces are kept.

Mechanisms that compiled code solves use the threads of the kernels. The others are shared out to processes, each with
one thread, where there is enough to do for them to pay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from fedpact.comparison.sweep_axes import Axis, check_axes, parse_axis
from fedpact.comparison.sweep_metrics import METRICS
from fedpact.comparison.sweep_pieces import Arrays, Piece, cut
from fedpact.comparison.sweep_result import Sweep
from fedpact.comparison.sweep_workers import share_out, worth_sharing
from fedpact.deals.outcome import PER_AGENT
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput

__all__ = ["METRICS", "sweep"]

MOST_AGENTS = 500
MOST_AXES = 2
MOST_POINTS = 1_000_000
MOST_NUMBERS = 20_000_000  # in the table, which is held in memory


def sweep(
    federation: Federation,
    vary: str | Axis | Sequence[str | Axis],
    *,
    metrics: Sequence[str] = ("ir_gaps",),
    mechanisms: Sequence[str] = ("externality", "shapley"),
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Metrics of the mechanisms' outcomes over one or two parameters.

    Parameters
    ----------
    vary
        What to vary, such as `["weights[0,1]=-3:3:121", "weights[1,0]=-3:3:121"]`.
    metrics
        Fields of an outcome, such as "ir_gaps" or "welfare", or claims, such as "nash", whose margin is meant.
    progress
        Called with the number of points done and of all points, both counted once for every mechanism.
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
    [[18.1238, 18.1238, 18.1238], [9.0215, 9.0215, 9.0215]]
    """
    written = [vary] if isinstance(vary, str | Axis) else list(vary)
    metrics, mechanisms = (
        [given] if isinstance(given, str) else [str(name) for name in given] for given in (metrics, mechanisms)
    )
    _check(federation, written, metrics, mechanisms)
    axes = [parse_axis(each, federation) if isinstance(each, str) else each for each in written]
    _check_grid(federation, axes, metrics, mechanisms)
    pieces = [piece for name in mechanisms for piece in cut(federation, axes, name, metrics)]
    kept = Checkpoint(Path(checkpoint), _identity(federation, axes, metrics, mechanisms)) if checkpoint else None
    report = progress or (lambda done, total: None)
    done: dict[str, Arrays] = {}
    finished, total = 0, sum(piece.size for piece in pieces)
    report(finished, total)
    with closing(_solved(pieces, kept)) as solved:
        for piece, found in solved:
            done[piece.name] = found
            finished += piece.size
            report(finished, total)
    return _assembled(federation, axes, metrics, mechanisms, [(piece, done[piece.name]) for piece in pieces])


def _check(
    federation: Federation, written: Sequence[str | Axis], metrics: Sequence[str], mechanisms: Sequence[str]
) -> None:
    if not 1 <= len(written) <= MOST_AXES:
        raise InvalidInput(f"a sweep varies one or two parameters, got {len(written)}")
    if federation.n_agents > MOST_AGENTS:
        raise InvalidInput(
            f"sweeps take up to {MOST_AGENTS} agents, got {federation.n_agents}; take some of them with take()"
        )
    for what, given, known in (("metric", metrics, METRICS), ("mechanism", mechanisms, tuple(MECHANISMS))):
        for name in given:
            if name not in known:
                raise InvalidInput(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if not given or len(set(given)) < len(given):
            raise InvalidInput(f"name at least one {what}, each once, got {', '.join(given) or 'none'}")


def _check_grid(
    federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], mechanisms: Sequence[str]
) -> None:
    check_axes(federation, axes)
    points = int(np.prod([axis.points.size for axis in axes], dtype=object))
    if points > MOST_POINTS:
        raise InvalidInput(f"a sweep has up to {MOST_POINTS:,} points, got {points:,}; take fewer values")
    each = sum(federation.n_agents if metric in PER_AGENT else 1 for metric in metrics)
    numbers = points * each * len(mechanisms)
    if numbers > MOST_NUMBERS:
        raise InvalidInput(
            f"a sweep has up to {MOST_NUMBERS:,} numbers, got {numbers:,}: {points:,} points, {len(mechanisms)} "
            f"mechanisms, {each} numbers each; take fewer values or metrics"
        )


def _solved(pieces: Sequence[Piece], kept: Checkpoint | None) -> Generator[tuple[Piece, Arrays], None, None]:
    """Every piece with what was found, those on disk first, in no order otherwise; closing it ends the workers."""
    open_pieces = []
    for piece in pieces:
        found = kept.load(piece.name, piece.shapes) if kept else None
        if found is None:
            open_pieces.append(piece)
        else:
            yield piece, found
    with closing(_worked_out(open_pieces)) as solved:
        for piece, found in solved:
            if kept:
                kept.save(piece.name, found)
            yield piece, found


def _worked_out(pieces: Sequence[Piece]) -> Generator[tuple[Piece, Arrays], None, None]:
    single = [piece for piece in pieces if not piece.batched]
    shared = worth_sharing(single)
    for piece in pieces:
        if piece.batched or not shared:
            yield piece, piece.solve()
    if shared:
        yield from share_out(single)


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
        whole = parts.reshape(shape + parts.shape[1:])
        whole.setflags(write=False)
        return whole

    return Sweep(
        axes=tuple(axes),
        agents=federation.names,
        metrics={name: {metric: joined(name, metric) for metric in metrics} for name in mechanisms},
        solved={name: joined(name, "solved") for name in mechanisms},
        on_boundary={name: joined(name, "on_boundary") for name in mechanisms},
        in_domain={name: joined(name, "in_domain") for name in mechanisms},
    )


def _identity(federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], mechanisms: Sequence[str]) -> str:
    from importlib.metadata import version  # noqa: PLC0415 - for long sweeps only

    varied = [
        (axis.label, axis.field, [place.tolist() for place in axis.places], axis.points.tobytes()) for axis in axes
    ]
    return repr((version("fedpact"), federation.signature(), varied, metrics, mechanisms))

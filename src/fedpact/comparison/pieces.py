"""Sweeps and studies in pieces, each a batch of federations: on all cores, and finished ones are kept.

Where a mechanism solves few members of many federations at once, that is fast in one process. Other pieces are shared
out to worker processes, where there is enough to do for them to pay.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from fedpact.mechanisms import Mechanism
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.parallel import map_parallel
from fedpact.utils.threads import thread_count

MIN_SHARED_FEDERATIONS = 200  # for which starting worker processes pays

Arrays = dict[str, np.ndarray]


class Piece(NamedTuple):
    """Federations that are solved by themselves, perhaps in another process: its name, their number, and how.

    `solve` finds what is asked of them, by name; it is a `functools.partial`, which worker processes can be sent. A
    `vectorised` piece is so fast that other processes would not help.
    """

    name: str
    size: int
    solve: Callable[[], Arrays]
    vectorised: bool


def cut(label: str, total: int, size: int, solve: Callable[..., Arrays], *, vectorised: bool = False) -> list[Piece]:
    """Pieces of up to `size` federations, in order; `solve` takes the numbers `start` and `stop` of those it solves."""
    spans = [(start, min(start + size, total)) for start in range(0, total, size)]
    return [
        Piece(f"{label}-{start}-{stop}", stop - start, partial(solve, start=start, stop=stop), vectorised)
        for start, stop in spans
    ]


def solve_pieces(
    parts: Mapping[str, Sequence[Piece]],
    *,
    checkpoint: str | os.PathLike[str] | None,
    mechanisms: Sequence[Mechanism],
    identity: tuple[Any, ...],
    progress: Callable[[int, int], None] | None,
) -> dict[str, Arrays]:
    """What was found in the pieces of every part, joined; those in the folder `checkpoint` are loaded or kept there.

    The `identity` is, beside the mechanisms, everything that makes the pieces what they are.
    """
    pieces = [piece for part in parts.values() for piece in part]
    report = progress or (lambda done, total: None)
    kept = None
    done: dict[str, Arrays] = {}
    if checkpoint:
        from importlib.metadata import version  # noqa: PLC0415 - for checkpoints only

        rules = [(each.name, repr(each), _source(each)) for each in mechanisms]
        kept = Checkpoint(Path(checkpoint), repr((version("fedpact"), rules, *identity)))
        loaded = {piece.name: kept.load(piece.name) for piece in pieces}
        done = {name: found for name, found in loaded.items() if found is not None}
    left = [piece for piece in pieces if piece.name not in done]
    total = sum(piece.size for piece in pieces)
    finished = total - sum(piece.size for piece in left)
    report(finished, total)
    with closing(_solve(left)) as solved:  # closing it ends the workers
        for piece, found in solved:
            if kept:
                kept.save(piece.name, found)
            done[piece.name] = found
            finished += piece.size
            report(finished, total)
    found_in = {label: [done[piece.name] for piece in part] for label, part in parts.items()}
    return {
        label: {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        for label, found in found_in.items()
    }


def pays_to_share(n_federations: int) -> bool:
    """Whether so many federations, solved one by one, are shared out to worker processes."""
    return n_federations >= MIN_SHARED_FEDERATIONS and thread_count() > 1


def _solve(pieces: Sequence[Piece]) -> Generator[tuple[Piece, Arrays], None, None]:
    single = [piece for piece in pieces if not piece.vectorised]
    shared = pays_to_share(sum(piece.size for piece in single))
    for piece in pieces:
        if piece.vectorised or not shared:
            yield piece, solve_piece(piece)
    if shared:
        yield from map_parallel(solve_piece, single)


def solve_piece(piece: Piece) -> Arrays:
    """What is asked of a piece's federations, here or in a worker process."""
    return piece.solve()


def _source(mechanism: Mechanism) -> str:
    """The code of a mechanism, which may change between runs; a text that is never the same where it cannot be read."""
    try:
        return inspect.getsource(sys.modules[type(mechanism).__module__])
    except (KeyError, OSError, TypeError):
        return uuid4().hex

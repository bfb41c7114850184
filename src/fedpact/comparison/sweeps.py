"""Running a sweep: the grid in pieces, each a batch; on all cores; finished pieces are kept.

Where a mechanism solves few members of many federations at once, that is fast in one process. Otherwise, and where
certificates are asked for, pieces are shared out to worker processes, where there is enough to do for them to pay.
"""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.certificates.claims import Claim
from fedpact.comparison.axes import Axis, arrays_at, check_axes, parse_axis
from fedpact.comparison.batches import solve_arrays
from fedpact.comparison.sweep_result import FIELDS, MARGINS, METRICS, Sweep, claims_among
from fedpact.deals.outcome import PER_AGENT, PER_LOT, Outcomes
from fedpact.federation import Federation, require_federation
from fedpact.mechanisms import Mechanism, resolve_mechanisms
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import Checkpoint
from fedpact.utils.errors import InvalidInput, NoFairDeal
from fedpact.utils.parallel import map_parallel, worker_count

MAX_SWEPT_AGENTS = 500
MAX_AXES = 2
MAX_POINTS = 1_000_000
MAX_NUMBERS = 20_000_000  # in the table, which is held in memory
BATCHED_POINTS, BATCHED_COALITIONS = 500, 1 << 15  # at most, in a piece whose points are solved together
SINGLE_POINTS = 10  # in other pieces
MIN_SHARED_POINTS = 200  # for which starting worker processes pays
MAX_STACKED_AGENTS = 12  # whose federations are solved at once

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece(ABC):
    """Federations `start` to `stop` of a sweep or a study, solved by themselves, perhaps in another process.

    Attributes
    ----------
    vectorised
        Whether it is so fast that other processes would not help.
    """

    start: int
    stop: int
    vectorised: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What tells it from the others."""

    @property
    def size(self) -> int:
        """How many federations there are in it."""
        return self.stop - self.start

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what `solve` finds, by name."""

    @abstractmethod
    def solve(self) -> Arrays:
        """What is asked of its federations, by name."""


def sweep(
    federation: Federation | Scenario,
    vary: str | Axis | Sequence[str | Axis] | Mapping[str, ArrayLike],
    *,
    metrics: Sequence[str] = ("ir_gaps",),
    mechanisms: Mechanism | str | Sequence[Mechanism | str] = ("externality", "shapley"),
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Metrics of the mechanisms' outcomes over one or two parameters.

    Parameters
    ----------
    vary
        What to vary, such as `["weights[0,1]=-3:3:121", "weights[1,0]=-3:3:121"]`, or `{"costs[City]": array}`.
    metrics
        Fields of an outcome, such as "ir_gaps" or "welfare", or claims, such as "nash", whose margin is meant.
    mechanisms
        Objects or names.
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
    federation = federation.federation if isinstance(federation, Scenario) else federation
    require_federation(federation)
    written: list[Any] = [vary] if isinstance(vary, str | Axis) else list(getattr(vary, "items", lambda: vary)())
    metrics = [metrics] if isinstance(metrics, str) else [str(name) for name in metrics]
    rules = resolve_mechanisms(mechanisms)
    _check(federation, written, metrics)
    axes = [each if isinstance(each, Axis) else parse_axis(each, federation) for each in written]
    _check_grid(federation, axes, metrics, len(rules))
    pieces = [piece for each in rules for piece in _cut(federation, axes, each, metrics)]
    kept = Checkpoint(Path(checkpoint), _identity(federation, axes, metrics, rules)) if checkpoint else None
    done = solve_pieces(pieces, kept, progress)
    return _assemble(federation, axes, metrics, rules, [(piece, done[piece.name]) for piece in pieces])


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepPiece(Piece):
    """Some points of the grid under one mechanism, counted with the last axis fastest, solved as one batch."""

    federation: Federation
    axes: Sequence[Axis]
    mechanism: Mechanism
    metrics: Sequence[str]

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"{self.mechanism.name}-{self.start}-{self.stop}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what `solve` finds, by name."""
        names = [*self.metrics, *claims_among(self.metrics), "solved", "on_boundary", "in_domain", "no_deal"]
        widths = dict.fromkeys(PER_AGENT, self.federation.n_agents) | dict.fromkeys(
            (*PER_LOT, "on_boundary"), self.federation.n_lots
        )
        return {name: (self.size, widths[name]) if name in widths else (self.size,) for name in names}

    def solve(self) -> Arrays:
        """The metrics and flags of its points, by name."""
        shape = tuple(axis.points.size for axis in self.axes)
        places = np.unravel_index(np.arange(self.start, self.stop), shape)
        points = [axis.points[place] for axis, place in zip(self.axes, places, strict=True)]
        outcomes = solve_arrays(self.federation, arrays_at(self.federation, self.axes, points), self.mechanism)
        found: Arrays = {metric: np.asarray(getattr(outcomes, metric)) for metric in self.metrics if metric in FIELDS}
        for metric, claim in ((metric, MARGINS[metric]) for metric in self.metrics if metric in MARGINS):
            found[metric], found[f"{claim}-holds"] = _judge(outcomes, claim)
        no_deal = [isinstance(outcomes.errors.get(index), NoFairDeal) for index in range(self.size)]
        flags = {"on_boundary": outcomes.on_boundary, "in_domain": outcomes.in_domain & outcomes.solved}
        return found | flags | {"solved": outcomes.solved, "no_deal": np.array(no_deal)}


def _judge(outcomes: Outcomes, claim: Claim) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The margins of a claim, NaN where it could not be worked out, and whether it holds."""
    margins, holds = np.full(len(outcomes), np.nan), np.zeros(len(outcomes), dtype=bool)
    for index in np.flatnonzero(outcomes.solved).tolist():
        with suppress(*SOLVER_ERRORS):
            certificate = outcomes[index].certificates[claim]
            margins[index], holds[index] = certificate.margin, certificate.holds
    return margins, holds


def _cut(
    federation: Federation, axes: Sequence[Axis], mechanism: Mechanism, metrics: Sequence[str]
) -> Iterator[SweepPiece]:
    """The pieces of the grid under one mechanism, in order."""
    total = int(np.prod([axis.points.size for axis in axes]))
    vectorised = is_vectorised(federation, mechanism) and not any(metric in MARGINS for metric in metrics)
    batched = min(BATCHED_POINTS, max(SINGLE_POINTS, BATCHED_COALITIONS >> federation.n_agents))
    size = batched if vectorised else SINGLE_POINTS
    for start in range(0, total, size):
        yield SweepPiece(
            federation=federation,
            axes=axes,
            mechanism=mechanism,
            metrics=metrics,
            start=start,
            stop=min(start + size, total),
            vectorised=vectorised,
        )


def _pays_to_share(n_points: int) -> bool:
    return n_points >= MIN_SHARED_POINTS and worker_count() > 1


def uses_workers(federation: Federation, axes: Sequence[Axis], mechanism: Mechanism) -> bool:
    """Whether a sweep is shared out to worker processes."""
    total = int(np.prod([axis.points.size for axis in axes]))
    return not is_vectorised(federation, mechanism) and _pays_to_share(total)


def is_vectorised(federation: Federation, mechanism: Mechanism) -> bool:
    """Whether a mechanism solves many federations like this one at once."""
    stacks = type(mechanism).solve_stack is not Mechanism.solve_stack and not mechanism.has_side_payments
    return stacks and federation.n_agents <= MAX_STACKED_AGENTS


def _check(federation: Federation, written: Sequence[Any], metrics: Sequence[str]) -> None:
    if not 1 <= len(written) <= MAX_AXES:
        why = f"a sweep varies one or two parameters, got {len(written)}"
        raise InvalidInput(why, field="vary", rule="must be one or two parameters", value=list(written))
    if federation.n_agents > MAX_SWEPT_AGENTS:
        why = f"sweeps take up to {MAX_SWEPT_AGENTS} members, got {federation.n_agents}; take some of them with take()"
        rule = f"must have up to {MAX_SWEPT_AGENTS} members"
        raise InvalidInput(why, field="federation", rule=rule, value=federation.n_agents)
    for name in metrics:
        if name not in METRICS:
            known = ", ".join(METRICS)
            why = f"there is no metric {name!r}; there are {known}"
            raise InvalidInput(why, field="metrics", rule=f"must be among {known}", value=name)
    if not metrics or len(set(metrics)) < len(metrics):
        why = f"name at least one metric, each once, got {', '.join(metrics) or 'none'}"
        raise InvalidInput(why, field="metrics", rule="must be one or more, each once", value=list(metrics))


def _check_grid(federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], n_mechanisms: int) -> None:
    check_axes(federation, axes)
    points = int(np.prod([axis.points.size for axis in axes], dtype=object))
    if points > MAX_POINTS:
        why = f"a sweep has up to {MAX_POINTS:,} points, got {points:,}; take fewer values"
        raise InvalidInput(why, field="vary", rule=f"must make up to {MAX_POINTS:,} points", value=points)
    each = sum(federation.n_agents if metric in PER_AGENT else 1 for metric in metrics)
    numbers = points * each * n_mechanisms
    if numbers > MAX_NUMBERS:
        raise InvalidInput(
            f"a sweep has up to {MAX_NUMBERS:,} numbers, got {numbers:,}: {points:,} points, {n_mechanisms} "
            f"mechanisms, {each} numbers each; take fewer values or metrics"
        )


def solve_pieces(
    pieces: Sequence[Piece], kept: Checkpoint | None, progress: Callable[[int, int], None] | None
) -> dict[str, Arrays]:
    """What was found in every piece, by its name; those on disk are loaded, the others solved and kept there."""
    report = progress or (lambda done, total: None)
    done: dict[str, Arrays] = {}
    finished, total = 0, sum(piece.size for piece in pieces)
    report(finished, total)
    with closing(_solve_or_load(pieces, kept)) as solved:  # closing it ends the workers
        for piece, found in solved:
            done[piece.name] = found
            finished += piece.size
            report(finished, total)
    return done


def _solve_or_load(pieces: Sequence[Piece], kept: Checkpoint | None) -> Generator[tuple[Piece, Arrays], None, None]:
    """Every piece with what was found, those on disk first, in no order otherwise."""
    open_pieces = []
    for piece in pieces:
        found = kept.load(piece.name, piece.shapes) if kept else None
        if found is None:
            open_pieces.append(piece)
        else:
            yield piece, found
    with closing(_solve(open_pieces)) as solved:
        for piece, found in solved:
            if kept:
                kept.save(piece.name, found)
            yield piece, found


def _solve(pieces: Sequence[Piece]) -> Generator[tuple[Piece, Arrays], None, None]:
    single = [piece for piece in pieces if not piece.vectorised]
    shared = _pays_to_share(sum(piece.size for piece in single))
    for piece in pieces:
        if piece.vectorised or not shared:
            yield piece, piece.solve()
    if shared:
        yield from map_parallel(_solve_piece, single)


def _solve_piece(piece: Piece) -> Arrays:
    return piece.solve()


def _assemble(
    federation: Federation,
    axes: Sequence[Axis],
    metrics: Sequence[str],
    mechanisms: Sequence[Mechanism],
    solved: Sequence[tuple[SweepPiece, Arrays]],
) -> Sweep:
    shape = tuple(axis.points.size for axis in axes)

    def join(mechanism: Mechanism, name: str) -> np.ndarray:
        parts = np.concatenate([found[name] for piece, found in solved if piece.mechanism is mechanism])
        whole = parts.reshape(shape + parts.shape[1:])
        whole.setflags(write=False)
        return whole

    return Sweep(
        axes=tuple(axes),
        agents=federation.names,
        lots=federation.lot_labels,
        mechanisms={each.name: each for each in mechanisms},
        metrics={each.name: {metric: join(each, metric) for metric in metrics} for each in mechanisms},
        solved={each.name: join(each, "solved") for each in mechanisms},
        on_boundary={each.name: join(each, "on_boundary") for each in mechanisms},
        in_domain={each.name: join(each, "in_domain") for each in mechanisms},
        no_deal={each.name: join(each, "no_deal") for each in mechanisms},
        holds={
            each.name: {str(claim): join(each, name) for name, claim in claims_among(metrics).items()}
            for each in mechanisms
        },
    )


def _identity(
    federation: Federation, axes: Sequence[Axis], metrics: Sequence[str], mechanisms: Sequence[Mechanism]
) -> str:
    """Everything that makes a sweep what it is, for its checkpoint; the code of a mechanism may change between runs."""
    from importlib.metadata import version  # noqa: PLC0415 - for long sweeps only

    varied = [
        (axis.label, axis.field, [place.tolist() for place in axis.places], axis.points.tobytes()) for axis in axes
    ]
    rules = [(each.name, repr(each), mechanism_source(each)) for each in mechanisms]
    return repr((version("fedpact"), federation.fingerprint, varied, metrics, rules))


def mechanism_source(mechanism: Mechanism) -> str:
    """The code of a mechanism; where it cannot be read, something that is never the same again."""
    try:
        return inspect.getsource(sys.modules[type(mechanism).__module__])
    except (KeyError, OSError, TypeError):
        return uuid4().hex

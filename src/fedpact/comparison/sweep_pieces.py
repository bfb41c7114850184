"""Pieces of a grid: some of its points under one mechanism, solved as one batch. They travel to other processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.comparison.batch_outcome import BatchOutcome
from fedpact.comparison.batch_profiles import is_compiled
from fedpact.comparison.batches import solve_batch
from fedpact.comparison.sweep_axes import Axis, batch_at
from fedpact.comparison.sweep_metrics import metric_of
from fedpact.deals.outcome import PER_AGENT
from fedpact.federation import Federation
from fedpact.mechanisms import Standalone, mechanism_named
from fedpact.utils.errors import NotConverged

__all__ = ["Arrays", "Piece", "cut"]

BATCHED = 500  # points
SINGLE = 10

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Some points of the grid under one mechanism.

    Attributes
    ----------
    start, stop
        The points, counted with the last axis fastest.
    batched
        Whether its points are solved together rather than one after the other.
    """

    federation: Federation
    axes: Sequence[Axis]
    mechanism: str
    metrics: Sequence[str]
    start: int
    stop: int
    batched: bool

    @property
    def name(self) -> str:
        """What tells it from the other pieces of a sweep."""
        return f"{self.mechanism}-{self.start}-{self.stop}"

    @property
    def size(self) -> int:
        """How many points there are in it."""
        return self.stop - self.start

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what `solve` finds, by name."""
        each = {"on_boundary", *PER_AGENT}
        names = [*self.metrics, "solved", "on_boundary", "in_domain"]
        return {name: (self.size, self.federation.n_agents) if name in each else (self.size,) for name in names}

    def solve(self) -> Arrays:
        """The metrics and flags of its points, by name."""
        shape = tuple(axis.points.size for axis in self.axes)
        places = np.unravel_index(np.arange(self.start, self.stop), shape)
        points = [axis.points[place] for axis, place in zip(self.axes, places, strict=True)]
        batch = batch_at(self.federation, self.axes, points)
        try:
            outcome = solve_batch(batch, mechanism_named(self.mechanism))
        except NotConverged as error:  # the points that have no equilibrium are marked in `solved`
            if not isinstance(error.result, BatchOutcome):
                raise
            outcome = error.result
        found = {metric: metric_of(outcome, metric) for metric in self.metrics}
        return found | {"solved": outcome.solved, "on_boundary": outcome.on_boundary, "in_domain": outcome.in_domain}


def cut(federation: Federation, axes: Sequence[Axis], mechanism: str, metrics: Sequence[str]) -> Iterator[Piece]:
    """The pieces of the grid under one mechanism, in order."""
    total = int(np.prod([axis.points.size for axis in axes]))
    sample = batch_at(federation, axes, [axis.points[:1] for axis in axes])
    rules = mechanism_named(mechanism)
    batched = is_compiled(sample, rules) or isinstance(rules, Standalone)
    size = BATCHED if batched else SINGLE
    for start in range(0, total, size):
        yield Piece(
            federation=federation,
            axes=axes,
            mechanism=mechanism,
            metrics=metrics,
            start=start,
            stop=min(start + size, total),
            batched=batched,
        )

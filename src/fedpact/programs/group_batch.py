"""What the groups of many federations of one size could reach by themselves, all groups of a size together.

As `fedpact.programs.groups`, for a batch: studies ask for the groups of thousands of small federations, and one
federation's are too few to fill compiled code. A group begins where a group with one member more ended. A group that
is not solved has no number (NaN), and does not touch the others.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Batch
from fedpact.programs.groups import MAX_LISTED_AGENTS, BoolArray, GroupOptima, GroupSolver, all_groups
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, NotConverged

MAX_GROUPS_TOGETHER = 1 << 18  # of all federations

_recent: WeakKeyDictionary[Batch, list[GroupOptima]] = WeakKeyDictionary()  # several mechanisms ask for the same


def lists_together(batch: Batch) -> bool:
    """Whether all groups of all these federations are few enough to be worked out at once."""
    return not batch.has_lots and len(batch) <= most_together(batch.n_agents)


def most_together(n_agents: int) -> int:
    """How many federations' groups may be worked out at once."""
    return MAX_GROUPS_TOGETHER >> n_agents if n_agents <= MAX_LISTED_AGENTS else 0


def groups_together(batch: Batch) -> list[GroupOptima]:
    """Every group of every federation, as `group_optima` of each; the batch must satisfy `lists_together`."""
    if batch not in _recent:
        members = all_groups(batch.n_agents)
        contributions, values = np.zeros((len(batch), *members.shape)), np.zeros((len(batch), len(members)))
        solver, sizes, rows = _BatchSolver(batch), members.sum(axis=1), np.arange(len(members))
        one_more = np.minimum(rows | (rows + 1), len(members) - 1)  # with the first who is not in it
        for size in range(batch.n_agents, 0, -1):
            places = np.flatnonzero(sizes == size)
            begin = contributions[:, one_more[places]] if size < batch.n_agents else None
            contributions[:, places], values[:, places] = solver.solve_groups(members[places], begin)
        for numbers in (members, contributions, values):
            numbers.setflags(write=False)
        _recent[batch] = [
            GroupOptima(members=members, values=values[place], contributions=contributions[place])
            for place in range(len(batch))
        ]
    return _recent[batch]


def some_groups_together(batch: Batch, members: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Contributions (federations, groups, n) and values (federations, groups) of groups of one size."""
    return _BatchSolver(batch).solve_groups(members, None)


class _BatchSolver(GroupSolver):
    """Groups of the federations of a batch, which are blocks of one."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch.joined)
        self._batch = batch

    def weights(self, agents: NDArray[np.intp]) -> FloatArray:
        """Of the groups' members for each other: all are of one block."""
        inside = agents % self._batch.n_agents
        return self._batch.weights[agents[:, :1, None] // self._batch.n_agents, inside[:, :, None], inside[:, None, :]]

    def solve_alone(self, agents: NDArray[np.intp]) -> FloatArray:
        try:
            return super().solve_alone(agents)
        except (InvalidInput, NotConverged, ArithmeticError, np.linalg.LinAlgError):
            return np.full(agents.size, np.nan)

    def solve_groups(self, members: BoolArray, start: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Of groups (groups, n) of one size in every federation; `start` (federations, groups, n) if known."""
        count, size = len(self._batch), self._batch.n_agents
        chosen = np.nonzero(members)[1].reshape(len(members), -1)
        agents = (np.arange(count)[:, None, None] * size + chosen).reshape(count * len(members), -1)
        places = np.broadcast_to(chosen, (count, *chosen.shape))
        begin = None
        if start is not None:
            begin = np.take_along_axis(start, places, axis=2).reshape(agents.shape)
            begin = np.where(np.isnan(begin), self._alone[agents], begin)
        profiles, values = self.solve_listed(agents, begin)
        contributions = np.zeros((count, *members.shape))
        np.put_along_axis(contributions, places, profiles.reshape(places.shape), axis=2)
        return contributions, values.reshape(count, len(members))

"""The nucleolus: the division under which the group least content with it is as content as can be, and so on down.

With v(X) the most a group reaches by itself, e(X) = x(X) - v(X) is what it has beyond that under a division x of v(N).
The least core makes the smallest e as large as can be; of these divisions the nucleolus makes the next smallest as
large as can be, until one is left (Schmeidler 1969). All divisions are admitted, also those that give a member less
than it has alone: the prenucleolus, which is the nucleolus wherever the core is not empty.

One linear program per level (Kopelowitz 1967): maximise t with e(X) >= t for all groups that are not settled. Groups
whose multiplier is positive have e(X) = t in every solution and are settled there; so is every group whose members
follow from settled ones. Few groups bind: the program begins with members alone and all but one, and takes in groups as
they are found to have less than t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.solvers.fair_division import linear_program
from fedpact.solvers.groups import BoolArray, KnownGroups
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged

EXCESS_TOLERANCE = 1e-9  # of the welfare: a group that has less than t by no more is not taken in
MULTIPLIER_TOLERANCE = 1e-7  # multipliers of one level sum to one
RANK_TOLERANCE = 1e-9
MAX_ROUNDS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class LeastCore:
    """The level of the least core, and the division in it that is the nucleolus.

    Attributes
    ----------
    utilities
        What each member has; they add up to the welfare.
    level
        The most that every proper group can have beyond what it reaches by itself, in units of payoff, of the groups
        that are known; infinite where there is no proper group.
    """

    utilities: FloatArray
    level: float


def nucleolus(known: KnownGroups) -> LeastCore:
    """The nucleolus of all groups, or of those that a search finds."""
    n, scale = known.found.members.shape[1], known.scale
    levels = _Levels(known)
    first = np.inf
    while len(levels.settled) < n:
        first = min(first, levels.settle())
    utilities = np.linalg.lstsq(levels.settled, scale * levels.totals, rcond=None)[0]
    return LeastCore(utilities=read_only_copy(utilities), level=scale * first)


class _Levels:
    """Settled groups and what they have, and the open groups taken in so far; values in units of the welfare."""

    def __init__(self, known: KnownGroups) -> None:
        self._known, n = known, known.found.members.shape[1]
        self.settled, self.totals = np.ones((1, n)), known.found.values[:1] / known.scale
        self._rows, self._values = np.zeros((0, n), dtype=np.bool_), np.zeros(0)
        self._take_in(np.full(n, known.found.values[0] / n), np.inf)

    def settle(self) -> float:
        """Settle the groups that have least of those still open, and say how much that is."""
        open_ones = _is_independent(self.settled, self._rows)
        self._rows, self._values = self._rows[open_ones], self._values[open_ones]
        n = self.settled.shape[1]
        for _ in range(MAX_ROUNDS):
            answer = linear_program(
                np.append(np.zeros(n), -1.0),
                np.column_stack([-1.0 * self._rows, np.ones(len(self._rows))]),
                -self._values,
                equal=(np.column_stack([self.settled, np.zeros(len(self.settled))]), self.totals),
            )
            if answer is None:
                raise NotConverged("rounding leaves the linear program of the nucleolus without a solution")
            level = float(answer.x[-1])
            if not self._take_in(self._known.scale * answer.x[:-1], level):
                break
        for row in np.flatnonzero(-answer.ineqlin.marginals > MULTIPLIER_TOLERANCE):
            if _is_independent(self.settled, self._rows[[row]])[0]:
                self.settled = np.concatenate([self.settled, 1.0 * self._rows[[row]]])
                self.totals = np.append(self.totals, self._values[row] + level)
        return level

    def _take_in(self, utilities: FloatArray, level: float) -> bool:
        """Whether groups were found that are open and have less than the level under a division; adds them.

        At an infinite level these are members alone and all but one.
        """
        if level == np.inf:
            one = np.eye(utilities.size, dtype=np.bool_)
            found = self._known.look_at(np.concatenate([one, ~one]) if utilities.size > 1 else one[:0])
        else:
            below = self._known.scale * (EXCESS_TOLERANCE - level)
            found = self._known.gaining(utilities, below, lambda rows: _is_independent(self.settled, rows))
        self._rows = np.concatenate([self._rows, found.members])
        self._values = np.concatenate([self._values, found.values / self._known.scale])
        return bool(found.values.size)


def _is_independent(settled: FloatArray, rows: BoolArray) -> BoolArray:
    """Which rows are no combination of the settled ones."""
    basis = np.linalg.qr(settled.T)[0]
    return np.asarray(np.linalg.norm(rows - (rows @ basis) @ basis.T, axis=1) > RANK_TOLERANCE)

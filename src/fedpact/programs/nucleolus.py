"""The nucleolus: the division under which the group least content with it is as content as can be, and so on down.

With v(X) the most a group reaches by itself, e(X) = x(X) - v(X) is what it has beyond that under a division x of v(N).
The least core makes the smallest e as large as can be; of these divisions the nucleolus makes the next smallest as
large as can be, until one is left (Schmeidler 1969). All divisions are admitted, also those that give a member less
than it has alone: the prenucleolus, which is the nucleolus wherever the core is not empty.

One linear program per level (Kopelowitz 1967): maximise t with e(X) >= t for all groups that are not settled. Groups
whose multiplier is positive have e(X) = t in every solution and are settled there; so is every group whose members
follow from settled ones. Few of the 2^n groups bind: the program begins with members alone and all but one, and takes
in groups as they are found to have less than t (constraint generation).

Members who could change places have the same in the nucleolus: the program has one unknown for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.identities import interchangeable_agents
from fedpact.programs.groups import BoolArray, GroupOptima, group_optima
from fedpact.programs.known_groups import MAX_GROUPS_TAKEN_IN, KnownGroups
from fedpact.programs.linear_program import minimise_linear
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged
from fedpact.utils.progress import report_progress

MULTIPLIER_TOLERANCE = 1e-7  # multipliers of one level sum to one
GROUP_RANK_TOLERANCE = 1e-9
EXCESS_TOLERANCE = 1e-9  # of the largest value: a group that has less than t by no more is not taken in
MAX_NUCLEOLUS_ROUNDS = 5_000

Counts = Callable[[BoolArray], BoolArray]
"""Which groups do not follow from those that are settled."""
Excesses = Callable[[FloatArray, Counts, float], GroupOptima]
"""Groups that count and have less than a level under a division, the worst first; none if no group is found."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """A division of v(N).

    Attributes
    ----------
    utilities
        What each member has.
    level
        t of the least core: the most that every proper group can have beyond what it reaches by itself, of the groups
        that were taken in; if these are not all, t itself may be lower. Infinite where there is no proper group.
    """

    utilities: FloatArray
    level: float


def nucleolus(groups: GroupOptima, alike: NDArray[np.intp] | None = None) -> Division:
    """The nucleolus for the values of all groups, the empty one first and everybody last.

    `alike` (n,) has the same number for members who could change places; all differ if not given.
    """

    def listed(utilities: FloatArray, counts: Counts, level: float) -> GroupOptima:
        excesses = -groups.gains(utilities)
        short = np.flatnonzero(excesses[1:-1] < level) + 1
        return _worst(groups, short[counts(groups.members[short])], excesses)

    few = groups.members.sum(axis=1)
    chosen = np.flatnonzero((few == 1) | (few == groups.members.shape[1] - 1))
    return _Levels(_some(groups, chosen), float(groups.values[-1]), listed, alike).run()


def nucleolus_among_many(federation: Federation, *, time_limit: float = np.inf) -> Division:
    """The nucleolus of the groups that a search finds, for more members than all groups can be listed for.

    Members alone, pairs, all but one or two, and from there neighbours of the groups least content, as for fair side
    payments (`fedpact.programs.known_groups`). Nothing is looked for after `time_limit` seconds.
    """
    known = KnownGroups(federation, deadline=time.monotonic() + time_limit)
    known.look_at_likely()
    total = float(known.values[0])  # everybody was looked at first

    def found_among(utilities: FloatArray, counts: Counts, level: float) -> GroupOptima:
        groups = GroupOptima(members=known.members, values=known.values, contributions=known.contributions)
        excesses = -known.gains(utilities)
        short = np.flatnonzero(excesses < level)
        return _worst(groups, short[counts(groups.members[short])], excesses)

    def search(utilities: FloatArray, counts: Counts, level: float) -> GroupOptima:
        found = found_among(utilities, counts, level)
        for look in (known.walk, known.grow_and_shrink, known.climb_from_best):
            if found.values.size or known.is_late:
                break
            look(utilities)
            found = found_among(utilities, counts, level)
        return found

    one = np.eye(federation.n_agents, dtype=np.bool_)
    start = group_optima(federation, np.concatenate([one, ~one]))
    return _Levels(start, total, search, interchangeable_agents(federation)).run()


def _some(groups: GroupOptima, places: NDArray[np.intp]) -> GroupOptima:
    return GroupOptima(
        members=groups.members[places], values=groups.values[places], contributions=groups.contributions[places]
    )


def _worst(groups: GroupOptima, places: NDArray[np.intp], excesses: FloatArray) -> GroupOptima:
    """Those of some groups that have least."""
    return _some(groups, places[np.argsort(excesses[places], kind="stable")[:MAX_GROUPS_TAKEN_IN]])


class _Levels:
    """Level after level, each with the groups that are found to matter; values in units of the largest."""

    def __init__(self, start: GroupOptima, total: float, search: Excesses, alike: NDArray[np.intp] | None) -> None:
        size = start.members.shape[1]
        kinds = np.unique(np.arange(size) if alike is None else alike, return_inverse=True)[1]
        self._kinds: FloatArray = np.eye(int(kinds.max()) + 1)[kinds]  # (n, kinds)
        self._scale = max(float(np.abs(start.values).max(initial=0.0)), abs(total), float(np.finfo(float).tiny))
        self._search = search
        self._settled, self._totals = self._rows(np.ones((1, size))), np.array([total / self._scale])
        self._rows_known, self._values = self._rows(start.members), start.values / self._scale

    def run(self) -> Division:
        """The division that is left once as many groups are settled as there are unknowns."""
        level = float(np.inf)
        while len(self._settled) < self._kinds.shape[1]:
            level = min(level, self._next_level())
            report_progress(f"{len(self._settled)} of {self._kinds.shape[1]} levels, {self._values.size:,} groups")
        solved = np.linalg.lstsq(self._settled, self._totals, rcond=None)[0]
        utilities = self._scale * (self._kinds @ solved)
        if level == np.inf and len(self._kinds) > 1:  # all members are alike: nothing was left to settle
            level = self._least_excess(solved, utilities)
        return Division(utilities=utilities, level=self._scale * level)

    def _least_excess(self, solved: FloatArray, utilities: FloatArray) -> float:
        """The smallest e(X) of all proper groups, as far as they are found."""
        least = float((self._rows_known @ solved - self._values).min())
        below = self._search(utilities, lambda members: np.asarray(~members.all(axis=1)), self._scale * least)
        return min([least, *(-below.gains(utilities) / self._scale).tolist()])

    def _rows(self, members: NDArray[np.generic]) -> FloatArray:
        """How many of each kind are in groups."""
        return np.asarray(members.astype(np.float64) @ self._kinds)

    def _counts(self, members: BoolArray) -> BoolArray:
        """Which groups do not follow from settled ones."""
        return _is_independent(self._settled, self._rows(members))

    def _next_level(self) -> float:
        """Settle the groups that have least of those still open, and say how much that is."""
        free = _is_independent(self._settled, self._rows_known)
        self._rows_known, self._values = self._rows_known[free], self._values[free]
        for _ in range(MAX_NUCLEOLUS_ROUNDS):
            answer = self._solve()
            level = float(answer.x[-1])
            utilities = self._scale * (self._kinds @ answer.x[:-1])
            new = self._search(utilities, self._counts, self._scale * (level - EXCESS_TOLERANCE))
            if not new.values.size:
                break
            self._rows_known = np.concatenate([self._rows_known, self._rows(new.members)])
            self._values = np.append(self._values, new.values / self._scale)
        else:
            raise NotConverged(
                f"the nucleolus: groups were still found to have less after {MAX_NUCLEOLUS_ROUNDS} rounds"
            )
        known = len(self._settled)
        for place in np.flatnonzero(-answer.ineqlin.marginals > MULTIPLIER_TOLERANCE):
            if _is_independent(self._settled, self._rows_known[[place]])[0]:
                self._settled = np.vstack([self._settled, self._rows_known[place]])
                self._totals = np.append(self._totals, self._values[place] + level)
        if len(self._settled) == known:
            raise NotConverged("rounding leaves open which groups settle the nucleolus", result=utilities)
        return level

    def _solve(self) -> Any:
        """The linear program with the groups known."""
        unknowns = self._kinds.shape[1]
        answer = minimise_linear(
            np.append(np.zeros(unknowns), -1.0),
            "the nucleolus",
            A_ub=np.hstack([-self._rows_known, np.ones((self._values.size, 1))]),
            b_ub=-self._values,
            A_eq=np.hstack([self._settled, np.zeros((len(self._settled), 1))]),
            b_eq=self._totals,
            bounds=(None, None),
        )
        if answer is None:
            raise NotConverged("rounding leaves the linear program of the nucleolus without a solution")
        return answer


def _is_independent(settled: FloatArray, rows: FloatArray) -> BoolArray:
    """Which rows are no combination of the settled ones."""
    basis = np.linalg.qr(settled.T)[0]
    return np.asarray(np.linalg.norm(rows - (rows @ basis) @ basis.T, axis=1) > GROUP_RANK_TOLERANCE)

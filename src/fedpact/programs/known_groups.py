"""Groups among many members that are worth looking at: what they reach, and their neighbours.

All groups of more than 16 members are too many to list. What a group reaches by itself does not depend on what a deal
gives its members, so every group looked at stays known, and the next deal is first held against all of these. New ones
are looked for near the best of those known: groups with one member more, one less, or another in its place.

Solving a group takes far longer than telling about what it reaches. Let s be the best profile of a group X. With j left
out, its members reach at least what they have at s without j's data; with k taken in, at least what they have at s with
k contributing nothing, or what it contributes where all are together, whichever is more. Only the neighbours for which
these lower bounds are best are solved, beginning at the group's own profile.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.programs.groups import MAX_COMPILED_MEMBERS, BoolArray, group_optima
from fedpact.utils.arrays import FloatArray
from fedpact.utils.progress import report_progress

BEAM, SLOW_BEAM = 8, 1  # groups that are followed at a time; fewer where a group takes long to solve
NEIGHBOURS, SLOW_NEIGHBOURS = 12, 4  # of each that are solved
SWAPPED = 4  # members who leave, and who join, tried in pairs
MAX_WALK_STEPS = 60  # of a walk from neighbour to neighbour
MAX_GROUPS_TAKEN_IN = 32  # at a time, where many groups would leave
MAX_PAIRED_AGENTS = 100  # of more, not all pairs are looked at
MAX_AGENTS_WITHOUT_PAIRS = 32  # all but two members are looked at from the start


class KnownGroups:
    """Groups of a federation that were looked at, with what each reaches by itself.

    Attributes
    ----------
    members, values, contributions
        (groups, n), (groups,) and (groups, lots), in the order in which they were looked at.
    """

    def __init__(self, federation: Federation, *, deadline: float = np.inf) -> None:
        self._federation, self._deadline = federation, deadline
        size = federation.n_agents
        self._places: dict[bytes, int] = {}
        self._rows = np.zeros((1, size))
        self.members: BoolArray = np.zeros((0, size), dtype=np.bool_)
        self.values, self.contributions = np.zeros(0), np.zeros((0, federation.n_lots))
        self.look_at(np.ones((1, size), dtype=np.bool_))
        self._together = self.contributions[0]
        self._is_quick = is_quick = size <= MAX_COMPILED_MEMBERS
        self._beam, self._neighbours = (BEAM, NEIGHBOURS) if is_quick else (SLOW_BEAM, SLOW_NEIGHBOURS)
        self._first_beam = 2 * size if is_quick else SLOW_BEAM

    @property
    def is_late(self) -> bool:
        """Whether the time is over; then no more groups are looked for."""
        return self.time_left <= 0

    @property
    def time_left(self) -> float:
        """In seconds."""
        return self._deadline - time.monotonic()

    def sums(self, numbers: FloatArray) -> FloatArray:
        """(groups,): what the members of each group have together."""
        return np.asarray(self._rows[: self.values.size] @ numbers)

    def look_at(self, groups: BoolArray, near: FloatArray | None = None) -> NDArray[np.intp]:
        """The places of groups, those that are not known solved first, from the profiles `near` if given."""
        keys = [group.tobytes() for group in groups]
        new = {key: row for row, key in reversed(list(enumerate(keys))) if key not in self._places}
        rows = sorted(new.values())
        if rows:
            found = group_optima(self._federation, groups[rows], start=None if near is None else near[rows])
            first = self.values.size
            self._places |= {keys[row]: first + place for place, row in enumerate(rows)}
            self.members = np.concatenate([self.members, found.members])
            self.values = np.append(self.values, found.values)
            self.contributions = np.concatenate([self.contributions, found.contributions])
            while len(self._rows) < self.values.size:
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._rows[first : self.values.size] = found.members
            report_progress(f"{self.values.size:,} groups looked at")
        return np.array([self._places[key] for key in keys], dtype=np.intp)

    def look_at_likely(self) -> None:
        """Members alone, pairs, and all but one or, if these are few, two."""
        one = np.eye(self._federation.n_agents, dtype=np.bool_)
        self.look_at(one)
        if len(one) > 1:
            self.look_at(~one)
        if 2 < len(one) <= MAX_PAIRED_AGENTS:
            first, second = np.triu_indices(len(one), 1)
            pairs = one[first] | one[second]
            self.look_at(pairs)
            if len(one) <= MAX_AGENTS_WITHOUT_PAIRS:
                self.look_at(~pairs)

    def gains(self, utilities: FloatArray) -> FloatArray:
        """What each gains by leaving a deal that gives its members these utilities."""
        return np.asarray(self.values - self.sums(utilities))

    def walk(self, utilities: FloatArray) -> None:
        """From the groups that gain most to their neighbours, until the neighbours of the best have been looked at.

        The first step is wide: under a fair deal about as many groups as there are members are just content.
        """
        followed: set[int] = set()
        width = self._first_beam
        for _ in range(MAX_WALK_STEPS):
            best = np.argsort(-self.gains(utilities), kind="stable")[:width]
            width = self._beam
            fresh = [int(place) for place in best if int(place) not in followed]
            if not fresh or self.is_late:
                return
            followed.update(fresh)
            self._look_near(fresh, utilities)

    def climb(self, groups: BoolArray, utilities: FloatArray) -> None:
        """From each of some groups to its best neighbour by one member, all of them solved, as long as that gains."""
        if not self._is_quick:
            return
        places = np.unique(self.look_at(groups))
        flips = np.eye(groups.shape[1], dtype=np.bool_)
        for _ in range(MAX_WALK_STEPS):
            if not places.size or self.is_late:
                return
            near = (self.members[places][:, None, :] ^ flips).reshape(-1, len(flips))
            start = self._near(np.repeat(places, len(flips)), near)
            some = near.any(axis=1)
            found = np.zeros(len(near), dtype=np.intp)
            found[some] = self.look_at(near[some], start[some])
            gains = self.gains(utilities)
            ahead = np.where(some, gains[found], -np.inf).reshape(places.size, -1)
            best = found.reshape(places.size, -1)[np.arange(places.size), np.argmax(ahead, axis=1)]
            places = np.unique(best[ahead.max(axis=1) > gains[places]])

    def climb_from_best(self, utilities: FloatArray) -> None:
        """The same from the groups that gain most, as many as members twice over, and from the best of every size."""
        gains, sizes = self.gains(utilities), self.members.sum(axis=1)
        order = np.argsort(-gains, kind="stable")
        _, of_each_size = np.unique(sizes[order], return_index=True)
        chosen = np.unique(np.append(order[: self._first_beam], order[of_each_size]))
        self.climb(self.members[chosen], utilities)

    def grow_and_shrink(self, utilities: FloatArray) -> None:
        """From pairs, one member more at a time, and from everybody, one less.

        Of each size the best are followed, and for every member the best with it, or without it where groups shrink.
        """
        size = self._federation.n_agents
        sizes = self.members.sum(axis=1)
        for start, step in ((2, 1), (size, -1)):
            places = np.flatnonzero(sizes == start)
            for _ in range(max(0, size - 3)):
                if not places.size or self.is_late:
                    break
                best = self._best_of_each(places, utilities, outside=step < 0)
                promised = self._estimates(best, utilities)
                promised[self.members[best] == (step > 0)] = -np.inf
                places = self._look_at_flips(best, promised, len(best) * 2)

    def _best_of_each(self, places: NDArray[np.intp], utilities: FloatArray, *, outside: bool) -> NDArray[np.intp]:
        """Of some groups the best, and the best with every member, or without."""
        gains = self.values[places] - self._rows[places] @ utilities
        order = np.argsort(-gains, kind="stable")
        chosen = order[: self._beam]
        if self._is_quick:
            has = self.members[places[order]] ^ outside
            chosen = np.append(chosen, order[np.argmax(has, axis=0)[has.any(axis=0)]])
        return places[np.unique(chosen)]

    def _look_near(self, places: list[int], utilities: FloatArray) -> None:
        """The neighbours that promise most: one member more or less, or one for another."""
        chosen = np.array(places)
        promised = self._estimates(chosen, utilities)
        self._look_at_flips(chosen, promised, len(chosen) * self._neighbours)
        # One leaves and one joins: about what both promise apart.
        gains = self.values[chosen] - self._rows[chosen] @ utilities
        members = self.members[chosen]
        leaving, joining = np.where(members, promised, -np.inf), np.where(members, -np.inf, promised)
        groups, origins = [], []
        for row, place in enumerate(places):
            outs, ins = (np.argsort(-part[row], kind="stable")[:SWAPPED] for part in (leaving, joining))
            pairs = [(out, one) for out in outs for one in ins if members[row, out] and not members[row, one]]
            pairs.sort(key=lambda pair: gains[row] - leaving[row, pair[0]] - joining[row, pair[1]])
            for out, one in pairs[: self._neighbours // 2]:
                group = members[row].copy()
                group[[out, one]] = False, True
                groups.append(group)
                origins.append(place)
        if groups:
            self.look_at(np.array(groups), self._near(np.array(origins), np.array(groups)))

    def _look_at_flips(self, places: NDArray[np.intp], promised: FloatArray, count: int) -> NDArray[np.intp]:
        """Those `count` groups that differ by one member and promise most, of all places together."""
        order = np.argsort(-promised, axis=None, kind="stable")[:count]
        order = order[np.isfinite(promised.ravel()[order])]
        rows, flips = np.unravel_index(order, promised.shape)
        groups = self.members[places[rows]].copy()
        groups[np.arange(len(groups)), flips] ^= True
        some = groups.any(axis=1)
        groups, rows = groups[some], rows[some]
        if not len(groups):
            return np.zeros(0, dtype=np.intp)
        return np.unique(self.look_at(groups, self._near(places[rows], groups)))

    def _estimates(self, places: NDArray[np.intp], utilities: FloatArray) -> FloatArray:
        """(places, n): a lower bound on what each group gains once an agent has joined it or left it."""
        found = np.empty((len(places), utilities.size))
        for agent in range(utilities.size):
            groups = self.members[places].copy()
            groups[:, agent] ^= True
            idle = self._near(places, groups)
            own = self._federation.lot_owners == agent
            active = np.where(own & groups[:, [agent]], np.minimum(self._together, self._federation.caps), idle)
            has = groups @ utilities
            found[:, agent] = np.maximum(self._reached(groups, idle), self._reached(groups, active)) - has
        return found

    def _near(self, places: NDArray[np.intp], groups: BoolArray) -> FloatArray:
        """The profiles of groups at their places, with nothing from those who are not in `groups`."""
        return np.where(groups[:, self._federation.lot_owners], self.contributions[places], 0.0)

    def _reached(self, groups: BoolArray, profiles: FloatArray) -> FloatArray:
        """(groups,): what groups have at profiles; minus infinity where these leave the domain of a payoff."""
        federation = self._federation
        tasks = groups[:, federation.task_owners]
        data = np.asarray((federation.weights @ profiles.T).T)
        admissible = np.asarray(((data > federation.payoff.floor) | ~tasks).all(axis=1))
        data = np.where(tasks & admissible[:, None], data, 0.0)
        payoffs = (federation.values * federation.payoff.value(data) * tasks).sum(axis=1)
        spent = np.asarray(federation.costs.value(profiles)).sum(axis=1)
        return np.where(admissible, payoffs - spent, -np.inf)

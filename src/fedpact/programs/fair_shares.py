"""The fairest way to share what a federation reaches, with nobody better off outside.

Members' utilities x add up to W, the largest welfare. Member i has the benefit x_i + c_i, and its Shapley share of all
benefits is phi_i. The lowest share returned is the largest r with

    x_i + c_i >= r phi_i for every i,      x(X) >= v(X) for every group X to be kept,      x(N) = W,

the members alone being groups of one. Shares and benefits both add up to A = W + sum c, so r is at most 1, where
everybody has exactly its share; and r = 0 costs nobody anything, so it is never below 0. Among the utilities that reach
the best r the one with the least sum of squares of x_i + c_i - phi_i is chosen: it is unique, so equals are treated
alike and renaming members renames the answer.

With members alone both steps have closed forms: r is where the convex sum of max(d_i, r phi_i - c_i) meets W, and the
nearest point lowers everybody by the same amount down to its own bound. With groups the first step is a linear program
and the second a projection (`fedpact.programs.projection`): it begins at the Shapley shares and takes in the constraint
that is violated most, until none is. Groups are few among the 2^n that bind, so both take them in as they are found to
be violated (constraint generation).

Corners of the linear program jump about, and each jump finds other groups. So groups are first taken in along the way
of one projection: of the point (phi - c, K) in the space of x and r, K far beyond 1. For K large enough its nearest
point has the best r, and among those the x that is looked for (Mangasarian, 1979); it moves a little with each group.
The two steps above then begin with the groups that bind there, and have little left to do.

Members with the same numbers, who could change places without a difference, are given the same: every group counts as
the average over all groups that differ by such changes. All of these reach the same.

Members may differ by many orders of magnitude. Rounding is therefore counted in shares of each member's stake, and of a
group's stakes together: the linear program is written in these units, and what a projection leaves a small group short
of, which is rounding to everybody else, is made up to it at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.programs.linear_program import LP_TOLERANCE, minimise_linear
from fedpact.programs.projection import Projection, nearest_point
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

BoolArray = NDArray[np.bool_]

# Shares of the stakes of those whom a constraint is about.
SMALLEST_UNIT = 1e-7  # of all stakes: HiGHS takes smaller coefficients for zeros
SHORTFALL_TOLERANCE = 1e-11  # a group that lacks less has what it must
VALUE_ROUNDING = (0.0, 1e-12, 1e-11, 1e-10, 1e-9)  # by which what groups reach may be overstated, or r be
MAX_LEVELLING_ROUNDS = 10_000
APPROACH_TOLERANCE = 1e-9  # of stakes: what groups may lack along the way
APPROACH_LEVEL = 1e3  # K
MAX_APPROACH_STEPS = 2_000  # at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptGroups:
    """Groups and what each must have at least: rows of true or false per member, and values."""

    members: BoolArray
    values: FloatArray

    def joined(self, other: KeptGroups) -> KeptGroups:
        """These groups and others."""
        return KeptGroups(
            members=np.concatenate([self.members, other.members]), values=np.concatenate([self.values, other.values])
        )

    def shortfalls(self, utilities: FloatArray) -> FloatArray:
        """What each group lacks; below zero it has more than it must."""
        return np.asarray(self.values - self.members @ utilities)


GroupSearch = Callable[[FloatArray], KeptGroups]
"""Groups that have less than they could have by themselves under given utilities, the worst first; none if all hold."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FairShares:
    """The utilities found.

    Attributes
    ----------
    utilities
        x; they add up to the welfare.
    lowest_share
        r, the smallest part of its Shapley share that anybody has.
    groups
        Those that were found to matter, members alone among them.
    """

    utilities: FloatArray
    lowest_share: float
    groups: KeptGroups


@dataclass(kw_only=True, eq=False)  # not frozen: exceptions are given their traceback
class Unkept(Exception):
    """No sharing keeps all groups.

    Attributes
    ----------
    groups
        Groups that ask for more than there is, if each member's time is shared out among them.
    subsidy
        The least that has to come from outside to keep everybody.
    """

    groups: KeptGroups = field(repr=False)
    subsidy: float


def no_more_groups(utilities: FloatArray) -> KeptGroups:
    """The search that finds nothing: only the groups known from the start are kept."""
    return KeptGroups(members=np.zeros((0, utilities.size), dtype=np.bool_), values=np.zeros(0))


def share_among_members(shares: FloatArray, costs: FloatArray, alone: FloatArray, welfare: float) -> FairShares:
    """The fairest utilities that keep every member, in closed form; O(n log n).

    Raises
    ------
    Unkept
        If the members together have more alone.
    """
    singles = KeptGroups(members=np.eye(shares.size, dtype=np.bool_), values=alone)
    missing = float(alone.sum()) - welfare
    scale = abs(welfare) + float(np.abs(alone).sum())
    if missing > LP_TOLERANCE * scale:
        raise Unkept(groups=singles, subsidy=missing)
    rounding = shares.size * np.finfo(float).eps * scale  # of the sums compared: at a tie all have their shares
    lowest = _highest_level(shares, costs, alone, welfare + rounding)
    floors = np.maximum(alone, lowest * shares - costs)
    utilities = _lowered_evenly(shares - costs, floors, welfare)
    return FairShares(utilities=utilities, lowest_share=lowest, groups=singles)


def _highest_level(shares: FloatArray, costs: FloatArray, alone: FloatArray, welfare: float) -> float:
    """The largest r up to 1 at which sum of max(d_i, r phi_i - c_i) is at most W: a convex, piecewise linear sum."""
    counted = shares > 0
    if not counted.any():
        return 1.0
    joins = np.sort(((alone + costs)[counted] / shares[counted]).clip(0.0, 1.0))

    def total(level: float) -> float:
        return float(np.maximum(alone, level * shares - costs).sum())

    if total(1.0) <= welfare:
        return 1.0
    low, high = 0, joins.size  # the sum is at most W at every join before `low`, and above it from `high` on
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if total(float(joins[middle])) <= welfare else (low, middle)
    start = float(joins[low - 1]) if low else 0.0
    middle_level = (start + (float(joins[low]) if low < joins.size else 1.0)) / 2.0
    rising = counted & (middle_level * shares - costs > alone)
    if not rising.any():
        return start
    # Between two joins the sum is linear: solved for r from the members that rise.
    resting = welfare - float(alone[~rising].sum())
    return float(np.clip((resting + costs[rising].sum()) / shares[rising].sum(), 0.0, 1.0))


def _lowered_evenly(target: FloatArray, floors: FloatArray, total: float) -> FloatArray:
    """max(floor_i, target_i - t) with the t at which it adds up to the total: the nearest point with that sum."""
    room = target - floors
    order = np.argsort(room, kind="stable")
    # With the k members of least room at their floors the rest share what is left.
    resting = np.concatenate([[0.0], np.cumsum(floors[order])])
    above = target.sum() - np.concatenate([[0.0], np.cumsum(target[order])])
    left = np.arange(target.size, 0, -1)
    levels = (above[:-1] + resting[:-1] - total) / left
    fits = np.flatnonzero(levels <= room[order])
    level = levels[fits[0]] if fits.size else room[order[-1]]
    return np.maximum(floors, target - level)


def share_among_groups(
    shares: FloatArray,
    costs: FloatArray,
    alone: FloatArray,
    welfare: float,
    search: GroupSearch,
    *,
    quick_search: GroupSearch | None = None,
    stakes: FloatArray | None = None,
    alike: NDArray[np.intp] | None = None,
) -> FairShares:
    """The fairest utilities that keep every member and every group the search knows of.

    Parameters
    ----------
    quick_search
        One that may overlook groups, for the first steps; the search itself if not given.
    stakes
        What each member has at stake, of which shares count as rounding; as much as all have if not given.
    alike
        (n,): the same number for members who could change places; all differ if not given.

    Raises
    ------
    Unkept
        If no sharing keeps them all.
    NotConverged
        If they are kept only up to more than rounding.
    """
    unit = _scale(shares, costs, alone, welfare)
    at_stake = np.full(shares.size, unit) if stakes is None else stakes
    at_stake = np.maximum(at_stake / unit, np.finfo(float).tiny)
    even = _averaging(np.arange(shares.size) if alike is None else alike)
    rounds = _Rounds(
        even @ (shares / unit),
        even @ (costs / unit),
        even @ (alone / unit),
        welfare / unit,
        stakes=even @ at_stake,
        even=even,
        search=search,
        unit=unit,
    )
    rounds.approach(search if quick_search is None else quick_search)
    utilities, lowest = rounds.run(rounds.nearest, 2.0 * SHORTFALL_TOLERANCE)
    kept = KeptGroups(members=rounds.groups.members, values=rounds.groups.values * unit)
    return FairShares(utilities=utilities * unit, lowest_share=lowest, groups=kept)


def _averaging(alike: NDArray[np.intp]) -> FloatArray:
    """(n, n): gives everybody the average of those alike."""
    same = alike[:, None] == alike[None, :]
    return np.asarray(same / same.sum(axis=1, keepdims=True))


class _Rounds:
    """Constraint generation: solve with the groups known, look for groups that gain, take these in, and again.

    Everything is in units of what is to be shared out.
    """

    def __init__(
        self,
        shares: FloatArray,
        costs: FloatArray,
        alone: FloatArray,
        welfare: float,
        *,
        stakes: FloatArray,
        even: FloatArray,
        search: GroupSearch,
        unit: float,
    ) -> None:
        self.shares, self.costs, self.welfare, self.stakes, self._even = shares, costs, welfare, stakes, even
        self.groups = KeptGroups(members=np.eye(shares.size, dtype=np.bool_), values=alone)
        self._known = {group.tobytes() for group in self.groups.members}
        self._search, self._unit = search, unit

    def run(self, solve: Callable[[], tuple[FloatArray, float]], tolerance: float) -> tuple[FloatArray, float]:
        """What `solve` finds once no group gains under it by more than this share of its stakes."""
        for _ in range(MAX_LEVELLING_ROUNDS):
            utilities, level = solve()
            new = self._new_groups(self._search, utilities, tolerance)
            if not new.values.size:
                return utilities, level
            self.groups = self.groups.joined(new)
        raise NotConverged(f"groups were still found to gain after {MAX_LEVELLING_ROUNDS} rounds")

    def _new_groups(self, search: GroupSearch, utilities: FloatArray, tolerance: float) -> KeptGroups:
        """Groups that lack more than this share of their stakes and were not found before.

        Of those found before, the solver has left what it takes for rounding.
        """
        found = search(utilities * self._unit)
        values = found.values / self._unit
        lacking = values - found.members @ utilities > tolerance * (found.members @ self.stakes)
        new = lacking & np.array([group.tobytes() not in self._known for group in found.members], dtype=np.bool_)
        self._known.update(group.tobytes() for group in found.members[new])
        return KeptGroups(members=found.members[new], values=values[new])

    def approach(self, search: GroupSearch) -> None:
        """Groups along the way of one projection, (phi - c, K) in the space of x and r; those that bind are kept.

        A head start, no more: where the way ends in a contradiction or takes too long, the rounds begin without it.
        """
        size = self.shares.size
        plane = np.append(np.ones(size), 0.0)
        start = np.append(self.shares - self.costs, APPROACH_LEVEL)
        way = Projection(start + (self.welfare - start @ plane) / size * plane, plane)
        share_rows = np.vstack([np.hstack([np.eye(size), -self.shares[:, None]]), np.append(np.zeros(size), -1.0)])
        way.append(share_rows, np.append(-self.costs, -1.0))
        known, new = no_more_groups(self.stakes), self.groups
        try:
            while new.values.size:
                known = known.joined(new)
                way.append(np.hstack([new.members @ self._even, np.zeros((new.values.size, 1))]), new.values)
                if not way.run(APPROACH_TOLERANCE / size, MAX_APPROACH_STEPS):
                    break
                new = self._new_groups(search, self._even @ way.point[:-1], APPROACH_TOLERANCE)
        except NotConverged:
            pass
        binding = np.array(way.binding, dtype=np.intp) - len(share_rows)
        binding = binding[binding >= size]  # members alone are there already
        self.groups = self.groups.joined(KeptGroups(members=known.members[binding], values=known.values[binding]))
        self._known = {group.tobytes() for group in self.groups.members}

    def best_level(self) -> tuple[FloatArray, float]:
        """The linear program: utilities with the largest lowest share, and that share."""
        for less in VALUE_ROUNDING:
            found = self._best_level(less)
            if found is not None:
                return found
        raise self._unkept()

    def _best_level(self, less: float) -> tuple[FloatArray, float] | None:
        """The same with every group content with so much less, as a share of its stakes; None if some still are not."""
        units, everybody, kept, lows = self._in_units()
        # Columns: the utilities, then r.
        fair = np.hstack([-np.eye(units.size), (self.shares / units)[:, None]])
        kept = np.hstack([kept, np.zeros((len(kept), 1))])
        slack = less * self._group_stakes / (self.groups.members @ units)
        answer = minimise_linear(
            np.append(np.zeros(units.size), -1.0),
            "fair shares",
            A_ub=np.vstack([fair, kept]),
            b_ub=np.concatenate([self.costs / units, lows + slack]),
            A_eq=np.append(units / everybody, 0.0)[None],
            b_eq=np.array([self.welfare / everybody]),
            bounds=[(None, None)] * units.size + [(0.0, 1.0)],
        )
        if answer is None:
            return None
        return self._even @ (answer.x[:-1] * units), float(np.clip(answer.x[-1], 0.0, 1.0))

    def _in_units(self) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """Members' units for a linear program, their sum, and what groups must have, rows and bounds, in theirs."""
        units = self.stakes + SMALLEST_UNIT * float(self.stakes.sum())
        sums = self.groups.members @ units
        rows = (self.groups.members @ self._even) * (-units / sums[:, None])
        return units, float(units.sum()), rows, -self.groups.values / sums

    def nearest(self) -> tuple[FloatArray, float]:
        """The utilities closest to Shapley shares among those with the largest lowest share, and that share."""
        _, best = self.best_level()
        rows = np.vstack([np.eye(self.shares.size), self.groups.members @ self._even])
        for less in VALUE_ROUNDING:
            lowest = max(0.0, best - less)
            floors = lowest * self.shares - self.costs - less * self.stakes
            limits = np.concatenate([floors, self.groups.values - less * self._group_stakes])
            found = nearest_point(self.shares - self.costs, rows, limits, self.welfare)
            if found is not None:
                return self._even @ self._make_up(self._even @ found, less + SHORTFALL_TOLERANCE), lowest
        raise NotConverged(
            f"the constraints of fair shares contradict each other by more than {VALUE_ROUNDING[-1]:g} of what members "
            "have at stake: what groups reach by themselves is not known well enough"
        )

    def _make_up(self, utilities: FloatArray, tolerance: float) -> FloatArray:
        """Give groups what they lack by more than a share of their stakes; the others pay by theirs.

        Only small groups lack anything that counts: those who pay have far more at stake.
        """
        for _ in range(MAX_LEVELLING_ROUNDS):
            lacking = self.groups.shortfalls(utilities) / self._group_stakes
            worst = int(np.argmax(lacking))
            group = self.groups.members[worst]
            if lacking[worst] <= tolerance or group.all():
                return utilities
            amount, paying = lacking[worst] * self._group_stakes[worst], self.stakes * ~group
            utilities = utilities + np.where(group, lacking[worst] * self.stakes, -amount * paying / paying.sum())
        raise NotConverged(
            f"small groups still had too little after {MAX_LEVELLING_ROUNDS} rounds of making up for rounding"
        )

    @property
    def _group_stakes(self) -> FloatArray:
        return np.asarray(self.groups.members @ self.stakes)

    def _unkept(self) -> Unkept:
        """The least that keeps every group, and the groups that ask for it, those of members alike each by itself."""
        self._even = np.eye(self.shares.size)

        def cheapest() -> tuple[FloatArray, float]:
            found = self._asked()
            units, everybody, *_ = self._in_units()
            return self._even @ (found.x * units), float(found.fun) * everybody

        _, total = self.run(cheapest, LP_TOLERANCE)
        asking = -self._asked().ineqlin.marginals > LP_TOLERANCE
        blamed = KeptGroups(members=self.groups.members[asking], values=self.groups.values[asking] * self._unit)
        return Unkept(groups=blamed, subsidy=(total - self.welfare) * self._unit)

    def _asked(self) -> Any:
        """The least total that keeps the groups known: always feasible, and bounded by what members have alone."""
        units, everybody, kept, lows = self._in_units()
        answer = minimise_linear(units / everybody, "fair shares", A_ub=kept, b_ub=lows, bounds=(None, None))
        assert answer is not None
        return answer


def _scale(shares: FloatArray, costs: FloatArray, alone: FloatArray, welfare: float) -> float:
    sizes = (abs(welfare), np.abs(shares).sum(), costs.sum(), np.abs(alone).sum(), np.finfo(float).tiny)
    return float(max(sizes))

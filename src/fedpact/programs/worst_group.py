"""The group that gains most by leaving a deal together.

A deal gives the members utilities U. A group X that leaves reaches v(X) by itself (`fedpact.programs.groups`) and so
gains v(X) - U(X). Up to 16 agents all groups are solved, and the answer is exact. Beyond, it is bracketed:

* from below by groups found: everybody, each member alone, those that the bounds point at, and from there neighbours
  as long as these gain (`fedpact.programs.known_groups`);
* from above by prices, whatever the signs of the weights. At prices m_i = a_i'(xi_i) of reach, those of any profile,

      v(X) - U(X) <= sum_{i in X} d_i,     d_i = a_i - m_i (xi_i - 1) + max_{0 <= s <= cap_i} [g_i s - c_i(s)] - U_i,

  where g_i = sum_k m_k max(w_ki, 0) is the most a sample of i's earns in any group. At the social optimum, with no
  negative weight, d_i is what the Externality mechanism gives i, less U_i. Groups are solved in the order of these
  bounds: once the next is below the best gain, no other group can gain more;
* from above, where no weight is negative, by a relaxation (`fedpact.programs.group_relaxation`) and branch and bound:
  the members a relaxation leaves undecided are taken in and left out in turn, the most promising case first.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.group_relaxation import GroupRelaxation, RelaxedGroup, relaxation_obstacle
from fedpact.programs.groups import (
    MAX_COMPILED_MEMBERS,
    MAX_LISTED_AGENTS,
    BoolArray,
    GroupOptima,
    group_optima,
)
from fedpact.programs.known_groups import KnownGroups
from fedpact.programs.solver import GAIN_TOLERANCE
from fedpact.utils.arrays import FloatArray, checked_numbers
from fedpact.utils.errors import InvalidInput

# A bracket narrower than this share of what all can reach together is closed.
BRACKET_TOLERANCE = 1e-6
TIE_TOLERANCE = 1e-12  # of what all can reach together: groups that gain alike
MAX_GROUPS_IN_ORDER, MAX_SLOW_GROUPS_IN_ORDER = 64, 4  # solved in the order of bounds; fewer where one takes long
GROUPS_SOLVED_TOGETHER = 16
ROUNDING_THRESHOLDS = (0.1, 0.5, 0.9)  # of a relaxed membership, from which on a member is taken in
SEARCH_TIME_LIMIT = 30.0  # seconds
# Where the answer must not depend on the machine, a search solves up to this many relaxations, fewer among many agents:
# the time for one grows with their square or faster.
MAX_RELAXATIONS = 40
MAX_RELAXATIONS_TIMES_SQUARE = 25_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class WorstGroup:
    """The group that gains most by leaving, as far as that is known.

    Attributes
    ----------
    members
        (n,): who is in it. Of groups that gain alike it is one with the fewest members; never empty.
    gain
        v(X) - U(X), what it gains by leaving; not above zero where no group found gains.
    upper_bound
        No group gains more than this.
    exact
        Whether the bound is met: no group gains more than this one, but for rounding.
    value, contributions
        v(X), and the contributions (lots,) that give it, 0 for those outside.
    method
        How it was found, in words.
    """

    members: BoolArray
    gain: float
    upper_bound: float
    exact: bool
    value: float
    contributions: FloatArray
    method: str


def worst_group(
    federation: Federation,
    utilities: ArrayLike,
    *,
    proper: bool = False,
    time_limit: float = SEARCH_TIME_LIMIT,
    max_relaxations: int | None = None,
    progress: Progress | None = None,
    known: KnownGroups | None = None,
) -> WorstGroup:
    """The group with the largest v(X) - U(X): exact up to 16 agents, beyond that a bracket within the time given.

    Parameters
    ----------
    utilities
        What each agent has if it stays.
    proper
        Whether somebody must stay behind: then everybody together is no group.
    time_limit
        Seconds after which a search among more than 16 agents ends with the bracket it has.
    max_relaxations
        The same in relaxations solved, with which the answer does not depend on how fast the machine is.
    progress
        Called with how much is done, and how much there is to do as far as that is known.
    known
        Groups looked at before, which a search among more than 16 agents begins with and adds to.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> found = worst_group(federation, [0.04, 0.04, 0.09])
    >>> found.members.tolist(), round(found.gain, 4), found.exact
    ([True, True, False], 0.0233, True)
    """
    check_search_limits(time_limit, max_relaxations)
    given = checked_numbers("utilities", utilities, np.isfinite, "finite", names=federation.names)
    stay = np.array(np.broadcast_to(given, federation.n_agents))
    if proper and federation.n_agents == 1:
        raise InvalidInput("proper groups need at least two members, got a federation of one")
    if federation.n_agents <= MAX_LISTED_AGENTS:
        return _among_all(group_optima(federation, progress=progress), stay, proper=proper)
    search = _Search(federation, stay, time.monotonic() + time_limit, progress, proper=proper, known=known)
    return search.run(max_relaxations)


def check_search_limits(time_limit: float, max_relaxations: int | None) -> None:
    """Raise `InvalidInput` where a search is given no number of seconds, or no number of relaxations."""
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float | np.number) or not time_limit >= 0:
        raise InvalidInput(field="time_limit", rule="must be a number of seconds, 0 or more", value=time_limit)
    if max_relaxations is None:
        return
    if isinstance(max_relaxations, bool) or not isinstance(max_relaxations, int | np.integer) or max_relaxations < 0:
        rule = "must be a whole number, 0 or more, or None"
        raise InvalidInput(field="max_relaxations", rule=rule, value=max_relaxations)


def affordable_relaxations(n_agents: int) -> int:
    """How many relaxations take some seconds at most."""
    return min(MAX_RELAXATIONS, MAX_RELAXATIONS_TIMES_SQUARE // n_agents**2)


def search_groups(federation: Federation, utilities: ArrayLike) -> GroupOptima:
    """The group that gains most of everybody, members alone, those that prices point at, and their neighbours.

    Neighbours differ by one member; they are looked at up to 64 agents, while compiled code is quick. One row, always
    the same for the same federation and utilities.
    """
    search = _Search(federation, np.asarray(utilities, dtype=np.float64), np.inf, None)
    search.try_candidates(neighbours=federation.n_agents <= MAX_COMPILED_MEMBERS)
    return search.best


def price_bounds(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> FloatArray:
    """d_i at the prices of a profile: no group gains more than its members' d_i together."""
    slopes = federation.marginal_payoffs(contributions)
    surplus = federation.task_payoffs(contributions) - slopes * federation.data(contributions)
    earned = np.asarray(federation.positive_weights().T @ slopes)
    spare, bend = earned - federation.costs.linear, 2.0 * federation.costs.quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(bend > 0, spare / bend, np.where(spare > 0, np.inf, 0.0))
    best = np.clip(best, 0.0, contribution_bounds(federation)[0])
    sold, spent = (federation.per_agent_from_lots(part) for part in (earned * best, federation.costs.value(best)))
    return np.asarray(federation.per_agent_from_tasks(surplus) + sold - spent - utilities)


def subsets_by_sum(numbers: FloatArray) -> Iterator[tuple[float, list[int]]]:
    """Sums of subsets of numbers, none below zero, and their places: the empty one first, the sums rising.

    Examples
    --------
    >>> list(subsets_by_sum(np.array([3.0, 1.0])))
    [(0.0, []), (1.0, [1]), (3.0, [0]), (4.0, [1, 0])]
    """
    order = np.argsort(numbers, kind="stable").tolist()
    rising = numbers[order].tolist()
    yield 0.0, []
    heap = [(rising[0], [0])]
    while heap:
        total, ranks = heapq.heappop(heap)
        yield total, [order[rank] for rank in ranks]
        last = ranks[-1]
        if last + 1 < len(rising):  # one more number, or the next in place of the last
            heapq.heappush(heap, (total + rising[last + 1], [*ranks, last + 1]))
            heapq.heappush(heap, (total - rising[last] + rising[last + 1], [*ranks[:-1], last + 1]))


def _among_all(optima: GroupOptima, utilities: FloatArray, *, proper: bool = False) -> WorstGroup:
    """The worst of all groups, the empty one aside."""
    counted = slice(1, len(optima.values) - proper)
    gains = optima.gains(utilities)[counted]
    alike = gains >= gains.max() - TIE_TOLERANCE * np.abs(optima.values).max()
    # Beside large members the gains of small ones may be alike and yet their own: those go first.
    rounding = TIE_TOLERANCE * (np.abs(optima.values[counted]) + optima.members[counted] @ np.abs(utilities))
    chosen = alike & (gains > rounding) if (alike & (gains > rounding)).any() else alike
    sizes = np.where(chosen, optima.members[counted].sum(axis=1), np.inf)
    place = 1 + int(np.argmin(sizes))
    most = float(gains.max())
    return WorstGroup(
        members=optima.members[place],
        gain=float(gains[place - 1]),
        upper_bound=most,
        exact=True,
        value=float(optima.values[place]),
        contributions=optima.contributions[place],
        method=f"all {gains.size} groups",
    )


class _Search:
    """The worst group of many agents: between the best group found and the lowest bound."""

    def __init__(
        self,
        federation: Federation,
        utilities: FloatArray,
        deadline: float,
        progress: Progress | None,
        *,
        proper: bool = False,
        known: KnownGroups | None = None,
    ) -> None:
        self._federation, self._utilities = federation, utilities
        self._deadline, self._progress, self._proper = deadline, progress, proper
        self._known = KnownGroups(federation, deadline=deadline) if known is None else known
        everybody = GroupOptima(
            members=self._known.members[:1],
            values=self._known.values[:1],
            contributions=self._known.contributions[:1],
        )
        self._scale = max(abs(float(everybody.values[0])), np.finfo(float).tiny)
        self.best, self._gain = everybody, -np.inf if proper else float(everybody.gains(utilities)[0])
        self._prices = price_bounds(federation, utilities, everybody.contributions[0])
        self._upper = float(np.maximum(self._prices, 0.0).sum()) + GAIN_TOLERANCE * self._scale

    def run(self, max_relaxations: int | None = None) -> WorstGroup:
        """Candidates and their neighbours; then, if the bracket is open and there is a relaxation, branch and bound."""
        self.try_candidates()
        method, obstacle = "neighbouring groups, and a bound by prices", relaxation_obstacle(self._federation)
        if max_relaxations == 0:
            method += "; no relaxation: none was asked for"
        elif not self._is_closed and not obstacle:
            method = f"branch and bound with {self._branch(max_relaxations)} relaxations"
        elif not self._is_closed:
            method += f"; no relaxation: {obstacle}"
        return WorstGroup(
            members=self.best.members[0],
            gain=self._gain,
            upper_bound=max(self._upper, self._gain),
            exact=self._is_closed,
            value=float(self.best.values[0]),
            contributions=self.best.contributions[0],
            method=method,
        )

    def try_candidates(self, *, neighbours: bool = True) -> None:
        """The member that gains most alone, those that prices point at and, if wanted, one member more or less."""
        alone = standalone_optimum(self._federation)[1] - self._utilities
        self._try((np.arange(alone.size) == np.argmax(alone))[None, :])
        self._try(self._prices[None, :] > 0)
        if neighbours:
            self._try_in_order()
            self._climb()

    def _try_in_order(self) -> None:
        """Groups in the order of their bounds by prices, from the highest, until the next is below the best gain."""
        likely, highest = self._prices > 0, self._upper
        most = MAX_GROUPS_IN_ORDER if self._prices.size <= MAX_COMPILED_MEMBERS else MAX_SLOW_GROUPS_IN_ORDER
        ordered = subsets_by_sum(np.abs(self._prices))
        ahead = next(ordered, None)
        for _ in range(0, most, GROUPS_SOLVED_TOGETHER):
            if self._is_closed or self._time_left <= 0:
                return
            groups: list[BoolArray] = []
            while ahead is not None and len(groups) < min(most, GROUPS_SOLVED_TOGETHER):
                flipped = likely.copy()
                flipped[ahead[1]] ^= True
                groups.append(flipped)
                ahead = next(ordered, None)
            self._try(np.array(groups))
            self._upper = self._gain if ahead is None else min(self._upper, max(self._gain, highest - ahead[0]))

    @property
    def _is_closed(self) -> bool:
        return self._upper - self._gain <= BRACKET_TOLERANCE * self._scale

    @property
    def _time_left(self) -> float:
        return self._deadline - time.monotonic()

    def _try(self, groups: BoolArray) -> bool:
        """Whether one of the groups gains more than the best so far, and so replaces it."""
        some = groups[groups.any(axis=1)]
        if len(some):
            self._known.look_at(some)
        return self._choose()

    def _choose(self) -> bool:
        """Whether one of the groups known gains more than the best so far, and so replaces it."""
        gains = self._known.gains(self._utilities)
        if self._proper:
            gains[0] = -np.inf  # everybody
        if gains.max() <= self._gain + TIE_TOLERANCE * self._scale:
            return False
        alike = gains >= gains.max() - TIE_TOLERANCE * self._scale
        place = int(np.argmin(np.where(alike, self._known.members.sum(axis=1), np.inf)))
        self._gain, some = float(gains[place]), slice(place, place + 1)
        self.best = GroupOptima(
            members=self._known.members[some],
            values=self._known.values[some],
            contributions=self._known.contributions[some],
        )
        return True

    def _climb(self) -> None:
        """Neighbours of the best groups; where no relaxation will point at others, of groups of every size as well."""
        if self._is_closed or self._time_left <= 0:
            return
        self._known.walk(self._utilities)
        if relaxation_obstacle(self._federation) and self._federation.n_agents <= MAX_COMPILED_MEMBERS:
            self._known.look_at_likely()
            self._known.walk(self._utilities)
            self._known.grow_and_shrink(self._utilities)
            self._known.climb_from_best(self._utilities)
        self._choose()

    def _branch(self, max_relaxations: int | None) -> int:
        """Branch and bound until the bracket is closed or the limit reached; how many relaxations it took."""
        n_agents = self._federation.n_agents
        relaxation = GroupRelaxation(
            self._federation, self._utilities, self._scale, max_members=n_agents - self._proper
        )
        nobody = np.zeros(n_agents, dtype=bool)
        cases = [(-self._upper, 0, nobody, nobody)]
        solved, settled = 0, -np.inf  # cases, and the highest bound of those that were not divided further
        most = np.inf if max_relaxations is None else max_relaxations
        while cases and not self._is_closed and self._time_left > 0 and solved < most:
            bound, _, inside, outside = heapq.heappop(cases)
            found = relaxation.solve(inside, outside, time_limit=self._time_left)
            if found is None:  # divided all the same, with the bound it came with
                found = RelaxedGroup(bound=-bound, membership=np.where(inside | outside, inside, 0.5))
            solved += 1
            upper = min(found.bound, -bound)
            parts = self._divide(found.membership, upper, solved, inside, outside)
            if not parts:
                settled = max(settled, upper)
            for part in parts:
                heapq.heappush(cases, part)
            self._upper = min(self._upper, max([self._gain, settled, *(-case[0] for case in cases)]))
            if self._progress is not None:
                self._progress(solved, solved + len(cases))
        return solved

    def _divide(
        self, membership: FloatArray, upper: float, solved: int, inside: BoolArray, outside: BoolArray
    ) -> list[tuple[float, int, BoolArray, BoolArray]]:
        """The cases left of one after its relaxation, which also points at groups to try."""
        rounded = np.array([membership > threshold for threshold in ROUNDING_THRESHOLDS]) | inside
        rounded = rounded[rounded.any(axis=1)]
        if len(rounded):
            self._known.climb(rounded, self._utilities)
        if self._try(rounded) and solved == 1:
            self._climb()
        if upper <= self._gain + BRACKET_TOLERANCE * self._scale:
            return []
        undecided = ~inside & ~outside
        if not undecided.any():  # one group is left, and it was tried
            return []
        agent = int(np.argmin(np.where(undecided, np.abs(membership - 0.5), np.inf)))
        chosen = np.arange(membership.size) == agent
        parts = [(-upper, 2 * solved, inside | chosen, outside), (-upper, 2 * solved + 1, inside, outside | chosen)]
        return [part for part in parts if not part[3].all() and not (self._proper and part[2].all())]

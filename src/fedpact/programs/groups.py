"""What groups of members could reach by themselves.

A group X that leaves trains on its own members' data, and only its members' payoffs count. The best it can do is

    v(X) = max over 0 <= s_j <= cap_j, j in X, of  sum_{i in X} a_i(sum_{j in X} w_ij s_j) - sum_{j in X} c_j(s_j),

the social optimum of `federation.take(X)`. Small groups are solved in compiled code, all of one size together; a payoff
that compiled code does not know, a large group, or one it does not solve to the last digits is solved alone.

Cost: a program of |X| agents each, about ten Newton steps of |X|^3 products. All groups of n agents are 2^n programs:
some milliseconds for ten agents, seconds for sixteen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import largest_spending
from fedpact.federation.lots import shared_members
from fedpact.programs.batch_solver import maximise_stack
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.social_optimum import maximise_welfare
from fedpact.programs.solver import GAIN_TOLERANCE
from fedpact.shapley.enumeration import coalitions
from fedpact.utils.arrays import FloatArray
from fedpact.utils.compiling import expecting_many
from fedpact.utils.errors import InvalidInput
from fedpact.utils.parallel import is_configured, map_parallel

MAX_LISTED_AGENTS = 16  # all groups of more agents are too many to list
MAX_COMPILED_MEMBERS = 64  # larger groups are quicker with NumPy's matrices
MAX_RECENT, MAX_RECENT_GROUPS = 256, 1 << 18  # federations whose groups are kept, and the groups of all of them
MANY_GROUPS = 4096  # all of twelve members: compiled code then solves the small ones as well
GROUPS_AT_A_TIME = 4096  # compiled code is deaf to interrupts while it runs
GROUPS_WITH_LOTS_AT_A_TIME = 1024

BoolArray = NDArray[np.bool_]
_Piece = tuple[NDArray[np.intp], BoolArray, FloatArray | None]  # rows of groups, the groups, where to begin


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupOptima:
    """The best that groups can do by themselves, a row per group.

    Attributes
    ----------
    members
        (groups, n): who is in the group.
    values
        (groups,): v(X), the most welfare the group can have by itself.
    contributions
        (groups, lots): the contributions that give it, a lot per agent or several, 0 for those outside the group.
    """

    members: BoolArray
    values: FloatArray
    contributions: FloatArray

    def gains(self, utilities: ArrayLike) -> FloatArray:
        """v(X) - U(X): what each group gains by leaving a deal that gives its members these utilities."""
        return np.asarray(self.values - self.members @ np.asarray(utilities, dtype=np.float64))


def all_groups(n_agents: int) -> BoolArray:
    """Membership (2^n, n) of every group: bit j of the row number says whether agent j is in it; row 0 is empty."""
    if n_agents > MAX_LISTED_AGENTS:
        raise InvalidInput(
            f"{n_agents} members form 2^{n_agents} groups; all of them are listed up to {MAX_LISTED_AGENTS} members"
        )
    return coalitions(n_agents)[0] > 0


def group_optima(
    federation: Federation,
    members: ArrayLike | None = None,
    *,
    start: FloatArray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GroupOptima:
    """The best that groups of a federation can do by themselves.

    Parameters
    ----------
    members
        (groups, n), true or false; all 2^n groups, the empty one first, if not given (up to 16 agents).
    start
        (groups, lots): contributions to begin at, if something better than what members do alone is known.
    progress
        Called with how many groups are done, and how many there are.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> group_optima(federation).values.round(4).tolist()
    [0.0, 0.0392, 0.0392, 0.1033, 0.0392, 0.1033, 0.1033, 0.1771]
    """
    if members is None:
        return _all_optima(federation, progress)
    groups = np.asarray(members, dtype=np.bool_)
    if groups.ndim != 2 or groups.shape[1] != federation.n_agents:
        raise InvalidInput(
            f"groups must have one column for each of the {federation.n_agents} members, got shape {groups.shape}"
        )
    values, contributions = np.zeros(len(groups)), np.zeros((len(groups), federation.n_lots))
    sizes = groups.sum(axis=1)
    done = int((sizes == 0).sum())
    solver, one_more = (_LotGroupSolver if federation.has_lots else GroupSolver)(federation), _one_member_more(groups)
    piece = GROUPS_WITH_LOTS_AT_A_TIME if federation.has_lots else GROUPS_AT_A_TIME
    for size in range(federation.n_agents, 0, -1):
        places = np.flatnonzero(sizes == size)
        pieces = []
        for first in range(0, places.size, piece):
            some = places[first : first + piece]
            begin = None if start is None else start[some]
            if one_more is not None and size < federation.n_agents:
                begin = contributions[one_more[some]]
            pieces.append((some, groups[some], begin))
        with expecting_many() if len(groups) >= MANY_GROUPS else nullcontext():
            for (some, _, _), (profiles, worths) in _solve_pieces(solver, pieces):
                contributions[some], values[some] = profiles, worths
                done += some.size
                if progress is not None:
                    progress(done, len(groups))
    return GroupOptima(members=groups, values=values, contributions=contributions)


def _solve_pieces(
    solver: GroupSolver | _LotGroupSolver, pieces: Sequence[_Piece]
) -> Iterator[tuple[_Piece, tuple[FloatArray, FloatArray]]]:
    """Every piece with what its groups reach: here, or on a cluster if joblib was told of one."""
    if is_configured() and len(pieces) > 1:
        yield from map_parallel(partial(_solve_piece_of_groups, solver), pieces)
        return
    for piece in pieces:
        yield piece, _solve_piece_of_groups(solver, piece)


def _solve_piece_of_groups(solver: GroupSolver | _LotGroupSolver, piece: _Piece) -> tuple[FloatArray, FloatArray]:
    _, groups, begin = piece
    return solver.solve(groups, begin)


def _one_member_more(groups: BoolArray) -> NDArray[np.intp] | None:
    """For every group but the whole, the row of one with another member, if all groups are listed in order."""
    n_agents = groups.shape[1]
    if n_agents > MAX_LISTED_AGENTS or len(groups) != 1 << n_agents or not np.array_equal(groups, all_groups(n_agents)):
        return None
    rows = np.arange(len(groups))
    return np.asarray(np.minimum(rows | (rows + 1), len(groups) - 1))  # the lowest bit that is not set


_known: ContextVar[Mapping[str, GroupOptima]] = ContextVar("known", default=MappingProxyType({}))
_recent: OrderedDict[str, GroupOptima] = OrderedDict()  # by the federation's fingerprint: several deals ask for one


@contextmanager
def knowing(groups: Mapping[str, GroupOptima]) -> Iterator[None]:
    """Within the block all groups of these federations, by fingerprint, are taken from here and not solved again."""
    before = _known.set(groups)
    try:
        yield
    finally:
        _known.reset(before)


def _all_optima(federation: Federation, progress: Callable[[int, int], None] | None) -> GroupOptima:
    """Every group, worked out once for deals of the same federation that are looked at one after the other."""
    known = _known.get().get(federation.fingerprint)
    if known is not None:
        return known
    everybody = all_groups(federation.n_agents)
    if federation.fingerprint not in _recent:
        found = group_optima(federation, everybody, progress=progress)
        for numbers in (found.members, found.values, found.contributions):
            numbers.setflags(write=False)
        _recent[federation.fingerprint] = found
        kept = sum(each.values.size for each in _recent.values())
        while len(_recent) > 1 and (len(_recent) > MAX_RECENT or kept > MAX_RECENT_GROUPS):
            kept -= _recent.popitem(last=False)[1].values.size
    return _recent[federation.fingerprint]


class GroupSolver:
    """Solves groups of one size at a time, of agents with one lot each."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._is_known = federation.payoff.hyperbola() is not None
        self._alone = standalone_optimum(federation)[0]  # the right size to begin with

    def solve(self, groups: BoolArray, start: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Contributions (groups, n) and values (groups,) of groups of one size.

        `start` (groups, n) is where to begin, if something better than the standalone optima is known.
        """
        agents = np.nonzero(groups)[1].reshape(len(groups), -1)
        begin = None if start is None else np.take_along_axis(start, agents, axis=1)
        profiles, values = self.solve_listed(agents, begin)
        contributions = np.zeros(groups.shape)
        contributions[np.arange(len(groups))[:, None], agents] = profiles
        return contributions, values

    def solve_listed(self, agents: NDArray[np.intp], start: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """The same of groups given by their members' numbers, (groups, size): contributions of these, and values."""
        if self._is_known and agents.shape[1] <= MAX_COMPILED_MEMBERS:
            profiles, gains = self._climb(agents, self._alone[agents] if start is None else start)
            unsolved = np.flatnonzero(~(gains <= GAIN_TOLERANCE))
        else:
            profiles, unsolved = np.empty(agents.shape), np.arange(len(agents))
        for place in unsolved:
            profiles[place] = self.solve_alone(agents[place])
        return profiles, self._welfare(agents, profiles)

    def solve_alone(self, agents: NDArray[np.intp]) -> FloatArray:
        """The contributions of one group by the solver for any federation."""
        return maximise_welfare(self._federation.take(agents)).contributions

    def _climb(self, agents: NDArray[np.intp], start: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Contributions by compiled code, and the linearised gain each group is left with."""
        federation, members = self._federation, agents.ravel()
        weights, costs, payoff = self.weights(agents), federation.costs.take(members), federation.payoff.take(members)
        values = federation.values[members]
        positive = np.maximum(weights, 0.0)

        def worth(spending: FloatArray) -> FloatArray:
            bought = costs.affordable(np.repeat(spending, agents.shape[1])).reshape(agents.shape)
            data = np.matmul(positive, bought[..., None]).ravel()
            return np.asarray((values * payoff.value(data)).reshape(agents.shape).sum(axis=1))

        scale = largest_spending(worth, len(agents))
        affordable = costs.affordable(np.repeat(2.0 * scale, agents.shape[1]))
        return maximise_stack(
            weights,
            payoff=payoff,
            costs=costs,
            values=values,
            upper=np.minimum(federation.caps[members], affordable),
            scale=scale,
            members=np.ones((1, agents.shape[1])),
            shares=np.ones(1),
            start=start,
        )

    def weights(self, agents: NDArray[np.intp]) -> FloatArray:
        """Of the groups' members for each other, (groups, size, size)."""
        if self._federation.is_sparse and self._federation.n_agents > MAX_COMPILED_MEMBERS:
            return np.stack([self._federation.weights[group][:, group].toarray() for group in agents])
        return self._federation.dense_weights()[agents[:, :, None], agents[:, None, :]]

    def _welfare(self, agents: NDArray[np.intp], profiles: FloatArray) -> FloatArray:
        """What the groups have at their profiles."""
        federation, members = self._federation, agents.ravel()
        if agents.shape[1] > MAX_COMPILED_MEMBERS:
            together = [federation.take(group).welfare(s) for group, s in zip(agents, profiles, strict=True)]
            return np.array(together)
        data = np.matmul(self.weights(agents), profiles[..., None]).ravel()
        payoffs = federation.values[members] * federation.payoff.take(members).value(data)
        spent = federation.costs.take(members).value(profiles.ravel())
        return np.asarray((payoffs - spent).reshape(agents.shape).sum(axis=1))


class _LotGroupSolver:
    """Solves groups of agents with several lots and tasks.

    To compiled code a program has as many rows as columns: what a group lacks of either is filled up with lots of which
    there is nothing and tasks that are worth nothing.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._is_known = federation.payoff.hyperbola() is not None
        self._alone = standalone_optimum(federation)[0]
        self._members = shared_members(federation.shared_caps, federation.n_lots)
        self._shared = np.array([shared.cap for shared in federation.shared_caps])

    def solve(self, groups: BoolArray, start: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Contributions (groups, lots) and values (groups,); `start` (groups, lots) is where to begin, if known."""
        federation, begin = self._federation, np.broadcast_to(self._alone, (len(groups), self._alone.size))
        lots, tasks = groups[:, federation.lot_owners], groups[:, federation.task_owners]
        begin = np.where(lots, begin if start is None else start, 0.0)
        contributions, values = np.zeros(lots.shape), np.zeros(len(groups))
        counts = np.maximum(lots.sum(axis=1), tasks.sum(axis=1))
        able = lots.any(axis=1) & tasks.any(axis=1)  # with data, and something it is good for
        for count in np.unique(counts[able]):
            some = np.flatnonzero(able & (counts == count))
            unsolved = some
            if self._is_known and count <= MAX_COMPILED_MEMBERS:
                contributions[some], gains = self._climb(lots[some], tasks[some], begin[some], int(count))
                over = (contributions[some] @ self._members.T > self._shared).any(axis=1)  # compiled code knows none
                unsolved = some[~(gains <= GAIN_TOLERANCE) | over]
            for place in unsolved:
                part = federation.take(groups[place])
                contributions[place, self._taken_lots(groups[place])] = maximise_welfare(part).contributions
        spent = federation.costs.value(contributions).sum(axis=1)
        data = np.where(tasks, np.asarray((federation.weights @ contributions.T).T), 0.0)
        values = (federation.values * federation.payoff.value(data)).sum(axis=1) - spent
        return contributions, values

    def _taken_lots(self, group: BoolArray) -> NDArray[np.intp]:
        """The places of a group's lots in the order of `Federation.take`."""
        return np.concatenate([self._federation.lots_of(agent) for agent in np.flatnonzero(group).tolist()])

    def _climb(self, lots: BoolArray, tasks: BoolArray, start: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Contributions (groups, lots) by compiled code, and the linearised gain each group is left with."""
        federation, shape = self._federation, (len(lots), count)
        columns, has_column = _listed(lots, count)
        rows, has_row = _listed(tasks, count)
        weights = federation.dense_weights()[rows[:, :, None], columns[:, None, :]]
        weights = np.where(has_row[:, :, None] & has_column[:, None, :], weights, 0.0)
        costs, payoff = federation.costs.take(columns.ravel()), federation.payoff.take(rows.ravel())
        values = np.where(has_row, federation.values[rows], 0.0)
        positive = np.maximum(weights, 0.0)

        def worth(spending: FloatArray) -> FloatArray:
            bought = np.where(has_column, costs.affordable(np.repeat(spending, count)).reshape(shape), 0.0)
            data = np.matmul(positive, bought[..., None]).ravel()
            return np.asarray((values * payoff.value(data).reshape(shape)).sum(axis=1))

        scale = largest_spending(worth, len(lots))
        affordable = costs.affordable(np.repeat(2.0 * scale, count)).reshape(shape)
        found, gains = maximise_stack(
            weights,
            payoff=payoff,
            costs=costs,
            values=values.ravel(),
            upper=np.where(has_column, np.minimum(federation.caps[columns], affordable), 0.0).ravel(),
            scale=scale,
            members=np.ones((1, count)),
            shares=np.ones(1),
            start=np.take_along_axis(start, columns, axis=1),
        )
        contributions = np.zeros(lots.shape)
        places, slots = np.nonzero(has_column)
        contributions[places, columns[places, slots]] = found[places, slots]
        return contributions, gains


def _listed(chosen: BoolArray, count: int) -> tuple[NDArray[np.intp], BoolArray]:
    """The places of what is true in every row, filled up to `count` with the first of all, and which are not filled."""
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :count]
    order = np.pad(order, ((0, 0), (0, count - order.shape[1])))
    there = np.arange(count) < chosen.sum(axis=1)[:, None]
    return np.where(there, order, 0), there

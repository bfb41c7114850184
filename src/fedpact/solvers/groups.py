"""What groups of members could reach by themselves.

A group X that leaves trains on its own members' data, and only its members' payoffs count. The best it can do is

    v(X) = max over the lots of X of  sum over the tasks of X of value_r g_r(y_r) - sum over the lots of X of c_l(s_l),

the welfare optimum of a federation of X alone; groups of two and more pay their members' joining costs on top. All
groups of up to `MAX_LISTED_AGENTS` members are solved side by side, those of one size at a time. Among more members the
group that gains most by leaving a deal with utilities U is bracketed: from below by a local search (one member more,
one less, one exchanged), from above by prices. With
m_r = value_r g_r'(y_r) at any profile,

    v(X) - U(X) <= sum_{i in X} d_i,    d_i = sum_{r of i} (a_r - m_r y_r) + sum_{l of i} max_s [g_l s - c_l(s)] - U_i,

where g_l = sum_r m_r max(w_rl, 0) is the most a sample of lot l earns in any group: so no group gains more than the sum
of all d_i above zero. At the welfare optimum without harm, d_i is what the Externality mechanism gives i, less U_i.
Joining costs lower d_i, for groups of two and more; what members have alone is then looked at apart.

A member alone is a group of one: v_i* = max over its own lots of a_i - c_i.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, Owners, sum_by, times_transposed
from fedpact.solvers.interior_point import GAIN_TOLERANCE, maximise
from fedpact.solvers.welfare import WelfareProgram, maximise_welfare, welfare_optima
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

MAX_LISTED_AGENTS = 16  # all groups of more members are too many to list
MAX_SEARCHED_AGENTS = 64  # among more, a group and its neighbours take too long: only what prices point at is tried
MAX_RECENT = 12  # results that are kept: several deals ask for those of one federation
NUMBERS_AT_A_TIME = 1 << 18  # of Hessians
TIE_TOLERANCE = 1e-12  # of what all can reach together: groups that gain alike
MAX_TAKEN_IN = 50  # groups at once

BoolArray = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupOptima:
    """Who is in each group (groups, n), v(X) (groups,), and the contributions (groups, lots) that give it."""

    members: BoolArray
    values: FloatArray
    contributions: FloatArray

    def gains(self, utilities: ArrayLike) -> FloatArray:
        """v(X) - U(X): what each group gains by leaving a deal that gives its members these utilities."""
        return np.asarray(self.values - self.members @ np.asarray(utilities, dtype=np.float64))

    def take(self, rows: ArrayLike) -> GroupOptima:
        """Some of the groups."""
        chosen = np.asarray(rows, dtype=np.intp)
        return GroupOptima(**{name: numbers[chosen] for name, numbers in vars(self).items()})


def all_groups(n_agents: int) -> BoolArray:
    """Membership (2^n, n) of every group: bit j of the row number says whether member j is in it; row 0 is empty."""
    if n_agents > MAX_LISTED_AGENTS:
        raise InvalidInput(
            f"{n_agents} members form 2^{n_agents} groups; all of them are listed up to {MAX_LISTED_AGENTS} members"
        )
    return np.asarray((np.arange(1 << n_agents)[:, None] >> np.arange(n_agents)) & 1, dtype=np.bool_)


def group_optima(federation: Federation, members: ArrayLike | None = None) -> GroupOptima:
    """The best that groups (groups, n) of a federation can do by themselves; all, the empty one first, if not given.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> federation = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> group_optima(federation).values.round(4).tolist()
    [0.0, 0.0392, 0.0392, 0.1033, 0.0392, 0.1033, 0.1033, 0.1771]
    """
    if members is None:
        return remember("groups", federation, lambda: group_optima(federation, all_groups(federation.n_agents)))
    groups = np.asarray(members, dtype=np.bool_)
    if groups.ndim != 2 or groups.shape[1] != federation.n_agents:
        raise InvalidInput(
            f"groups must have one column for each of the {federation.n_agents} members, got shape {groups.shape}"
        )
    values, contributions = _solve_groups(federation.arrays, groups)
    if np.isnan(values).any():
        names = ", ".join(federation.names[i] for i in np.flatnonzero(groups[np.argmax(np.isnan(values))]))
        raise NotConverged(f"no optimum was found for what {names} reach by themselves", result=contributions)
    for numbers in (groups, values, contributions):
        numbers.setflags(write=False)
    return GroupOptima(members=groups, values=values, contributions=contributions)


def remember(what: str, federation: Federation, make: Callable[[], T]) -> T:
    """What takes long to work out of a federation, once for the latest few that were asked about."""
    key = what, federation.fingerprint
    if key not in _recent:
        _recent[key] = make()
        while len(_recent) > MAX_RECENT:
            _recent.popitem(last=False)
    found: T = _recent[key]
    return found


_recent: OrderedDict[tuple[str, str], Any] = OrderedDict()


def group_welfare(arrays: FederationArrays, members: BoolArray) -> FloatArray:
    """v(X) of groups (groups, n) in federations, (..., groups); NaN where not converged."""
    return _solve_groups(arrays, members)[0]


def sub_federations(arrays: FederationArrays, members: BoolArray) -> tuple[FederationArrays, Owners, BoolArray]:
    """Groups (groups, n) as federations of their own, (..., groups), and the lots of each, (groups, most lots of one).

    What a group has fewer of than the one with most is filled up: with lots of which there is nothing and tasks that
    are worth nothing. The last result says which lots are there.
    """
    lots, has_lot = owned_entries(members[:, arrays.lot_owners])
    tasks, has_task = owned_entries(members[:, arrays.task_owners])
    rows, columns = tasks[:, :, None], lots[:, None, :]
    weights = arrays.weights[..., rows, columns]
    limits = np.broadcast_to(arrays.shared_limits[..., None, :], (*arrays.shape, len(members), len(arrays.shared)))
    made = replace(
        arrays,
        weights=np.where(has_task[:, :, None] & has_lot[:, None, :], weights, 0.0),
        values=np.where(has_task, arrays.values[..., tasks], 0.0),
        linear=arrays.linear[..., lots],
        quadratic=arrays.quadratic[..., lots],
        caps=np.where(has_lot, arrays.caps[..., lots], 0.0),
        payoff=arrays.payoff.map(lambda parameter: np.broadcast_to(parameter, arrays.values.shape)[..., tasks]),
        names=("group",),
        lot_owners=np.zeros(lots.shape[1], dtype=np.intp),
        task_owners=np.zeros(tasks.shape[1], dtype=np.intp),
        shared=np.moveaxis(np.where(has_lot, arrays.shared[:, lots], 0.0), 0, 1),
        shared_limits=limits,
        joining_costs=np.zeros((*arrays.shape, len(members), 1)),
        budgets=np.full((*arrays.shape, len(members), 1), np.inf),
    )
    return made, lots, has_lot


def owned_entries(is_in: BoolArray) -> tuple[Owners, BoolArray]:
    """The columns that are true in every row, first those, and which entries are there; at least one column."""
    counts = is_in.sum(axis=1)
    there = np.arange(max(int(counts.max(initial=0)), 1)) < counts[:, None]
    order = np.argsort(~is_in, axis=1, kind="stable")[:, : there.shape[1]]
    return np.asarray(order, dtype=np.intp), there


def _solve_groups(arrays: FederationArrays, members: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Values (..., groups) and contributions (..., groups, lots); NaN values where not converged."""
    values = np.zeros((*arrays.shape, len(members)))
    contributions = np.zeros((*values.shape, arrays.n_lots))
    sizes = members[:, arrays.lot_owners].sum(axis=1)
    able = (sizes > 0) & members[:, arrays.task_owners].any(axis=1)
    for size in np.unique(sizes[able]).tolist():
        chosen = np.flatnonzero(able & (sizes == size))
        at_a_time = max(1, NUMBERS_AT_A_TIME // (size**2 * max(1, int(np.prod(arrays.shape)))))
        for some in np.array_split(chosen, -(-chosen.size // at_a_time)):
            alone, lots, has_lot = sub_federations(arrays, members[some])
            flat = alone.flattened()
            one = flat.values.shape[0] == 1
            found = maximise_welfare(WelfareProgram(flat.at(0))) if one else maximise(WelfareProgram(flat))
            worth = np.where(found.converged, flat.welfare(found.contributions), np.nan)
            values[..., some] = worth.reshape(*arrays.shape, -1)
            profiles = np.where(has_lot, found.contributions.reshape(*alone.shape, -1), 0.0)
            contributions[..., some[:, None], lots] = profiles
    return values - arrays.joining_costs_of(members), contributions


def price_bounds(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> FloatArray:
    """d_i at the prices of a profile: no group of two or more gains more than its members' d_i together."""
    arrays = federation.arrays
    marginal = arrays.marginal_payoffs(contributions)
    surplus = arrays.task_payoffs(contributions) - marginal * arrays.data(contributions)
    weights = arrays.weights
    helpful = np.maximum(weights, 0.0)
    earned = times_transposed(helpful, marginal)
    spare, curvature = earned - arrays.linear, 2.0 * arrays.quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(curvature > 0, spare / curvature, np.where(spare > 0, np.inf, 0.0))
    best = np.clip(best, 0.0, arrays.bounds()[0])
    sold = sum_by(arrays.lot_owners, earned * best - arrays.lot_costs(best), arrays.n_agents)
    most = sum_by(arrays.task_owners, surplus, arrays.n_agents) + sold
    return np.asarray(most - arrays.joining_costs - utilities)


def most_gained(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> float:
    """No group gains more than this by leaving, by the prices of a profile."""
    bound = float(np.maximum(price_bounds(federation, utilities, contributions), 0.0).sum())
    if federation.joining_costs.any():
        alone = group_optima(federation, np.eye(federation.n_agents, dtype=np.bool_))
        bound = max(bound, float(alone.gains(utilities).max()))
    return bound


class KnownGroups:
    """Groups of a federation that were looked at, everybody first, and a way to others that gain more by leaving.

    `found` are all of them up to `MAX_LISTED_AGENTS` members; `scale` is the most that one reaches.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.all_listed = federation.n_agents <= MAX_LISTED_AGENTS
        everybody = np.ones((1, federation.n_agents), dtype=np.bool_)
        if self.all_listed:
            listed = group_optima(federation)
            self.found = listed.take(np.arange(len(listed.values) - 1, 0, -1))
        else:
            self.found = group_optima(federation, everybody)
        self.scale = max(float(np.abs(self.found.values).max()), float(np.finfo(float).tiny))

    def price_bound(self, utilities: FloatArray) -> float:
        """No group gains more than this."""
        return most_gained(self._federation, utilities, self.found.contributions[0]) + GAIN_TOLERANCE * self.scale

    def worst(self, utilities: FloatArray, *, proper: bool = False) -> tuple[GroupOptima, float]:
        """The group with the largest v(X) - U(X) of all known ones, one row, and a bound for all groups.

        Of groups that gain alike it is one with the fewest members. With `proper`, somebody must stay behind: then
        everybody together is no group.

        Examples
        --------
        >>> from fedpact import Federation, PowerLaw
        >>> federation = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
        >>> found, bound = KnownGroups(federation).worst(np.array([0.04, 0.04, 0.09]))
        >>> found.members.tolist(), round(bound, 4)
        ([[True, True, False]], 0.0233)
        """
        if proper and self._federation.n_agents == 1:
            raise InvalidInput("proper groups need at least two members, got a federation of one")
        self.search(utilities)
        groups = self.found.take(np.arange(int(proper), len(self.found.values)))
        gains = groups.gains(utilities)
        bound = gains.max() if self.all_listed else max(gains.max(), self.price_bound(utilities))
        alike = gains >= gains.max() - TIE_TOLERANCE * np.abs(groups.values).max()
        row = int(np.argmin(np.where(alike, groups.members.sum(axis=1), np.inf)))
        return groups.take([row]), float(bound)

    def gaining(
        self, utilities: FloatArray, tolerance: float, counts: Callable[[BoolArray], BoolArray] | None = None
    ) -> GroupOptima:
        """Groups that gain more than `tolerance` by leaving, the most first; looked for only where none is known.

        With `counts` only those that count, of membership (groups, n).
        """
        for _ in range(2):
            gains = self.found.gains(utilities)
            rows = np.flatnonzero(gains > tolerance)
            if counts is not None:
                rows = rows[counts(self.found.members[rows])]
            if rows.size or self.all_listed:
                break
            self.search(utilities)
        return self.found.take(rows[np.argsort(-gains[rows], kind="stable")[:MAX_TAKEN_IN]])

    def search(self, utilities: FloatArray) -> None:
        """What prices point at, everybody alone, everybody but one, and from those that gain most to their neighbours.

        Of more than `MAX_SEARCHED_AGENTS` members no neighbours are looked at.
        """
        if self.all_listed:
            return
        one = np.eye(self._federation.n_agents, dtype=np.bool_)
        few = len(one) <= MAX_SEARCHED_AGENTS
        bounds = price_bounds(self._federation, utilities, self.found.contributions[0])
        order, sizes = np.argsort(np.argsort(-bounds, kind="stable")), np.geomspace(1, len(one), 12 if few else 4)
        self._climb(np.concatenate([(bounds > 0)[None], order < sizes.astype(int)[:, None]]), utilities)
        going = few
        if few:
            self._climb(np.concatenate([one, ~one]), utilities)
        while going:
            best = self._best(utilities)
            exchanged = [
                (group ^ one[group][:, None, :] ^ one[~group][None, :, :]).reshape(-1, len(one)) for group in best
            ]
            going = self._climb((best[:, None, :] ^ one).reshape(-1, len(one)), utilities) or self._climb(
                np.concatenate(exchanged), utilities
            )

    def look_at(self, groups: BoolArray) -> GroupOptima:
        """Some groups, which are known from now on."""
        if self.all_listed:
            rows = {group.tobytes(): row for row, group in enumerate(self.found.members)}
            return self.found.take([rows[group.tobytes()] for group in groups])
        found = group_optima(self._federation, groups)
        self.found = GroupOptima(
            **{name: np.concatenate([numbers, getattr(found, name)]) for name, numbers in vars(self.found).items()}
        )
        return found

    def _climb(self, groups: BoolArray, utilities: FloatArray) -> bool:
        """Whether one of these groups gains more than all known so far but for everybody, whom nobody leaves behind."""
        seen = {group.tobytes() for group in self.found.members}
        new = [group for group in groups if group.any() and group.tobytes() not in seen]
        if not new:
            return False
        most = self.found.gains(utilities)[1:].max(initial=-np.inf)
        found = self.look_at(np.unique(new, axis=0))
        return bool(found.gains(utilities).max() > most + TIE_TOLERANCE * self.scale)

    def _best(self, utilities: FloatArray) -> BoolArray:
        """The groups that gain most, but for everybody: all that gain as much, whatever their names."""
        gains = self.found.gains(utilities)[1:]
        return self.found.members[1:][gains >= gains.max() - TIE_TOLERANCE * self.scale]


def standalone_optimum(federation: Federation) -> tuple[FloatArray, FloatArray]:
    """Contributions (lots) and utilities v_i* (members) of members that train alone, equation (6) of the paper.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, caps=[400.0, 0.0], payoff=PowerLaw(beta=0.1))
    >>> contributions, utilities = standalone_optimum(pair)
    >>> contributions.round(4).tolist(), utilities.round(4).tolist()
    ([7.1113, 0.0], [0.1178, 0.0])
    """
    contributions, utilities = standalone_optima(federation.arrays)
    if np.isnan(utilities).any():
        name = federation.names[int(np.argmax(np.isnan(utilities)))]
        raise NotConverged(f'no optimum was found for what "{name}" reaches alone', result=contributions)
    return read_only_copy(contributions), read_only_copy(utilities)


def standalone_optima(arrays: FederationArrays) -> tuple[FloatArray, FloatArray]:
    """Contributions (..., lots) and utilities (..., members) of members that train alone; NaN where not converged."""
    contributions = np.zeros((*arrays.shape, arrays.n_lots))
    alone, lots, has_lot = sub_federations(arrays, np.eye(arrays.n_agents, dtype=np.bool_))
    contributions[..., lots[has_lot]] = welfare_optima(alone)[0][..., has_lot]
    payoffs = sum_by(arrays.task_owners, arrays.worth(arrays.own_data(contributions)), arrays.n_agents)
    return contributions, payoffs - arrays.spending(contributions)

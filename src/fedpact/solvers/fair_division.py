"""Fair gains, and divisions of what a federation reaches that nobody would leave: the fairest, and the nearest one.

**The fair gain** of a member is the Shapley value of what groups gain by federating. Some members of a group X may
federate, and the others do without. With v(Y) the most a group Y reaches by itself (`fedpact.solvers.groups`), X gains

    G(X) = max over groups Y within X of  v(Y) - sum over i in Y of v({i}),        at least 0, of nobody,

and the fair gain of i is the sum over groups X without i of |X|! (n - |X| - 1)! / n! (G(X with i) - G(X)). It shares
out what federating brings, where reciprocity shares out everything, what each would have had alone included. No group
gains less for one member more, so no fair gain is negative, whatever harm and joining costs there are; where there are
neither, all of X federate. All groups are solved up to `MAX_LISTED_AGENTS` members. Up to `MAX_SEARCHED_AGENTS`, groups
are sampled (`fedpact.shapley.measured`), which federate as a whole or not at all, and fair gains have standard errors,
the same for equals and whatever members are called.

**Divisions.** Members' utilities x add up to W, the largest welfare. No group X may have less than it reaches alone,

    x(X) >= v(X) for every group X to be kept,      x(N) = W,

the members alone being groups of one; these alone are kept where no others are given. Among all such divisions

* `nearest_division` is the one with the least sum of squares of x - target;
* `fairest_division` makes the lowest part r of a Shapley share phi_i that anybody has in its benefit x_i + c_i,

      x_i + c_i >= r phi_i,

  as large as can be, a linear program, and is then the one nearest to the Shapley shares, target = phi - c. Shares and
  benefits both add up to all payoffs, so r is at most 1; and r = 0 costs nobody anything.

A division is what everybody has, x, (members,). Nearest points are unique, so equals are treated alike and renaming
members renames the answer. Of the 2^n groups few bind, so that they are taken in as they are found to have too little
(constraint generation). Where no division keeps everybody, `Unkept` says which groups ask for too much, and what it
takes: the least total that keeps all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, Owners
from fedpact.shapley.coalitions import size_coefficients, values_of_totals
from fedpact.shapley.measured import sample_game
from fedpact.solvers.groups import (
    MAX_LISTED_AGENTS,
    MAX_SEARCHED_AGENTS,
    BoolArray,
    GroupOptima,
    KnownGroups,
    all_groups,
    group_optima,
    group_welfare,
    remember,
)
from fedpact.solvers.welfare import nearest_point
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

GROUP_TOLERANCE = 1e-11  # of what is divided: a group that lacks less has what it must
ROUNDING = (0.0, 1e-12, 1e-11, 1e-10)  # of the same: by how much values of groups, and r, may be overstated
MAX_ROUNDS = 1000


class Unkept(Exception):
    """No division keeps all groups: some, and what each asks for; and the least from outside that keeps everybody.

    The groups ask for more than there is, if each member's time is shared out among them.
    """

    def __init__(self, members: BoolArray, values: FloatArray, subsidy: float) -> None:
        super().__init__(f"no division keeps everybody without {subsidy:g} from outside")
        self.members, self.values, self.subsidy = members, values, subsidy


def fairest_division(
    shares: FloatArray,
    costs: FloatArray,
    alone: FloatArray,
    welfare: float,
    groups: KnownGroups | None = None,
    *,
    least: FloatArray | float = -np.inf,
) -> FloatArray:
    """The division with the largest lowest part of a Shapley share, and of these the nearest to the shares.

    `least` is what members must have besides: budgets that limit what they pay.
    """
    kept = _Kept(np.maximum(alone, least), welfare, groups, shares)

    return kept.run(lambda: kept.nearest(shares - costs, kept.highest_level(shares, costs) * shares - costs))


def nearest_division(
    target: FloatArray,
    alone: FloatArray,
    welfare: float,
    groups: KnownGroups | None = None,
    *,
    least: FloatArray | float = -np.inf,
) -> FloatArray:
    """The division nearest to a target, in the sum of squares; `least` is what members must have besides."""
    alone = np.maximum(alone, least)
    kept = _Kept(alone, welfare, groups, target)
    return kept.run(lambda: kept.nearest(target, alone))


class _Kept:
    """The groups taken in so far, and what they leave of a division."""

    def __init__(self, alone: FloatArray, welfare: float, groups: KnownGroups | None, aim: FloatArray) -> None:
        self._known, self.welfare = groups, welfare
        self.members, self.values = np.eye(alone.size, dtype=np.bool_), alone
        reached = 0.0 if groups is None else groups.scale
        stakes = (abs(welfare), float(np.abs(alone).sum()), reached, float(np.abs(aim).max()))
        self._unit = max(*stakes, float(np.finfo(float).tiny))

    def run(self, solve: Callable[[], FloatArray]) -> FloatArray:
        """What `solve` finds once no group has too little under it."""
        for _ in range(MAX_ROUNDS):
            utilities = solve()
            new = self._lacking(utilities)
            if new is None or not new.values.size:
                return utilities
            self.members = np.concatenate([self.members, new.members])
            self.values = np.concatenate([self.values, new.values])
        raise NotConverged(f"groups were still found to gain after {MAX_ROUNDS} rounds")

    def _lacking(self, utilities: FloatArray) -> GroupOptima | None:
        """Groups with too little that are not taken in yet: of those that are, rounding has left the rest."""
        if self._known is None:
            return None
        found = self._known.gaining(utilities, 2.0 * GROUP_TOLERANCE * self._unit)
        taken = {group.tobytes() for group in self.members}
        return found.take([row for row, group in enumerate(found.members) if group.tobytes() not in taken])

    def highest_level(self, shares: FloatArray, costs: FloatArray) -> float:
        """The largest r at which the groups taken in are kept."""
        n, unit = shares.size, self._unit
        fair = np.column_stack([-np.eye(n), shares / unit])
        kept = np.column_stack([-1.0 * self.members, np.zeros(len(self.members))])
        for slack in ROUNDING:
            answer = linear_program(
                np.append(np.zeros(n), -1.0),
                np.concatenate([fair, kept]),
                np.concatenate([costs / unit, slack - self.values / unit]),
                equal=(np.append(np.ones(n), 0.0)[None], np.array([self.welfare / unit])),
                last_bounds=(0.0, 1.0),
            )
            if answer is not None:
                return float(np.clip(answer.x[-1], 0.0, 1.0))
        raise self._unkept()

    def nearest(self, target: FloatArray, floors: FloatArray) -> FloatArray:
        """The point nearest to the target with these floors and the groups taken in."""
        n, unit = target.size, self._unit
        even = target / unit + (self.welfare - target.sum()) / (n * unit)
        rows, limits = np.concatenate([np.eye(n), self.members]), np.concatenate([floors, self.values]) / unit
        for slack in ROUNDING:
            found = nearest_point(even, rows, limits, np.full((n, 1), n**-0.5), tolerance=slack)
            if found is not None:
                return found * unit
        raise self._unkept()

    def _unkept(self) -> Unkept:
        """The least total that keeps the groups of all, and those that ask for it."""
        asking, total = np.zeros(0, dtype=np.bool_), self.welfare

        def cheapest() -> FloatArray:
            nonlocal asking, total
            rows = np.where(self.members, -1.0, 0.0)
            answer = linear_program(np.ones(rows.shape[1]), rows, -self.values / self._unit)
            assert answer is not None  # always feasible, and bounded by what members have alone
            asking, total = -answer.ineqlin.marginals > 1e-7, float(answer.fun) * self._unit
            return np.asarray(answer.x * self._unit)

        self.run(cheapest)
        return Unkept(self.members[asking], self.values[asking], total - self.welfare)


def linear_program(
    costs: FloatArray,
    rows: FloatArray,
    limits: FloatArray,
    *,
    equal: tuple[FloatArray, FloatArray] | None = None,
    last_bounds: tuple[float | None, float | None] = (None, None),
) -> Any:
    """The least costs @ x with rows @ x <= limits, by HiGHS; None where the constraints contradict each other.

    `equal` are rows and what they are equal to; x is free, but for its last entry.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only for divisions

    answer = linprog(
        costs,
        A_ub=rows,
        b_ub=limits,
        A_eq=None if equal is None else equal[0],
        b_eq=None if equal is None else equal[1],
        bounds=[(None, None)] * (costs.size - 1) + [last_bounds],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status == 2:
        return None
    if not answer.success:
        raise NotConverged(f"a linear program of fair shares was not solved: {answer.message}")
    return answer


GROUPS_PER_MEMBER = 40  # that are sampled
EQUAL_TOLERANCE = 1e-9  # of the largest: what counts as the same in looking for equals


class FairGains(NamedTuple):
    """Fair gains and their standard errors, (..., members); errors of zero where all groups were solved."""

    values: FloatArray
    standard_errors: FloatArray


def fair_gains(federation: Federation) -> FairGains:
    """The fair gains of a federation; NaN among more than `MAX_SEARCHED_AGENTS` members.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> fair_gains(homogeneous).values.round(4).tolist()
    [0.0198, 0.0198, 0.0198]
    """
    size = federation.n_agents
    if size <= MAX_LISTED_AGENTS:
        values = fair_gains_of_totals(group_optima(federation).values[None], size)[0]
        return FairGains(values, np.zeros(size))
    if size > MAX_SEARCHED_AGENTS:
        return FairGains(np.full(size, np.nan), np.full(size, np.nan))
    return remember("fair gains", federation, lambda: _sampled_fair_gains(federation))


def _sampled_fair_gains(federation: Federation) -> FairGains:
    size = federation.n_agents
    alone = group_optima(federation, np.eye(size, dtype=np.bool_)).values
    order, classes = _order_without_names(federation, alone)

    def reach(groups: list[tuple[int, ...]]) -> FloatArray:
        members = np.array([np.isin(np.arange(size), order[list(group)]) for group in groups])
        return np.maximum(group_optima(federation, members).values - members @ alone, 0.0)

    found = sample_game(reach, size, budget=GROUPS_PER_MEMBER * size, rng=0, batch=True)
    values, errors = np.empty(size), np.empty(size)
    values[order], errors[order] = found.values, found.standard_errors
    for equals in classes:
        values[equals], errors[equals] = values[equals].mean(), errors[equals].mean()
    return FairGains(values, errors)


def _order_without_names(federation: Federation, alone: FloatArray) -> tuple[Owners, list[Owners]]:
    """Members in an order that renaming does not change, so that the same groups are sampled; and who are equals.

    They are sorted by what the others reach without them, and by what they have alone. Equals, who may change places
    and leave the federation as it is, have the same of both.
    """
    size = federation.n_agents
    without = group_optima(federation, ~np.eye(size, dtype=np.bool_)).values
    unit = EQUAL_TOLERANCE * max(float(np.abs(without).max()), float(np.abs(alone).max()), np.finfo(float).tiny)
    order = np.lexsort((alone, np.round(without / unit)))
    unnamed, classes = federation.replace(names=None, lot_names=None, task_names=None), list[list[int]]()
    for member in order.tolist():
        for equals in classes:
            near = max(abs(without[member] - without[equals[0]]), abs(alone[member] - alone[equals[0]])) <= 2.0 * unit
            if near and _are_equals(unnamed, equals[0], member):
                equals.append(member)
                break
        else:
            classes.append([member])
    return order, [np.array(equals) for equals in classes]


def _are_equals(unnamed: Federation, one: int, other: int) -> bool:
    swapped = np.arange(unnamed.n_agents)
    swapped[[one, other]] = other, one
    return unnamed.take(swapped).replace(names=None, lot_names=None, task_names=None) == unnamed


def fair_gains_of(arrays: FederationArrays) -> FloatArray:
    """The fair gains of many federations, (..., members); NaN where not all groups can be listed."""
    size = arrays.n_agents
    if size > MAX_LISTED_AGENTS:
        return np.full((*arrays.shape, size), np.nan)
    totals = group_welfare(arrays, all_groups(size)).reshape(-1, 1 << size)
    return fair_gains_of_totals(totals, size).reshape(*arrays.shape, size)


def fair_gains_of_totals(totals: FloatArray, size: int) -> FloatArray:
    """From what every group reaches, (federations, 2^n)."""
    gains = totals - totals[:, 1 << np.arange(size)] @ all_groups(size).T
    for member in range(size):  # of a group's parts with and without it, the one that gains more
        pairs = gains.reshape(len(gains), -1, 2, 1 << member)
        np.maximum(pairs[:, :, 0], pairs[:, :, 1], out=pairs[:, :, 1])
    return values_of_totals(gains, size_coefficients(size))

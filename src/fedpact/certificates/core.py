r"""The core: no group gains by leaving together. Bounds from prices, and groups looked at one by one.

A group X that leaves reaches v(X) by itself: its members' data, its members' payoffs. At any profile let
m_r = v_r g_r'(y_r) be what data is worth to task r. Payoffs are concave, so for every profile t of the group alone

    sum over X of [a_i(t) - c_i(t)] <= sum over X of b_i(X),
    b_i(X) = sum over i's tasks of [a_r - m_r y_r] + sum over i's lots of h_l(sum over the tasks of X of m_r w_rl),

where h_l(e) = max over 0 <= t <= cap_l of e t - c_l(t), which rises with e. In no group does a sample of l earn more
than e_l = sum_r m_r max(w_rl, 0) over everybody. So

    v(X) - U(X) <= sum over X of d_i,
    d_i = sum over its tasks of [a_r - m_r y_r] + sum over its lots of h_l(e_l) - U_i,

whatever the group: if no d_i is positive, no group gains. At the social optimum with weights >= 0, d_i is what the
Externality mechanism gives i less U_i; so that mechanism is in the core. Any profile gives valid bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Certificate, CertifiedOutcome, Claim, Verdict, about
from fedpact.certificates.concave import group_problem, maximise, most_earned, welfare_problem
from fedpact.certificates.deviations import isolation
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.federation.lots import SHARED_CAP_ROUNDING
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

BoolArray = NDArray[np.bool_]

SOME_GROUPS = "some groups"  # the scope of a certificate that has not looked at all
MAX_AGENTS_LISTED = 10  # all their groups take milliseconds
MAX_NUMBERS = 4_000_000  # of Hessians held at once


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupProfiles:
    """Groups, (groups, members), and what each would contribute by itself, (groups, lots); from wherever they come."""

    members: BoolArray
    contributions: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupGains:
    """What each of some groups gains by leaving, (groups,): at least `gains`, at its profile, and at most `bounds`."""

    gains: FloatArray
    bounds: FloatArray


def member_bounds(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> FloatArray:
    """d_i at the prices of a profile: no group gains more than its members' d_i together.

    Infinite where the profile is not admissible, and so has no prices.
    """
    if not federation.admits(contributions):
        return np.full(federation.n_agents, np.inf)
    arrays = federation.arrays
    worth = arrays.marginal_payoffs(contributions)
    surplus = arrays.task_payoffs(contributions) - worth * arrays.data(contributions)
    earned = worth @ np.maximum(arrays.dense_weights, 0.0) - arrays.linear
    sold = most_earned(earned[None], welfare_problem(arrays))[1][0]
    surplus, sold = (
        sum_by(owners, each, arrays.n_agents)
        for owners, each in ((arrays.task_owners, surplus), (arrays.lot_owners, sold))
    )
    return surplus + sold - utilities


def group_gains(federation: Federation, utilities: FloatArray, groups: GroupProfiles) -> GroupGains:
    """What groups gain at their profiles, and at most: b_i(X) of every group at its own profile's prices."""
    arrays, problem = federation.arrays, group_problem(federation.arrays, groups.members)
    lots = groups.members[:, arrays.lot_owners]
    x = np.where(lots, groups.contributions, 0.0)
    within = ((x >= 0) & (x <= arrays.caps)).all(axis=1)
    within &= (x @ arrays.shared.T <= arrays.shared_limits * (1.0 + SHARED_CAP_ROUNDING)).all(axis=1)
    has, reached = groups.members @ utilities, problem.value(x)
    with np.errstate(invalid="ignore"):
        gaps = problem.gaps(x, problem.earned(x)).sum(axis=1)
    inside = within & np.isfinite(reached) & np.isfinite(gaps)
    return GroupGains(
        gains=np.where(inside, reached - has, -np.inf), bounds=np.where(inside, reached + gaps - has, np.inf)
    )


def group_optima(arrays: FederationArrays, members: BoolArray, starts: FloatArray) -> GroupProfiles:
    """The best profiles of groups by themselves, by ascents from `starts`, (groups, lots), or from nothing."""
    found = np.zeros((len(members), arrays.n_lots))
    size = max(1, MAX_NUMBERS // arrays.n_lots**2)
    for first in range(0, len(members), size):
        part = slice(first, first + size)
        problem = group_problem(arrays, members[part])
        start = problem.project(starts[part])
        found[part] = maximise(problem, np.where(np.isfinite(problem.value(start))[:, None], start, 0.0)).x
    return GroupProfiles(members=members, contributions=found)


def welfare_of_others(federation: Federation, contributions: FloatArray) -> FloatArray:
    """For every member, the most welfare the others reach without it, by ascents from what they contribute here."""
    arrays, others = federation.arrays, ~np.eye(federation.n_agents, dtype=np.bool_)
    found = group_optima(arrays, others, np.broadcast_to(contributions, (len(others), arrays.n_lots)))
    return group_gains(federation, np.zeros(federation.n_agents), found).gains


def certify_core(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No group does better by leaving together; `optimum` gives the best profile of everybody, if it is needed.

    Prices prove it where they can, at this profile or at the optimum. Otherwise groups are looked at: all of them if
    they are few; else everybody, the member that gains most alone and those the prices point at, and then what the
    outcome hands over (`group_profiles`), which is all groups as long as they can be listed.
    """
    federation, tols = outcome.federation, outcome.tolerances
    for known in (outcome.contributions, None):
        best = optimum() if known is None else known
        bounds = member_bounds(federation, outcome.utilities, best)
        if (bounds <= tols).all():
            return _core_by_prices(outcome, bounds)
    most = float(np.maximum(bounds, 0.0).sum())
    if federation.n_agents <= MAX_AGENTS_LISTED:
        members = (np.arange(1, 1 << federation.n_agents)[:, None] >> np.arange(federation.n_agents)) & 1 > 0
        starts = np.broadcast_to(best, (len(members), best.size))
        return _core_by_groups(outcome, group_optima(federation.arrays, members, starts), most)
    found = _core_by_groups(outcome, _likely_groups(outcome, best, bounds), most)
    if found.verdict is Verdict.VIOLATED:
        return found
    try:
        handed: Any = getattr(outcome, "group_profiles", None)
    except NotConverged:  # of one of the groups
        handed = None
    return found if handed is None else _core_by_groups(outcome, _without_empty(handed), most)


def _without_empty(groups: Any) -> GroupProfiles:
    some = groups.members.any(axis=1)
    return GroupProfiles(members=groups.members[some], contributions=groups.contributions[some])


def _core_by_prices(outcome: CertifiedOutcome, bounds: FloatArray) -> Certificate:
    positive, tols = bounds > 0, outcome.tolerances
    most, tol = (bounds[positive].sum(), tols.sum()) if positive.any() else (bounds.max(), tols[np.argmax(bounds)])
    agent = int(np.argmax(bounds / tols))
    witness = about(outcome, agent) | {
        "utility": float(outcome.utilities[agent]),
        "most_in_any_group": float(outcome.utilities[agent] + bounds[agent]),
        "gain_upper_bound": float(most),
    }
    return Certificate.judge(Claim.CORE, -float(most), float(tol), "all groups, by prices", witness)


def _likely_groups(outcome: CertifiedOutcome, best: FloatArray, bounds: FloatArray) -> GroupProfiles:
    """Groups that may well gain: everybody, the member that gains most alone, those with positive bounds."""
    federation, alone = outcome.federation, isolation(outcome.federation, best)
    everybody = np.ones(federation.n_agents, dtype=np.bool_)
    one = np.arange(federation.n_agents) == np.argmax(alone.reached - outcome.utilities)
    groups, profiles = [everybody, one], [best, alone.actions]
    some = bounds > 0
    if some.any() and not some.all():
        groups.append(some)
        profiles.append(group_optima(federation.arrays, some[None], best[None]).contributions[0])
    return GroupProfiles(members=np.array(groups), contributions=np.array(profiles))


def _core_by_groups(outcome: CertifiedOutcome, groups: GroupProfiles, otherwise: float) -> Certificate:
    """From groups one by one: the largest gain beyond rounding, or else the largest; `otherwise` bounds all groups.

    Where a profile that was handed over leaves a group open, an ascent from there is tried.
    """
    federation, names = outcome.federation, np.array(outcome.federation.names, dtype=object)
    found, rounding = group_gains(federation, outcome.utilities, groups), groups.members @ outcome.tolerances
    beyond = found.gains > rounding
    open_groups = (found.bounds > rounding) & ~beyond
    if open_groups.any() and not beyond.any():
        contributions = np.array(groups.contributions)
        starts, some = contributions[open_groups], groups.members[open_groups]
        contributions[open_groups] = group_optima(federation.arrays, some, starts).contributions
        groups = GroupProfiles(members=groups.members, contributions=contributions)
        found = group_gains(federation, outcome.utilities, groups)
        beyond = found.gains > rounding
    index = int(np.argmax(np.where(beyond, found.gains, -np.inf) if beyond.any() else found.gains))
    complete = len(np.unique(groups.members, axis=0)) == (1 << min(federation.n_agents, 60)) - 1
    proven = complete and bool((found.bounds <= rounding).all())
    members, profile = groups.members[index], groups.contributions[index]
    arrays, brought = federation.arrays, np.where(members[federation.lot_owners], profile, 0.0)
    would_have = (arrays.payoffs(brought) - arrays.spending(brought))[members]
    witness = {
        "group": names[members].tolist(),
        "gain": float(found.gains[index]),
        "utilities": dict(zip(names[members], outcome.utilities[members].tolist(), strict=True)),
        "group_utilities": dict(zip(names[members], would_have.tolist(), strict=True)),
        "group_contributions": {
            federation.lot_labels[lot]: float(profile[lot]) for lot in np.flatnonzero(members[federation.lot_owners])
        },
        "gain_upper_bound": float(found.bounds.max()) if complete else max(otherwise, float(found.gains[index])),
    }
    scope = f"all {len(beyond)} groups" if complete else SOME_GROUPS
    margin, tol = -float(found.gains[index]), float(rounding[index])
    return Certificate.judge(Claim.CORE, margin, tol, scope, witness, proven=proven)

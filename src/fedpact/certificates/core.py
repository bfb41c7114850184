r"""The core, and fair gains: claims about what groups reach by themselves.

**No group gains by leaving together.** Bounds from prices, and groups looked at one by one.

A group X that leaves reaches v(X) by itself: its members' data, its members' payoffs. At any profile let
m_r = v_r g_r'(y_r) be what data is worth to task r. Payoffs are concave, so for every profile t of the group alone

    sum over X of [a_i(t) - c_i(t)] <= sum over X of b_i(X),
    b_i(X) = sum over i's tasks of [a_r - m_r y_r] + sum over i's lots of h_l(sum over the tasks of X of m_r w_rl),

where h_l(e) = max over 0 <= t <= cap_l of e t - c_l(t), which rises with e. In no group does a sample of l earn more
than e_l = sum_r m_r max(w_rl, 0) over everybody. So

    v(X) - U(X) <= sum over X of d_i,
    d_i = sum over its tasks of [a_r - m_r y_r] + sum over its lots of h_l(e_l) - U_i,

whatever the group: if no d_i is positive, no group gains. Joining costs of i lower its d_i, for groups of two and more;
then what members have alone is looked at apart. At the social optimum with weights >= 0, d_i is what the
Externality mechanism gives i less U_i; so that mechanism is in the core. Any profile gives valid bounds.

**Fair gains.** Everybody gets its fair share of the gain, or comes as close to it as nobody would leave.

With v(X) what a group reaches by itself, target_i is its Shapley value in v: what i has alone and its fair gain. The
claim is that utilities x are the point nearest to the target, in the sum of squares, of those with the same total in
which every group that is to be kept has v(X), and nobody pays more than its budget. That is so if and only if

    x - target = nu (1, ..., 1) + sum over tight groups X of lambda_X 1_X,      lambda >= 0,

tight where x(X) = v(X), or where a budget is used up. For x in the set, with a remainder r on the right, x is within
|r| of that point: for the nearest point z and by (target - z)(x - z) <= 0, |x - z|^2 <= r (x - z).

Where the target itself is in the set, the claim is that x is the target.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.claims import Certificate, Claim, Verdict, about
from fedpact.certificates.concave import group_problem, maximise, most_earned, welfare_problem
from fedpact.certificates.deviations import isolation
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, sum_by
from fedpact.federation.lots import SHARED_CAP_ROUNDING
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

if TYPE_CHECKING:
    from fedpact.deals.outcome import Outcome


BoolArray = NDArray[np.bool_]

SOME_GROUPS = "some groups"  # the scope of a certificate that has not looked at all
MAX_AGENTS_LISTED = 10  # all their groups take milliseconds
MAX_NUMBERS = 4_000_000  # of Hessians held at once


class GroupProfiles(NamedTuple):
    """Groups, (groups, members), and what each would contribute by itself, (groups, lots); from wherever they come."""

    members: BoolArray
    contributions: FloatArray


def member_bounds(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> FloatArray:
    """d_i at the prices of a profile: no group of two or more gains more than its members' d_i together.

    Infinite where the profile is not admissible, and so has no prices.
    """
    if not federation.admits(contributions):
        return np.full(federation.n_agents, np.inf)
    arrays = federation.arrays
    worth = arrays.marginal_payoffs(contributions)
    surplus = arrays.task_payoffs(contributions) - worth * arrays.data(contributions)
    earned = worth @ np.maximum(arrays.weights, 0.0) - arrays.linear
    sold = most_earned(earned[None], welfare_problem(arrays))[1][0]
    most = sum_by(arrays.task_owners, surplus, arrays.n_agents) + sum_by(arrays.lot_owners, sold, arrays.n_agents)
    return most - arrays.joining_costs - utilities


def group_gains(federation: Federation, utilities: FloatArray, groups: GroupProfiles) -> tuple[FloatArray, FloatArray]:
    """What groups gain at their profiles, and at most, (groups,) each: b_i(X) at its own profile's prices."""
    arrays, problem = federation.arrays, group_problem(federation.arrays, groups.members)
    x = np.where(groups.members[:, arrays.lot_owners], groups.contributions, 0.0)
    inside = ((x >= 0) & (x <= arrays.caps)).all(axis=1)
    inside &= (x @ arrays.shared.T <= arrays.shared_limits * (1.0 + SHARED_CAP_ROUNDING)).all(axis=1)
    gains = problem.value(x) - arrays.joining_costs_of(groups.members) - groups.members @ utilities
    with np.errstate(invalid="ignore"):
        gaps = problem.gaps(x, problem.earned(x)).sum(axis=1)
    inside &= np.isfinite(gains) & np.isfinite(gaps)
    return np.where(inside, gains, -np.inf), np.where(inside, gains + gaps, np.inf)


def group_optima(arrays: FederationArrays, members: BoolArray, start: FloatArray) -> GroupProfiles:
    """The best profiles of groups by themselves, by ascents from `start`, (groups, lots) or (lots,)."""
    starts = np.broadcast_to(start, (len(members), arrays.n_lots))
    found, size = np.zeros(starts.shape), max(1, MAX_NUMBERS // arrays.n_lots**2)
    for first in range(0, len(members), size):
        part = slice(first, first + size)
        problem = group_problem(arrays, members[part])
        inside = problem.project(starts[part])
        found[part] = maximise(problem, np.where(problem.value(inside)[:, None] > 0, inside, 0.0)).x
    return GroupProfiles(members, found)


def welfare_of_others(federation: Federation, contributions: FloatArray) -> FloatArray:
    """For every member, the most welfare the others reach without it, by ascents from what they contribute here."""
    others = group_optima(federation.arrays, ~np.eye(federation.n_agents, dtype=np.bool_), contributions)
    return group_gains(federation, np.zeros(federation.n_agents), others)[0]


def certify_core(outcome: Outcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No group does better by leaving together; `optimum` gives the best profile of everybody, if it is needed.

    Prices prove it where they can, at this profile or at the optimum. Otherwise groups are looked at: all of them if
    they are few; else everybody, the member that gains most alone and those the prices point at, and then what the
    outcome hands over (`group_profiles`), which is all groups as long as they can be listed.
    """
    federation, size = outcome.federation, outcome.federation.n_agents
    for known in (outcome.contributions, None):
        best = optimum() if known is None else known
        bounds = member_bounds(federation, outcome.utilities, best)
        if federation.joining_costs.any():  # which those who leave one by one do not pay
            bounds = np.maximum(bounds, isolation(federation, best).reached - outcome.utilities)
        if (bounds <= outcome.tolerances).all():
            return _core_by_prices(outcome, bounds)
    most = float(np.maximum(bounds, 0.0).sum())
    if size <= MAX_AGENTS_LISTED:
        members = (np.arange(1, 1 << size)[:, None] >> np.arange(size)) & 1 > 0
        return _core_by_groups(outcome, group_optima(federation.arrays, members, best), most)
    alone = np.arange(size) == np.argmax(isolation(federation, best).reached - outcome.utilities)
    likely = np.array([np.ones(size, dtype=np.bool_), alone, bounds > 0])
    found = _core_by_groups(outcome, group_optima(federation.arrays, likely, best), most)
    if found.verdict is Verdict.VIOLATED:
        return found
    try:
        handed: Any = getattr(outcome, "group_profiles", None)
    except NotConverged:  # of one of the groups
        handed = None
    return found if handed is None else _core_by_groups(outcome, handed, most)


def _core_by_prices(outcome: Outcome, bounds: FloatArray) -> Certificate:
    positive, tols = bounds > 0, outcome.tolerances
    most, tol = (bounds[positive].sum(), tols.sum()) if positive.any() else (bounds.max(), tols[np.argmax(bounds)])
    agent = int(np.argmax(bounds / tols))
    witness = about(outcome, agent) | {
        "utility": float(outcome.utilities[agent]),
        "most_in_any_group": float(outcome.utilities[agent] + bounds[agent]),
        "gain_upper_bound": float(most),
    }
    return Certificate.judge(Claim.CORE, -float(most), float(tol), "all groups, by prices", witness)


def _core_by_groups(outcome: Outcome, groups: GroupProfiles, otherwise: float) -> Certificate:
    """From groups one by one: the largest gain beyond rounding, or else the largest; `otherwise` bounds all groups.

    Where a profile that was handed over leaves a group open, an ascent from there is tried.
    """
    federation, arrays = outcome.federation, outcome.federation.arrays
    some = groups.members.any(axis=1)
    members, profiles = groups.members[some], groups.contributions[some]
    rounding = members @ outcome.tolerances
    gains, bounds = group_gains(federation, outcome.utilities, GroupProfiles(members, profiles))
    unsettled = (bounds > rounding) & ~(gains > rounding).any()
    if unsettled.any():
        profiles[unsettled] = group_optima(arrays, members[unsettled], profiles[unsettled]).contributions
        gains, bounds = group_gains(federation, outcome.utilities, GroupProfiles(members, profiles))
    beyond = gains > rounding
    index = int(np.argmax(np.where(beyond, gains, -np.inf) if beyond.any() else gains))
    complete = len(np.unique(members, axis=0)) == (1 << min(federation.n_agents, 60)) - 1
    group, lots = np.flatnonzero(members[index]), np.flatnonzero(members[index][federation.lot_owners])
    brought = np.where(members[index][federation.lot_owners], profiles[index], 0.0)
    would_have = arrays.payoffs(brought) - arrays.spending(brought) - arrays.joining_costs * (group.size > 1)
    names = [federation.names[agent] for agent in group]
    witness = {
        "group": names,
        "gain": float(gains[index]),
        "utilities": dict(zip(names, outcome.utilities[group].tolist(), strict=True)),
        "group_utilities": dict(zip(names, would_have[group].tolist(), strict=True)),
        "group_contributions": {federation.lot_labels[lot]: float(brought[lot]) for lot in lots},
        "gain_upper_bound": float(bounds.max()) if complete else max(otherwise, float(gains[index])),
    }
    scope, proven = (
        f"all {len(members)} groups" if complete else SOME_GROUPS,
        complete and bool((bounds <= rounding).all()),
    )
    return Certificate.judge(Claim.CORE, -float(gains[index]), float(rounding[index]), scope, witness, proven=proven)


# Fair gains

MAX_AGENTS = 16  # all groups of more are too many


def certify_fair_gains(outcome: Outcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """Everybody gets its fair share of the gain, as far as nobody would leave; `optimum` is where ascents start."""
    federation, size = outcome.federation, outcome.federation.n_agents
    tol = float(outcome.tolerances.sum())
    if size > MAX_AGENTS:
        return Certificate.undefined(Claim.FAIR_GAINS, tol, f"fair gains of more than {MAX_AGENTS} members are sampled")
    members = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1 > 0
    try:
        if size <= MAX_AGENTS_LISTED:
            profiles = group_optima(federation.arrays, members[1:], optimum()).contributions
        else:
            profiles = _in_order(getattr(outcome, "group_profiles"))[1:]  # noqa: B009 - of an outcome, if it has some
    except (NotConverged, AttributeError):
        return Certificate.undefined(Claim.FAIR_GAINS, tol, "what some group reaches by itself was not found")
    with np.errstate(over="ignore", invalid="ignore"):
        return _judge(outcome, GroupProfiles(members[1:], profiles))


def _judge(outcome: Outcome, groups: GroupProfiles) -> Certificate:
    federation, size, members = outcome.federation, outcome.federation.n_agents, groups.members
    tol = float(outcome.tolerances.sum())
    reached, most = group_gains(federation, np.zeros(size), groups)
    values = np.append(0.0, reached)
    alone = values[1 << np.arange(size)]
    fair = shapley_values_of(_gains_of_parts(values - np.append(0.0, members @ alone), size), size)
    kept = members if getattr(outcome.rules, "keep", "groups") == "groups" else np.eye(size, dtype=np.bool_)
    limits = values[kept @ (1 << np.arange(size))]
    remainder, lacking, binding = _distance(outcome, alone + fair, kept, limits)
    gains = outcome.utilities - alone
    counts = fair > outcome.tolerances
    agent = int(np.argmin(np.where(counts, gains / np.where(counts, fair, 1.0), np.inf)))
    witness: dict[str, Any] = about(outcome, agent) | {
        "member_gain": float(gains[agent]),
        "fair_gain": float(fair[agent]),
    }
    proven = bool((most - reached).max() <= tol)
    if outcome.rules.federated:
        scope = "all groups, by multipliers of those that would leave"
        witness |= {"distance_from_fair": remainder, "lacking": lacking}
        witness["groups_that_bind"] = [[federation.names[i] for i in np.flatnonzero(group)] for group in binding]
    else:  # nothing is shared out: what is lacking is all that federating would gain
        scope, remainder = "what everybody together would gain by federating", 0.0
        lacking = max(float(values[-1] - alone.sum()), 0.0)
        witness["gain_forgone"] = lacking
    return Certificate.judge(
        Claim.FAIR_GAINS, -max(remainder, lacking), tol, scope, witness, proven=proven, refuted=proven
    )


def _gains_of_parts(gains: FloatArray, size: int) -> FloatArray:
    """What the best part of every group (2^n,) gains by federating, the others doing without."""
    best, groups = gains.copy(), np.arange(1 << size)
    for member in range(size):
        without = groups[(groups >> member) & 1 == 0]
        best[without | 1 << member] = np.maximum(best[without | 1 << member], best[without])
    return best


def shapley_values_of(values: FloatArray, size: int) -> FloatArray:
    """The Shapley values of a game given by what every group (2^n,) is worth, bit j of its index for member j."""
    groups = np.arange(1 << size)
    sizes = ((groups[:, None] >> np.arange(size)) & 1).sum(axis=1)
    counted = np.array([1.0 / (size * comb(size - 1, k)) for k in range(size)])
    found = np.empty(size)
    for member in range(size):
        without = groups[(groups >> member) & 1 == 0]
        found[member] = counted[sizes[without]] @ (values[without | 1 << member] - values[without])
    return found


def _distance(outcome: Outcome, target: FloatArray, kept: Any, limits: FloatArray) -> tuple[float, float, list[Any]]:
    """How far utilities are at most from the nearest point, what a kept group or a budget lacks, and who binds."""
    from scipy.optimize import nnls  # noqa: PLC0415 - heavy, and only for divisions

    x, tols = outcome.utilities, outcome.tolerances
    slack = kept @ x - limits
    spare = outcome.payments + outcome.federation.budgets
    rows = np.concatenate([kept[np.abs(slack) <= kept @ tols] * 1.0, np.eye(x.size)[spare <= tols]])
    flat = rows - rows.mean(axis=1, keepdims=True)
    away = (x - target) - (x - target).mean()
    multipliers = nnls(flat.T, away)[0] if len(flat) else np.zeros(0)
    remainder = float(np.linalg.norm(away - flat.T @ multipliers)) if len(flat) else float(np.linalg.norm(away))
    lacking = max(float((-slack).max()), float((-spare).max()), 0.0)
    return remainder, lacking, list(rows[multipliers > tols.max()] > 0)


def _in_order(groups: GroupProfiles) -> FloatArray:
    """Profiles of all groups, by the index whose bits say who is in it."""
    index = groups.members @ (1 << np.arange(groups.members.shape[1]))
    found = np.zeros((1 << groups.members.shape[1], groups.contributions.shape[1]))
    found[index] = groups.contributions
    return found

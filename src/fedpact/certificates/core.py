"""Does a group gain by leaving together? Bounds from prices, and groups looked at one by one.

A group X that leaves reaches v(X) by itself: its members' data, its members' payoffs. At any profile let
m_i = a_i'(xi_i) be what reach is worth to i. Payoffs are concave, so for every profile t of the group alone

    sum_{i in X} [a_i(t) - c_i(t_i)] <= sum_{i in X} b_i(X),
    b_i(X) = a_i - m_i (xi_i - 1) + h_i(sum_{k in X} m_k w_ki),

where h_i(g) = max over 0 <= t <= cap_i of g t - c_i(t), which rises with g. In no group does a sample of i's earn more
than g_i = sum_k m_k max(w_ki, 0) over everybody. So

    v(X) - U(X) <= sum_{i in X} d_i,     d_i = a_i - m_i (xi_i - 1) + h_i(g_i) - U_i,

whatever the group: if no d_i is positive, no group gains. At the social optimum with weights >= 0, d_i is what the
Externality mechanism gives i less U_i; so that mechanism is in the core. Any profile gives valid bounds. They cost as
much as a product with the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.certificates import Certificate, CertifiedOutcome
from fedpact.certificates.claims import Claim, Verdict
from fedpact.certificates.deviations import isolation
from fedpact.certificates.optimality import best_at_prices, better_profile, sales
from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.lots import SHARED_CAP_ROUNDING
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

BoolArray = NDArray[np.bool_]

SOME_GROUPS = "some groups"  # the scope of a certificate that has not looked at all
MAX_AGENTS_ALWAYS_LISTED = 10  # all their groups take milliseconds, even if one that gains is known
# How the loss of those that a group leaves behind, which it does not feel, is split between the two sides.
BORDER_SPLITS = (0.0, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupProfiles:
    """Groups, (groups, n), and what they would contribute by themselves, (groups, lots); from wherever they come."""

    members: BoolArray
    contributions: FloatArray

    @property
    def is_complete(self) -> bool:
        """Whether every group but the empty one is there."""
        n_agents = self.members.shape[1]
        codes = np.unique(self.members @ (1 << np.arange(n_agents, dtype=np.int64)))
        return int((codes > 0).sum()) == (1 << n_agents) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupGains:
    """What each of some groups gains by leaving, (groups,): at least `gains`, at its profile, and at most `bounds`."""

    gains: FloatArray
    bounds: FloatArray


def member_bounds(
    federation: Federation, utilities: FloatArray, contributions: FloatArray, *, upper: FloatArray | None = None
) -> FloatArray:
    """d_i at the prices of a profile: no group gains more than its members' d_i together.

    Infinite where the profile is not admissible, and so has no prices. `upper` is a box that holds the best profile of
    every group, if one is known.
    """
    data = federation.data(contributions)
    if not (data > federation.payoff.floor).all():
        return np.full(federation.n_agents, np.inf)
    slopes = federation.values * federation.payoff.slope(data)
    surplus = federation.values * federation.payoff.value(data) - slopes * data
    earned = np.asarray(federation.positive_weights().T @ slopes)
    upper = contribution_bounds(federation)[0] if upper is None else upper
    if federation.has_lots:
        sold = federation.per_agent_from_lots(sales(federation, earned, upper))
        return np.asarray(federation.per_agent_from_tasks(surplus) + sold - utilities)
    best = best_at_prices(federation, earned, upper)
    return np.asarray(surplus + earned * best - federation.costs.value(best) - utilities)


def largest_gain_bound(federation: Federation, utilities: FloatArray, contributions: FloatArray) -> float:
    """No group gains more than this.

    The positive d_i together. Where data harms there is a second bound: a group with j but not with k is spared the
    harm of j's data to k, t_j m_k |w_kj| at most, which counts in part for taking in j and in part for leaving out k.
    """
    bounds = member_bounds(federation, utilities, contributions)
    lowest = float(np.maximum(bounds, 0.0).sum())
    if not federation.has_harm:
        return lowest
    upper, slopes = contribution_bounds(federation)[0], federation.marginal_payoffs(contributions)
    surplus = federation.task_payoffs(contributions) - slopes * federation.data(contributions)
    earned, harm = np.asarray(federation.weights.T @ slopes), -federation.negative_weights()
    if federation.shared_caps:
        sold = federation.per_agent_from_lots(sales(federation, earned, upper))
        plain = federation.per_agent_from_tasks(surplus) + sold - utilities
    else:
        net = best_at_prices(federation, earned, upper)
        bought, spent = (federation.per_agent_from_lots(part) for part in (earned * net, federation.costs.value(net)))
        plain = federation.per_agent_from_tasks(surplus) + bought - spent - utilities
    most = best_at_prices(federation, np.asarray(federation.positive_weights().T @ slopes), upper)
    giving = federation.per_agent_from_lots(most * np.asarray(harm.T @ slopes))
    suffering = federation.per_agent_from_tasks(slopes * np.asarray(harm @ most))
    for split in BORDER_SPLITS:
        lowest = min(lowest, float(np.maximum(plain + split * giving, (1.0 - split) * suffering).sum()))
    return lowest


def group_gains(federation: Federation, utilities: FloatArray, groups: GroupProfiles) -> GroupGains:
    """What groups gain at their profiles, and at most: b_i(X) of every group at its own profile's prices."""
    weights = federation.weights
    lots, tasks = groups.members[:, federation.lot_owners], groups.members[:, federation.task_owners]
    profiles = np.where(lots, groups.contributions, 0.0)
    data = np.asarray((weights @ profiles.T).T)
    floor = np.broadcast_to(federation.payoff.floor, data.shape)
    within = ((profiles >= 0) & (profiles <= federation.caps)) | ~lots
    for shared in federation.shared_caps:
        own = list(shared.lots)
        within[:, own[0]] &= profiles[:, own].sum(axis=1) <= shared.cap * (1.0 + SHARED_CAP_ROUNDING)
    admissible = np.asarray(((data > floor) | ~tasks).all(axis=1) & within.all(axis=1))
    data = np.where(tasks & admissible[:, None], data, 0.0)
    payoffs = np.where(tasks, federation.values * federation.payoff.value(data), 0.0)
    slopes = np.where(tasks, federation.values * federation.payoff.slope(data), 0.0)
    earned = np.asarray((weights.T @ slopes.T).T)
    upper = contribution_bounds(federation)[0]
    has = groups.members @ utilities
    gains = payoffs.sum(axis=1) - federation.costs.value(profiles).sum(axis=1) - has
    if federation.has_lots:
        surplus, sold = payoffs - slopes * data, np.where(lots, sales(federation, earned, upper), 0.0)
        bounds = surplus.sum(axis=1) + sold.sum(axis=1) - has
    else:
        best = np.where(lots, best_at_prices(federation, earned, upper), 0.0)
        bounds = (payoffs - slopes * data + earned * best - federation.costs.value(best)).sum(axis=1) - has
    return GroupGains(gains=np.where(admissible, gains, -np.inf), bounds=np.where(admissible, bounds, np.inf))


def group_utilities(federation: Federation, members: BoolArray, contributions: FloatArray) -> FloatArray:
    """Payoffs less costs of a group's members by themselves at a profile of everybody's lots, in their order."""
    if not federation.has_lots:
        alone, profile = federation.take(members), contributions[members]
        return np.asarray(alone.payoffs(profile) - alone.costs.value(profile))
    brought = np.where(members[federation.lot_owners], contributions, 0.0)
    data = np.where(members[federation.task_owners], federation.data(brought), 0.0)
    worth = federation.per_agent_from_tasks(federation.values * federation.payoff.value(data))
    return np.asarray(worth - federation.spending(brought))[members]


def group_contributions(federation: Federation, members: BoolArray, contributions: FloatArray) -> dict[str, float]:
    """What a group brings, by its members' names, or by lot where they have several."""
    brought = np.flatnonzero(members[federation.lot_owners])
    return {federation.lot_labels[lot]: float(contributions[lot]) for lot in brought}


def certify_core(outcome: CertifiedOutcome, optimum: Callable[[], FloatArray]) -> Certificate:
    """No group does better by leaving together; `optimum` gives the best profile of everybody, if it is needed.

    Prices prove it where they can, at this profile or at the optimum. Otherwise groups are looked at: all of them if
    they are few; else everybody, the member that gains most alone and those the prices point at, and then what the
    outcome hands over, which is all groups as long as they can be listed.
    """
    federation, tols = outcome.federation, outcome.tolerances
    bounds = member_bounds(federation, outcome.utilities, outcome.contributions)
    if (bounds <= tols).all():
        return _core_by_prices(outcome, bounds, tols)
    best = optimum()
    bounds = member_bounds(federation, outcome.utilities, best)
    if (bounds <= tols).all():
        return _core_by_prices(outcome, bounds, tols)
    most = largest_gain_bound(federation, outcome.utilities, best)
    if federation.n_agents > MAX_AGENTS_ALWAYS_LISTED:
        found = _core_by_groups(outcome, _likely_groups(federation, outcome.utilities, best, bounds), tols, most)
        if found.verdict is Verdict.VIOLATED:
            return found
    return _core_by_groups(outcome, _listed_groups(outcome, best, bounds), tols, most)


def _listed_groups(outcome: CertifiedOutcome, best: FloatArray, bounds: FloatArray) -> GroupProfiles:
    """The groups that the outcome hands over; the likely ones where it cannot solve one of them."""
    try:
        return outcome.group_profiles
    except NotConverged:
        return _likely_groups(outcome.federation, outcome.utilities, best, bounds)


def _core_by_prices(outcome: CertifiedOutcome, bounds: FloatArray, tols: FloatArray) -> Certificate:
    positive = bounds > 0
    most, tol = (bounds[positive].sum(), tols.sum()) if positive.any() else (bounds.max(), tols[np.argmax(bounds)])
    agent = int(np.argmax(bounds / tols))
    witness = {"agent": outcome.federation.names[agent], "index": agent} | {
        "utility": float(outcome.utilities[agent]),
        "most_in_any_group": float(outcome.utilities[agent] + bounds[agent]),
        "gain_upper_bound": float(most),
    }
    return Certificate.judge(Claim.CORE, -float(most), float(tol), "all groups, by prices", witness)


def _likely_groups(
    federation: Federation, utilities: FloatArray, best: FloatArray, bounds: FloatArray
) -> GroupProfiles:
    """Groups that may well gain: everybody, the member that gains most alone, those with positive bounds."""
    everybody, alone = np.ones(federation.n_agents, dtype=bool), isolation(federation, best)
    one = np.arange(federation.n_agents) == np.argmax(alone.utilities - utilities)
    groups, profiles = [everybody, one], [best, alone.actions]
    some = bounds > 0
    lots, tasks = some[federation.lot_owners], some[federation.task_owners]
    if not some.all() and lots.any() and tasks.any():
        profile = np.zeros(federation.n_lots)
        taken = np.flatnonzero(lots)[np.argsort(federation.lot_owners[lots], kind="stable")]
        profile[taken] = better_profile(federation.take(some), best[taken])
        groups, profiles = [*groups, some], [*profiles, profile]
    return GroupProfiles(members=np.array(groups), contributions=np.array(profiles))


def _core_by_groups(
    outcome: CertifiedOutcome, groups: GroupProfiles, tols: FloatArray, otherwise: float
) -> Certificate:
    """From groups one by one: the largest gain beyond rounding, or else the largest; `otherwise` bounds all groups."""
    federation, names = outcome.federation, np.array(outcome.federation.names, dtype=object)
    found, rounding = group_gains(federation, outcome.utilities, groups), groups.members @ tols
    beyond = (found.gains > rounding) & groups.members.any(axis=1)
    wanted = beyond if beyond.any() else groups.members.any(axis=1)
    place = int(np.argmax(np.where(wanted, found.gains, -np.inf)))
    complete = groups.is_complete
    proven = complete and bool((found.bounds <= rounding).all())
    members, profile = groups.members[place], groups.contributions[place]
    would_have = group_utilities(federation, members, profile)
    witness = {
        "group": names[members].tolist(),
        "gain": float(found.gains[place]),
        "utilities": dict(zip(names[members], outcome.utilities[members].tolist(), strict=True)),
        "group_utilities": dict(zip(names[members], would_have.tolist(), strict=True)),
        "group_contributions": group_contributions(federation, members, profile),
        "gain_upper_bound": float(found.bounds[groups.members.any(axis=1)].max()) if complete else otherwise,
    }
    scope = f"all {len(beyond) - 1} groups" if complete else SOME_GROUPS
    margin, tol = -float(found.gains[place]), float(rounding[place])
    return Certificate.judge(Claim.CORE, margin, tol, scope, witness, proven=proven)

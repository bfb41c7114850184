"""Who should be in a federation, who would leave its deal, and who stays once leaving is followed through.

**Who should be in**: the members whose federation, with everybody else alone, leaves most to all. A federation of X is
worth W*(X) - F(X), its best welfare less what joining costs its members; the others have what they have alone. With no
harm and no joining costs everybody in is best: a member that is taken in can contribute nothing and use what there is.
Otherwise all sets of up to 16 members are tried; of up to 64, members are taken in and left out one at a time, for as
long as that helps. No set is worth more than everybody together would be with models that leave out what harms them,
joining for nothing.

**Groups.** A group that leaves trains on its own members' data. It gains if its members can reach more in total than
the deal gives them; how they share it is up to them. A deal that no group gains by leaving is in the core. The least
core (Maschler, Peleg and Shapley 1979) are the divisions x of v(N) under which the smallest x(X) - v(X) of all proper
groups, the *level*, is as large as can be: how much every group could lose before one is better off by itself. Below
zero no division keeps all groups. The division given is the nucleolus, which is one of them.

**Departures.** The paper's simulations keep everybody in whatever the gap; here leaving is played until nobody wants
to. Agents leave alone, all dissatisfied ones at once or the one with the largest loss first. Or groups leave: the one
that gains most by leaving together, a single agent or several but not everybody, goes first; it makes a federation of
its own, whose members have what is best for them in total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedpact.deals import Deal
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation, require_federation
from fedpact.federation.splitting import agent_index
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.solvers.groups import (
    MAX_LISTED_AGENTS,
    MAX_SEARCHED_AGENTS,
    BoolArray,
    KnownGroups,
    all_groups,
    group_optima,
    most_gained,
    standalone_optimum,
)
from fedpact.solvers.nucleolus import LeastCore, nucleolus
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import join_names

TIE_TOLERANCE = 1e-12  # of the largest: sets that are worth alike
EXACT_TOLERANCE = 1e-9  # of the same


@dataclass(frozen=True, kw_only=True, eq=False)
class BestMembers:
    """The set of members that should federate.

    Attributes
    ----------
    members
        Their names; none where nobody should federate. Of sets that are worth alike the largest.
    welfare
        What all members have together if these federate and the others stay alone.
    welfare_all
        The same with everybody in.
    welfare_alone
        The same with everybody alone.
    adds, costs
        For everybody left out, by name: what taking it in would add, before its joining costs, and these.
    upper_bound
        No set is worth more.
    exact
        Whether the set is known to be the best.
    """

    members: tuple[str, ...]
    welfare: float
    welfare_all: float
    welfare_alone: float
    adds: Mapping[str, float]
    costs: Mapping[str, float]
    upper_bound: float
    exact: bool


def best_members(federation: Federation) -> BestMembers:
    """The members whose federation leaves most to all together.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> weights = [[1.0, 1.2, 0.1], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]]
    >>> federation = Federation(weights, costs=0.001, caps=40.0, payoff=PowerLaw(beta=0.2), joining_costs=0.05)
    >>> best_members(federation).members
    ('agent 0', 'agent 1')
    """
    require_federation(federation)
    size, alone = federation.n_agents, standalone_optimum(federation)[1]
    free = not (federation.has_harm or federation.joining_costs.any())

    def worth(groups: BoolArray) -> FloatArray:
        return _worth(federation, groups, alone)

    everybody = np.ones((1, size), dtype=np.bool_)
    if size <= MAX_LISTED_AGENTS:
        totals = group_optima(federation).values
        best, welfare_all = best_groups(size, totals[None])[0], float(totals[-1])
    else:
        if not free and size > MAX_SEARCHED_AGENTS:
            rule = f"must have at most {MAX_SEARCHED_AGENTS} members where data harms or joining costs"
            raise InvalidInput(field="federation", rule=rule, value=size, given=f", got {size}; ask about a part")
        welfare_all = float(worth(everybody)[0])
        best = everybody[0] if free else _climb(federation, everybody[0], alone)
    apart = float(alone.sum())
    welfare = float(worth(best[None])[0]) if best.any() else apart
    if best.sum() < 2 or welfare <= apart + EXACT_TOLERANCE * abs(apart):
        best, welfare = np.zeros(size, dtype=np.bool_), apart
    out = np.flatnonzero(~best)
    costs = federation.joining_costs
    taken_in = best | np.eye(size, dtype=np.bool_)[out]
    adds = worth(taken_in) - welfare + costs[out] if best.any() else np.zeros(out.size)
    bound = welfare
    if size > MAX_LISTED_AGENTS and not free:
        bound = max(welfare, apart, social_optimum(federation.with_personal_models()).welfare)
    return BestMembers(
        members=tuple(federation.names[agent] for agent in np.flatnonzero(best)),
        welfare=welfare,
        welfare_all=welfare_all,
        welfare_alone=apart,
        adds={federation.names[agent]: float(added) for agent, added in zip(out.tolist(), adds, strict=True)},
        costs={federation.names[agent]: float(costs[agent]) for agent in out.tolist()},
        upper_bound=bound,
        exact=bound <= welfare + EXACT_TOLERANCE * abs(welfare),
    )


def _worth(federation: Federation, groups: BoolArray, alone: FloatArray) -> FloatArray:
    """What all have if a group federates and the others stay alone, (groups,)."""
    return np.asarray(group_optima(federation, groups).values + ~groups @ alone)


def best_groups(size: int, totals: FloatArray) -> BoolArray:
    """(federations, n): who should be in, from what every group reaches by itself, (federations, 2^n); perhaps nobody.

    The group of most members among those worth most, with what the others have alone.
    """
    groups = all_groups(size)
    alone = totals[:, 1 << np.arange(size)]
    values = totals + alone @ ~groups.T
    near = values >= values.max(axis=1, keepdims=True) - TIE_TOLERANCE * np.abs(values).max(axis=1, keepdims=True)
    best = groups[np.where(near, groups.sum(axis=1), -1).argmax(axis=1)]
    apart = alone.sum(axis=1)
    more = values.max(axis=1) > apart + EXACT_TOLERANCE * np.abs(apart)
    return np.asarray(best & (more & (best.sum(axis=1) > 1))[:, None])


def _climb(federation: Federation, start: BoolArray, alone: FloatArray) -> BoolArray:
    """One member taken in or left out at a time, whatever helps most, until nothing does."""
    here, one = start, np.eye(start.size, dtype=np.bool_)
    while True:
        tried = np.concatenate([here[None], here ^ one])
        values = _worth(federation, tried, alone)
        if values.max() <= values[0] + TIE_TOLERANCE * np.abs(values).max():
            return here
        here = tried[int(np.argmax(values))]


ORDERS = ("all", "worst", "groups")
MAX_NAMES_LISTED = 20  # in an error
BRACKET_TOLERANCE = 1e-6  # of what all can reach together: a bracket so narrow is closed


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockingGroup:
    """The group that gains most by leaving a deal, as far as it is known; or the one that was asked about.

    Attributes
    ----------
    group
        Names of its members; the worst group also where it gains nothing.
    gain
        What they gain together by leaving, in units of payoff; zero or less where no group was found that gains.
    upper_bound, exact
        No group gains more than this, and whether the bound is met but for rounding; of a group that was asked about,
        its own gain.
    blocks
        Whether it gains more than rounding: then the deal is not in the core.
    utilities, group_utilities
        By name, what each member has under the deal, and its payoff less its cost in the group, before payments there.
    """

    group: tuple[str, ...]
    gain: float
    upper_bound: float
    exact: bool
    blocks: bool
    utilities: Mapping[str, float]
    group_utilities: Mapping[str, float]


def blocking_group(
    outcome: Outcome, *, group: Sequence[str | int] | None = None, proper: bool = False
) -> BlockingGroup:
    """The group that gains most by leaving a deal: exact up to 16 members, beyond that a bracket.

    Given a `group`, names or numbers of members, it is about that one only. With `proper` somebody must stay behind:
    then everybody together is no group to look at.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, ShapleyMechanism
    >>> weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    >>> federation = Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> outcome = ShapleyMechanism().solve(federation)
    >>> found = blocking_group(outcome)
    >>> found.group, round(found.gain, 4), found.exact
    (('agent 0', 'agent 1', 'agent 2'), 0.0133, True)
    >>> round(blocking_group(outcome, group=["agent 0", "agent 2"]).gain, 4)
    -0.0059
    """
    if not isinstance(outcome, Outcome):
        rule = "must be a deal, as fp.ExternalityMechanism().solve(federation) makes one"
        raise InvalidInput(field="outcome", rule=rule, value=outcome, given=f", got {type(outcome).__name__}")
    federation, arrays, utilities = outcome.federation, outcome.arrays, outcome.utilities
    if group is not None:
        best = group_optima(federation, _membership(federation, group)[None, :])
        gain = upper_bound = float(best.gains(utilities)[0])
        exact = True
    else:
        known = KnownGroups(federation)
        best, upper_bound = known.worst(utilities, proper=proper)
        gain = float(best.gains(utilities)[0])
        exact = known.all_listed or upper_bound - gain <= BRACKET_TOLERANCE * known.scale
        if not exact and federation.admits(outcome.contributions):
            upper_bound = max(gain, min(upper_bound, most_gained(federation, utilities, outcome.contributions)))
    members, contributions = best.members[0], best.contributions[0]
    names = [federation.names[agent] for agent in np.flatnonzero(members)]
    joining = arrays.joining_costs * (members.sum() > 1)
    would_have = (arrays.payoffs(contributions) - arrays.spending(contributions) - joining)[members]
    return BlockingGroup(
        group=tuple(names),
        gain=gain,
        upper_bound=upper_bound,
        exact=exact,
        blocks=bool(gain > outcome.tolerances[members].sum()),
        utilities=dict(zip(names, utilities[members].tolist(), strict=True)),
        group_utilities=dict(zip(names, would_have.tolist(), strict=True)),
    )


def _membership(federation: Federation, group: Sequence[str | int]) -> BoolArray:
    """(n,): who is in a group given by names or numbers."""
    given = [group] if isinstance(group, str | int) else list(group)
    known = [each for each in given if each in federation.names or not isinstance(each, str)]
    indices = {agent_index(federation, each) for each in known}
    if not given or len(indices) < len(given):
        names = join_names(federation.names, most=MAX_NAMES_LISTED)
        rule = f"must name one or more of the members, each once: {names}"
        raise InvalidInput(field="group", rule=rule, value=given)
    return np.isin(np.arange(federation.n_agents), list(indices))


def least_core(federation: Federation) -> LeastCore:
    """How much every group has beyond what it reaches by itself, at best: of two to 16 members.

    Examples
    --------
    >>> from fedpact import load_scenario
    >>> least_core(load_scenario("hospitals").federation).level > 0
    True
    """
    require_federation(federation)
    size = federation.n_agents
    if not 2 <= size <= MAX_LISTED_AGENTS:
        rule = f"must have two to {MAX_LISTED_AGENTS} members"
        given = f", got {size}: the least core needs all 2^n groups, and somebody who can leave"
        raise InvalidInput(field="federation", rule=rule, value=size, given=given)
    return nucleolus(KnownGroups(federation))


@dataclass(frozen=True, kw_only=True, eq=False)
class Departure:
    """One round of leaving: the deal on the table, who leaves it, and the endowments that would have kept them.

    `gain` is what those who leave gain by it, in total. A group is kept if each of its members has what it lacks to be
    as well off as alone, and all of them together their gain: what is left of that is shared out equally.
    """

    outcome: Outcome
    leavers: Sequence[str]
    endowments: FloatArray
    gain: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StableFederation:
    """Where leaving ends.

    Attributes
    ----------
    members, outcome
        Those who stay, perhaps nobody, and their deal; None if everybody left.
    departures
        The rounds, first to last.
    welfare_all_stay, welfare
        Of the first deal, everybody in; of the members' deal plus what those who left have, each alone or in the group
        it left with.
    """

    members: Sequence[str]
    outcome: Outcome | None
    departures: Sequence[Departure]
    welfare_all_stay: float
    welfare: float

    @property
    def leavers(self) -> Sequence[str]:
        """Everybody who left, in order."""
        return tuple(name for departure in self.departures for name in departure.leavers)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each of them left, by name."""
        alone = "it is better off alone"
        return {
            name: alone if name in each.outcome.leavers else f"{join_names(each.leavers)} are better off together"
            for each in self.departures
            for name in each.leavers
        }

    @property
    def deal(self) -> Deal | None:
        """The members' deal, which says who left and why; None if everybody left."""
        return None if self.outcome is None else replace(self.outcome.deal, excluded=self.reasons)

    @property
    def endowment_to_keep_all(self) -> float:
        """What it would have cost to keep everybody in the first deal; where groups leave, at least."""
        return float(self.departures[0].endowments.sum()) if self.departures else 0.0

    def __repr__(self) -> str:
        from fedpact.report.records import stable_federation_line  # noqa: PLC0415 - imports go one way

        return stable_federation_line(self)


def stable_federation(
    federation: Federation, mechanism: Mechanism | str, *, leave: str = "all", first: Outcome | None = None
) -> StableFederation:
    """Let dissatisfied agents leave, and the rest deal anew by the mechanism, until nobody wants to.

    Parameters
    ----------
    leave
        "all" dissatisfied agents at once, the "worst" off first, or "groups": in each round the group that gains most
        by leaving together.
    first
        The deal with everybody in, if it is known already.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> stable_federation(homogeneous, "externality").members
    ('agent 0', 'agent 1', 'agent 2')
    """
    if leave not in ORDERS:
        raise InvalidInput(f"leave must be one of {', '.join(ORDERS)}, got {leave!r}")
    rules = resolve_mechanism(mechanism)
    start = first or rules.solve(federation)
    outcome: Outcome | None = start
    elsewhere, departures = 0.0, list[Departure]()
    while outcome is not None and (departure := _next_departure(outcome, leave)) is not None:
        departures.append(departure)
        going = np.isin(outcome.agents, departure.leavers)
        elsewhere += float(outcome.utilities[going].sum()) + departure.gain
        left = outcome.federation
        can_share = not (going[left.lot_owners].all() or going[left.task_owners].all())
        outcome = rules.solve(left.take(~going)) if can_share else None
    return StableFederation(
        members=outcome.agents if outcome is not None else (),
        outcome=outcome,
        departures=tuple(departures),
        welfare_all_stay=start.welfare,
        welfare=elsewhere + (outcome.welfare if outcome is not None else 0.0),
    )


def _next_departure(outcome: Outcome, leave: str) -> Departure | None:
    """Who leaves a deal next; None if everybody stays."""
    if leave == "groups" and len(outcome.agents) > 1:
        found = blocking_group(outcome, proper=True)
        if not found.blocks:
            return None
        going = np.isin(outcome.agents, found.group)
        lacking = np.where(going, outcome.endowments, 0.0)
        # Members whose data harms one another may lack more alone than they gain together: then it takes that.
        rest = max(found.gain - float(lacking.sum()), 0.0)
        endowments = np.asarray(lacking + going * rest / going.sum())
        return Departure(outcome=outcome, leavers=found.group, endowments=endowments, gain=found.gain)
    going = outcome.would_leave
    if not going.any():
        return None
    if leave == "worst":
        going = np.arange(going.size) == int(np.argmin(np.where(going, outcome.ir_gaps, np.inf)))
    leavers = tuple(name for name, goes in zip(outcome.agents, going, strict=True) if goes)
    gain = -float(outcome.ir_gaps[going].sum())
    return Departure(outcome=outcome, leavers=leavers, endowments=outcome.endowments, gain=gain)

"""Who would leave a deal, alone or in groups, and who stays once leaving is followed through.

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
from fedpact.federation import Federation
from fedpact.federation.splitting import agent_index
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.solvers.groups import MAX_LISTED_AGENTS, BoolArray, KnownGroups, group_optima, most_gained
from fedpact.solvers.nucleolus import LeastCore, nucleolus
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import join_names

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

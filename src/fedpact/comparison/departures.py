"""Who stays: agents that would do better alone leave, the rest make a new deal, until nobody wants to leave.

The paper's simulations keep everybody in whatever the gap; here leaving is followed through. Agents leave alone, all
dissatisfied ones at once or the one with the largest loss first. Or groups leave: the one that gains most by leaving
together, a single agent or several but not everybody, goes first; it makes a federation of its own, whose members
have what is best for them in total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedpact.comparison.groups import blocking_group
from fedpact.deals import Deal
from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import join_names

ORDERS = ("all", "worst", "groups")


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
    members
        Names of those who stay, perhaps none.
    outcome
        Their deal; None if everybody left.
    departures
        The rounds, first to last.
    welfare_all_stay
        Welfare of the first deal, everybody in.
    welfare
        Welfare of the members' deal plus what those who left have, each alone or in the group it left with.
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
        from fedpact.report.display import stable_federation_line  # noqa: PLC0415 - imports go one way

        return stable_federation_line(self)


def stable_federation(
    federation: Federation,
    mechanism: Mechanism | str,
    *,
    leave: str = "all",
    first: Outcome | None = None,
) -> StableFederation:
    """Let dissatisfied agents leave until nobody wants to.

    Parameters
    ----------
    federation, mechanism
        The instance, and the rules every coalition in turn deals by, as an object or by name.
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
    outcome: Outcome | None = first or rules.solve(federation)
    assert outcome is not None
    all_stay, elsewhere = outcome.welfare, 0.0
    departures: list[Departure] = []
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
        welfare_all_stay=all_stay,
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
    if not outcome.leavers:
        return None
    going = np.isin(outcome.agents, outcome.leavers)
    if leave == "worst":
        going = np.arange(going.size) == int(np.argmin(np.where(going, outcome.ir_gaps, np.inf)))
    leavers = tuple(name for name, goes in zip(outcome.agents, going, strict=True) if goes)
    gain = -float(outcome.ir_gaps[going].sum())
    return Departure(outcome=outcome, leavers=leavers, endowments=outcome.endowments, gain=gain)

"""Who stays: agents that would do better alone leave, the rest make a new deal, until nobody wants to leave.

The paper's simulations keep everybody in whatever the gap; here leaving is followed through. Two orders are offered:
all dissatisfied agents leave at once, or the one with the largest loss leaves first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.deals import Outcome
from fedpact.federation import Federation
from fedpact.mechanisms import Mechanism, resolve_mechanism
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

ORDERS = ("all", "worst")


@dataclass(frozen=True, kw_only=True, eq=False)
class Departure:
    """One round of leaving: the deal on the table, who leaves it, and the endowments that would have kept them."""

    outcome: Outcome
    leavers: Sequence[str]
    endowments: FloatArray


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
        Welfare of the members' deal plus the standalone utilities of those who left.
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
    def endowment_to_keep_all(self) -> float:
        """What it would have cost to keep everybody in the first deal."""
        return float(self.departures[0].endowments.sum()) if self.departures else 0.0

    def __repr__(self) -> str:
        from fedpact.report.display import stable_federation_line  # noqa: PLC0415 - imports go one way

        return stable_federation_line(self)


def stable_federation(
    federation: Federation, mechanism: Mechanism | str, *, leave: str = "all", first: Outcome | None = None
) -> StableFederation:
    """Let dissatisfied agents leave until nobody wants to.

    Parameters
    ----------
    federation, mechanism
        The instance, and the rules every coalition in turn deals by, as an object or by name.
    leave
        "all" dissatisfied agents at once, or the "worst" off first.
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
    members = np.arange(federation.n_agents)
    outcome: Outcome | None = first or rules.solve(federation)
    assert outcome is not None
    all_stay, standalone = outcome.welfare, outcome.standalone
    departures: list[Departure] = []
    while outcome is not None and outcome.leavers:
        going = np.isin(outcome.agents, outcome.leavers)
        if leave == "worst":
            going = np.arange(members.size) == int(np.argmin(np.where(going, outcome.ir_gaps, np.inf)))
        leavers = tuple(name for name, goes in zip(outcome.agents, going, strict=True) if goes)
        departures.append(Departure(outcome=outcome, leavers=leavers, endowments=outcome.endowments))
        members = members[~going]
        outcome = rules.solve(federation.take(members)) if members.size else None
    gone = np.setdiff1d(np.arange(federation.n_agents), members)
    inside = outcome.welfare if outcome is not None else 0.0
    return StableFederation(
        members=outcome.agents if outcome is not None else (),
        outcome=outcome,
        departures=tuple(departures),
        welfare_all_stay=all_stay,
        welfare=float(inside + standalone[gone].sum()),
    )

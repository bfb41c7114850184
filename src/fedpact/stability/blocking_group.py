"""Which group would gain most by leaving a deal together, and what each of its members would have.

A group that leaves trains on its own members' data. It gains if its members can reach more in total than the deal gives
them; how they share it is up to them. A deal that no group gains by leaving is in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedpact.certificates.core import largest_gain_bound
from fedpact.certificates.tolerances import outcome_tolerances
from fedpact.deals import Outcome
from fedpact.programs.worst_group import DEFAULT_TIME_LIMIT, worst_group


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockingGroup:
    """The group that gains most by leaving a deal, as far as it is known.

    Attributes
    ----------
    group
        Names of its members; the worst group also where it gains nothing.
    gain
        What they gain together by leaving, in units of payoff; zero or less where no group was found that gains.
    upper_bound
        No group gains more than this.
    exact
        Whether no group gains more than this one, but for rounding.
    blocks
        Whether it gains more than rounding: then the deal is not in the core.
    utilities, group_utilities
        By name, what each member has under the deal, and its payoff less its cost in the group, before payments there.
    group_contributions
        By name, what each member would contribute.
    method
        How it was found, in words.
    """

    group: tuple[str, ...]
    gain: float
    upper_bound: float
    exact: bool
    blocks: bool
    utilities: Mapping[str, float]
    group_utilities: Mapping[str, float]
    group_contributions: Mapping[str, float]
    method: str


def blocking_group(
    outcome: Outcome,
    *,
    proper: bool = False,
    time_limit: float = DEFAULT_TIME_LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> BlockingGroup:
    """The group that gains most by leaving a deal: exact up to 16 members, beyond that a bracket.

    Parameters
    ----------
    outcome
        The deal, with its federation.
    proper
        Whether somebody must stay behind: then everybody together is no group.
    time_limit
        Seconds after which a search among more than 16 members ends with the bracket it has.
    progress
        Called with how much is done, and how much there is to do as far as that is known.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw, ShapleyMechanism
    >>> weights = [[1.0, 1.2, 0.4], [0.5, 1.0, 3.0], [1.4, 0.8, 1.0]]
    >>> federation = Federation(weights, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> found = blocking_group(ShapleyMechanism().solve(federation))
    >>> found.group, round(found.gain, 4), found.exact
    (('agent 0', 'agent 1', 'agent 2'), 0.0133, True)
    """
    federation = outcome.federation
    found = worst_group(federation, outcome.utilities, proper=proper, time_limit=time_limit, progress=progress)
    upper_bound = found.upper_bound
    if not found.exact and federation.admits(outcome.contributions):
        upper_bound = min(upper_bound, largest_gain_bound(federation, outcome.utilities, outcome.contributions))
    members, profile = found.members, found.contributions[found.members]
    names = tuple(name for name, inside in zip(federation.names, members, strict=True) if inside)
    alone = federation.take(members)
    would_have = alone.payoffs(profile) - alone.costs.value(profile)
    return BlockingGroup(
        group=names,
        gain=found.gain,
        upper_bound=max(upper_bound, found.gain),
        exact=found.exact,
        blocks=bool(found.gain > outcome_tolerances(outcome)[members].sum()),
        utilities=dict(zip(names, np.asarray(outcome.utilities)[members].tolist(), strict=True)),
        group_utilities=dict(zip(names, would_have.tolist(), strict=True)),
        group_contributions=dict(zip(names, profile.tolist(), strict=True)),
        method=found.method,
    )

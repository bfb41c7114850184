"""Which group would gain most by leaving a deal together, or what a given one gains, and what its members would have.

A group that leaves trains on its own members' data. It gains if its members can reach more in total than the deal gives
them; how they share it is up to them. A deal that no group gains by leaving is in the core.

The least core (Maschler, Peleg and Shapley 1979) are the divisions x of v(N) under which the smallest x(X) - v(X) of
all proper groups, the *level*, is as large as can be: how much every group could lose before one is better off by
itself. Below zero no division keeps all groups. The division given is the nucleolus, which is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.deals.outcome import Outcome
from fedpact.federation import Federation
from fedpact.federation.splitting import agent_index
from fedpact.solvers.groups import (
    MAX_LISTED_AGENTS,
    BoolArray,
    KnownGroups,
    group_optima,
    most_gained,
)
from fedpact.solvers.nucleolus import LeastCore, nucleolus
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import join_names

MAX_NAMES_LISTED = 20  # in an error
BRACKET_TOLERANCE = 1e-6  # of what all can reach together: a bracket so narrow is closed
BY_SEARCH = "neighbouring groups, and a bound by prices"


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockingGroup:
    """The group that gains most by leaving a deal, as far as it is known; or the one that was asked about.

    Attributes
    ----------
    group
        Names of its members; the worst group also where it gains nothing.
    gain
        What they gain together by leaving, in units of payoff; zero or less where no group was found that gains.
    upper_bound
        No group gains more than this; of a group that was asked about, its own gain.
    exact
        Whether the bound is met, but for rounding.
    blocks
        Whether it gains more than rounding: then the deal is not in the core.
    utilities, group_utilities
        By name, what each member has under the deal, and its payoff less its cost in the group, before payments there.
    group_contributions
        By name, what each member would contribute; by lot where members have several.
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
    group: Sequence[str | int] | None = None,
    proper: bool = False,
) -> BlockingGroup:
    """The group that gains most by leaving a deal: exact up to 16 members, beyond that a bracket.

    Parameters
    ----------
    outcome
        The deal, with its federation.
    group
        Names or numbers of members, to ask what these gain by leaving together; no other group is looked at then.
    proper
        Whether somebody must stay behind: then everybody together is no group to look at.

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
    federation, arrays = outcome.federation, outcome.arrays
    utilities, method = outcome.utilities, "the group given, solved alone"
    if group is not None:
        best = group_optima(federation, _membership(federation, group)[None, :])
        upper_bound, exact = float(best.gains(utilities)[0]), True
    else:
        known = KnownGroups(federation)
        best, upper_bound = known.worst(utilities, proper=proper)
        gain = float(best.gains(utilities)[0])
        exact = known.all_listed or upper_bound - gain <= BRACKET_TOLERANCE * known.scale
        method = f"all {len(known.found.values) - proper} groups" if known.all_listed else BY_SEARCH
        if not exact and federation.admits(outcome.contributions):
            upper_bound = max(gain, min(upper_bound, most_gained(federation, utilities, outcome.contributions)))
    members, contributions, gain = best.members[0], best.contributions[0], float(best.gains(utilities)[0])
    names = [federation.names[agent] for agent in np.flatnonzero(members)]
    joining = arrays.joining_costs * (members.sum() > 1)
    would_have = (arrays.payoffs(contributions) - arrays.spending(contributions) - joining)[members]
    lots = np.flatnonzero(members[federation.lot_owners]).tolist()
    return BlockingGroup(
        group=tuple(names),
        gain=gain,
        upper_bound=upper_bound,
        exact=exact,
        blocks=bool(gain > outcome.tolerances[members].sum()),
        utilities=dict(zip(names, outcome.utilities[members].tolist(), strict=True)),
        group_utilities=dict(zip(names, would_have.tolist(), strict=True)),
        group_contributions={federation.lot_labels[lot]: float(contributions[lot]) for lot in lots},
        method=method,
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
    >>> from fedpact.scenario.examples import hospitals
    >>> least_core(hospitals().federation).level > 0
    True
    """
    size = federation.n_agents
    if not 2 <= size <= MAX_LISTED_AGENTS:
        rule = f"must have two to {MAX_LISTED_AGENTS} members"
        given = f", got {size}: the least core needs all 2^n groups, and somebody who can leave"
        raise InvalidInput(field="federation", rule=rule, value=size, given=given)
    return nucleolus(KnownGroups(federation))

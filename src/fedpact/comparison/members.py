"""Who should be in: the members whose federation, with everybody else alone, leaves most to all.

A federation of X is worth W*(X) - F(X), its best welfare less what joining costs its members; the others have what they
have alone. With no harm and no joining costs everybody in is best: a member that is taken in can contribute nothing and
use what there is. Otherwise all sets of up to 16 members are tried; of up to 64, members are taken in and left out one
at a time, for as long as that helps. No set is worth more than everybody together would be with models that leave out
what harms them, joining for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedpact.federation import Federation, require_federation
from fedpact.solvers.groups import (
    MAX_LISTED_AGENTS,
    MAX_SEARCHED_AGENTS,
    BoolArray,
    all_groups,
    group_optima,
    standalone_optimum,
)
from fedpact.solvers.welfare import social_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

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

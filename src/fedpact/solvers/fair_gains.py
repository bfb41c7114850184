"""The fair gain: the Shapley value of what groups reach by themselves, less what a member has alone.

With v(X) the most a group X reaches by itself (`fedpact.solvers.groups`), a member's fair gain is

    sum over groups X without i of |X|! (n - |X| - 1)! / n! (v(X with i) - v(X))  -  v({i}).

It shares out what federating brings, where reciprocity shares out everything, what each would have had alone included.
Without harm and joining costs no group loses by taking somebody in, so no fair gain is negative.

All groups are solved up to `MAX_LISTED_AGENTS` members. Up to `MAX_SEARCHED_AGENTS`, groups are sampled
(`fedpact.shapley.measured`) and fair gains have standard errors, the same for equals and whatever members are called;
among more they are not worked out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays, Owners
from fedpact.shapley.coalitions import size_coefficients, values_of_totals
from fedpact.shapley.measured import sample_game
from fedpact.solvers.groups import (
    MAX_LISTED_AGENTS,
    MAX_SEARCHED_AGENTS,
    all_groups,
    group_optima,
    group_welfare,
    remember,
)
from fedpact.utils.arrays import FloatArray

GROUPS_PER_MEMBER = 40  # that are sampled
EQUAL_TOLERANCE = 1e-9  # of the largest: what counts as the same in looking for equals


class FairGains(NamedTuple):
    """Fair gains and their standard errors, (..., members); errors of zero where all groups were solved."""

    values: FloatArray
    standard_errors: FloatArray


def fair_gains(federation: Federation) -> FairGains:
    """The fair gains of a federation; NaN among more than `MAX_SEARCHED_AGENTS` members.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> homogeneous = Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=PowerLaw(beta=0.02))
    >>> fair_gains(homogeneous).values.round(4).tolist()
    [0.0198, 0.0198, 0.0198]
    """
    size = federation.n_agents
    if size <= MAX_LISTED_AGENTS:
        values = fair_gains_of_totals(group_optima(federation).values[None], size)[0]
        return FairGains(values, np.zeros(size))
    if size > MAX_SEARCHED_AGENTS:
        return FairGains(np.full(size, np.nan), np.full(size, np.nan))
    return remember("fair gains", federation, lambda: _sampled_fair_gains(federation))


def _sampled_fair_gains(federation: Federation) -> FairGains:
    size = federation.n_agents
    alone = group_optima(federation, np.eye(size, dtype=np.bool_)).values
    order, classes = _order_without_names(federation, alone)

    def reach(groups: list[tuple[int, ...]]) -> FloatArray:
        members = np.array([np.isin(np.arange(size), order[list(group)]) for group in groups])
        return group_optima(federation, members).values - members @ alone  # what they have alone would only add noise

    found = sample_game(reach, size, budget=GROUPS_PER_MEMBER * size, rng=0, batch=True)
    values, errors = np.empty(size), np.empty(size)
    values[order], errors[order] = found.values, found.standard_errors
    for equals in classes:
        values[equals], errors[equals] = values[equals].mean(), errors[equals].mean()
    return FairGains(values, errors)


def _order_without_names(federation: Federation, alone: FloatArray) -> tuple[Owners, list[Owners]]:
    """Members in an order that renaming does not change, so that the same groups are sampled; and who are equals.

    They are sorted by what the others reach without them, and by what they have alone. Equals, who may change places
    and leave the federation as it is, have the same of both.
    """
    size = federation.n_agents
    without = group_optima(federation, ~np.eye(size, dtype=np.bool_)).values
    unit = EQUAL_TOLERANCE * max(float(np.abs(without).max()), float(np.abs(alone).max()), np.finfo(float).tiny)
    order = np.lexsort((alone, np.round(without / unit)))
    unnamed, classes = federation.replace(names=None, lot_names=None, task_names=None), list[list[int]]()
    for member in order.tolist():
        for equals in classes:
            near = max(abs(without[member] - without[equals[0]]), abs(alone[member] - alone[equals[0]])) <= 2.0 * unit
            if near and _are_equals(unnamed, equals[0], member):
                equals.append(member)
                break
        else:
            classes.append([member])
    return order, [np.array(equals) for equals in classes]


def _are_equals(unnamed: Federation, one: int, other: int) -> bool:
    swapped = np.arange(unnamed.n_agents)
    swapped[[one, other]] = other, one
    return unnamed.take(swapped).replace(names=None, lot_names=None, task_names=None) == unnamed


def fair_gains_of(arrays: FederationArrays) -> FloatArray:
    """The fair gains of many federations, (..., members); NaN where not all groups can be listed."""
    size = arrays.n_agents
    if size > MAX_LISTED_AGENTS:
        return np.full((*arrays.shape, size), np.nan)
    totals = group_welfare(arrays, all_groups(size)).reshape(-1, 1 << size)
    return fair_gains_of_totals(totals, size).reshape(*arrays.shape, size)


def fair_gains_of_totals(totals: FloatArray, size: int) -> FloatArray:
    """From what every group reaches, (federations, 2^n)."""
    return values_of_totals(totals, size_coefficients(size)) - totals[:, 1 << np.arange(size)]

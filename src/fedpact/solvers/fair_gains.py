"""The fair gain: the Shapley value of what groups reach by themselves, less what a member has alone.

With v(X) the most a group X reaches by itself (`fedpact.solvers.groups`), a member's fair gain is

    sum over groups X without i of |X|! (n - |X| - 1)! / n! (v(X with i) - v(X))  -  v({i}).

It shares out what federating brings, where reciprocity shares out everything, what each would have had alone included.
Without harm and joining costs no group loses by taking somebody in, so no fair gain is negative.

All groups are solved up to `MAX_LISTED_AGENTS` members. Up to `MAX_SEARCHED_AGENTS`, groups are sampled
(`fedpact.shapley.measured`) and fair gains have standard errors; among more they are not worked out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.shapley.coalitions import size_coefficients, values_of_totals
from fedpact.shapley.measured import sample_game
from fedpact.solvers.groups import MAX_LISTED_AGENTS, MAX_SEARCHED_AGENTS, all_groups, group_optima, group_welfare
from fedpact.utils.arrays import FloatArray

GROUPS_PER_MEMBER = 40  # that are sampled


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
    [0.0199, 0.0199, 0.0199]
    """
    size = federation.n_agents
    if size <= MAX_LISTED_AGENTS:
        values = _exact(group_optima(federation).values[None], size)[0]
        return FairGains(values, np.zeros(size))
    if size > MAX_SEARCHED_AGENTS:
        return FairGains(np.full(size, np.nan), np.full(size, np.nan))

    def reach(groups: list[tuple[int, ...]]) -> FloatArray:
        members = np.array([np.isin(np.arange(size), group) for group in groups])
        return group_optima(federation, members).values

    found = sample_game(reach, size, budget=GROUPS_PER_MEMBER * size, rng=0, batch=True)
    alone = group_optima(federation, np.eye(size, dtype=np.bool_)).values
    return FairGains(found.values - alone, found.standard_errors)


def fair_gains_of(arrays: FederationArrays) -> FloatArray:
    """The fair gains of many federations, (..., members); NaN where not all groups can be listed."""
    size = arrays.n_agents
    if size > MAX_LISTED_AGENTS:
        return np.full((*arrays.shape, size), np.nan)
    totals = group_welfare(arrays, all_groups(size)).reshape(-1, 1 << size)
    return _exact(totals, size).reshape(*arrays.shape, size)


def _exact(totals: FloatArray, size: int) -> FloatArray:
    """From what every group reaches, (federations, 2^n)."""
    return values_of_totals(totals, size_coefficients(size)) - totals[:, 1 << np.arange(size)]

"""Which assumptions of the paper hold for an outcome, and what is lost where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.certificates.deviations import isolation
from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

MIN_BENEFICIARIES = 3
# Contributions closer to a bound than this share of the cap (or of the largest contribution) lie on it.
BOUND_TOLERANCE = 1e-9

# The paper's assumptions, and what no longer follows where one fails.
CONSEQUENCES: Mapping[str, str] = {
    "non-negative weights": "a member whose data harms others may lose by taking part: Theorem 3 no longer keeps "
    "everybody in",
    "three beneficiaries": "the message game cannot set prices for their data; the deal itself (prices and payments) "
    "stands",
    "interior equilibrium": "the paper's payment formula misses the multipliers of the bounds, so Theorems 1, 3 and 4 "
    "and Proposition 1 need not apply; the payments here include them and balance",
    "interior standalone optimum": "alone they would contribute nothing or all they have, so Theorem 3 and "
    "Proposition 1 need not apply",
    "domain": "some contributions within the caps would harm them beyond the domain of their payoff; only admissible "
    "profiles are considered",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Assumption:
    """An assumption of the paper at an outcome.

    Attributes
    ----------
    agents
        Names of the agents for whom it fails.
    consequence
        What no longer follows, empty where it holds.
    """

    name: str
    holds: bool
    agents: Sequence[str]
    consequence: str


def assumptions(federation: Federation, contributions: FloatArray) -> tuple[Assumption, ...]:
    """All assumptions the paper's theorems rest on, in the order the paper makes them.

    What members would use alone is one where they pay for it. With data at home alone nobody shares anything.
    """
    arrays = federation.arrays
    alone = isolation(federation, contributions).actions
    harmful = np.asarray((arrays.weights < 0).sum(axis=0)).ravel() > 0
    outside = arrays.lowest_data(np.where(np.isfinite(arrays.caps), arrays.caps, 1e300)) <= arrays.floor
    lots, tasks = arrays.lot_owners, arrays.task_owners
    failing = {
        "non-negative weights": lots[harmful],
        "three beneficiaries": lots[_beneficiaries(arrays) < MIN_BENEFICIARIES],
        "interior equilibrium": lots[on_bound(arrays, contributions)],
        "interior standalone optimum": lots[on_bound(arrays, alone)],
        "domain": tasks[outside],
    }
    if federation.home is not None:
        del failing["interior standalone optimum"]
    found = []
    for name, members in failing.items():
        agents = tuple(federation.names[agent] for agent in np.unique(members))
        consequence = CONSEQUENCES[name] if agents else ""
        found.append(Assumption(name=name, holds=not agents, agents=agents, consequence=consequence))
    return tuple(found)


def on_bound(arrays: FederationArrays, contributions: FloatArray) -> NDArray[np.bool_]:
    """Which lots are not brought at all, or all of them, or under a shared cap that is used up."""
    size = np.where(np.isfinite(arrays.caps), arrays.caps, max(float(contributions.max()), 1e-300))
    near = BOUND_TOLERANCE * np.maximum(size, np.finfo(float).tiny)
    full = arrays.shared @ contributions >= arrays.shared_limits * (1.0 - BOUND_TOLERANCE)
    bound = (contributions <= near) | (contributions >= arrays.caps - near)
    return np.asarray(bound | (arrays.shared[full] > 0).any(axis=0))


def _beneficiaries(arrays: FederationArrays) -> NDArray[np.intp]:
    """How many members each lot is useful to, its owner among them, also where it uses it at home anyway."""
    tasks, lots = (arrays.weights > 0).nonzero()
    used = np.stack([arrays.task_owners[tasks], lots])
    pairs = np.unique(np.hstack([used, np.stack([arrays.lot_owners, np.arange(arrays.n_lots)])]), axis=1)
    return np.bincount(pairs[1], minlength=arrays.n_lots)

"""One member under several names.

An agent that poses as k gives each name a k-th of its value and of its cap; of each of its lots and tasks if it has
several. Every name draws on data and offers data exactly as the agent does: it has the same row and the same column,
so that the weight between two of the names is the agent's weight on itself. Marginal costs that rise do so k times as
fast, so that an even split costs what it cost before. Nothing is created by splitting: at an even split everybody's
data, payoffs and costs are the same.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation.arrays import Owners
from fedpact.federation.costs import make_cost
from fedpact.federation.federation import Federation
from fedpact.federation.lots import SharedCap
from fedpact.utils.errors import InvalidInput


def agent_index(federation: Federation, agent: int | str) -> int:
    """The index of a member given by name or by number."""
    names = federation.names
    index = names.index(agent) if agent in names else agent
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < len(names):
        raise InvalidInput(field="agent", rule=f"must be a name or a number from 0 to {len(names) - 1}", value=agent)
    return int(index)


def split_agent(federation: Federation, agent: int | str, parts: int = 2) -> tuple[Federation, slice]:
    """The federation in which one agent poses as several that share its cap and value, and where these stand.

    Examples
    --------
    >>> from fedpact.federation import PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=10.0, payoff=PowerLaw(1.0), names=["A", "B"])
    >>> split, posing = split_agent(pair, "B")
    >>> split.names, split.caps.tolist(), split.weights[0].tolist()
    (('A', 'B (1 of 2)', 'B (2 of 2)'), [10.0, 5.0, 5.0], [1.0, 0.5, 0.5])
    """
    index = agent_index(federation, agent)
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 2:
        raise InvalidInput(field="parts", rule="must be a whole number of at least 2", value=parts)
    if federation.home is not None:  # every name uses all of it at home
        federation = federation.with_arrays(federation.arrays)
    lots, lot_owners = _copies(federation.lot_owners, index, int(parts))
    tasks, task_owners = _copies(federation.task_owners, index, int(parts))
    posing = slice(index, index + int(parts))
    names = [*federation.names]
    names[index : index + 1] = [f"{federation.names[index]} ({part} of {parts})" for part in range(1, int(parts) + 1)]
    members = np.repeat(np.arange(federation.n_agents), np.where(np.arange(federation.n_agents) == index, parts, 1))
    of_lots = np.where(federation.lot_owners[lots] == index, float(parts), 1.0)
    of_tasks = np.where(federation.task_owners[tasks] == index, float(parts), 1.0)
    costs = federation.costs.take(lots)
    split = federation.choose(
        members,
        lots,
        tasks,
        names=names,
        lot_owners=lot_owners,
        task_owners=task_owners,
        lot_names=None,
        task_names=None,
        costs=make_cost(costs.linear, costs.quadratic * of_lots),
        caps=federation.caps[lots] / of_lots,
        values=federation.values[tasks] / of_tasks,
        shared_caps=_split_shared_caps(federation, index, int(parts), lots, lot_owners),
    )
    return split, posing


def _split_shared_caps(federation: Federation, index: int, parts: int, lots: Owners, owners: Owners) -> list[SharedCap]:
    """Every name has a part of each cap that the agent's lots share."""
    found = []
    for shared in federation.shared_caps:
        copies = np.flatnonzero(np.isin(lots, shared.lots))
        split = federation.lot_owners[shared.lots[0]] == index
        for owner in np.unique(owners[copies]).tolist():
            own = tuple(copies[owners[copies] == owner].tolist())
            found.append(SharedCap(own, shared.cap / parts if split else shared.cap))
    return found


def _copies(owners: Owners, index: int, parts: int) -> tuple[Owners, Owners]:
    """Lots or tasks, those of one agent `parts` times each, and whose they are where the agent is as many."""
    own = owners == index
    origin = np.repeat(np.arange(owners.size), np.where(own, parts, 1))
    later = np.where(owners > index, owners + parts - 1, owners)
    found = later[origin]
    found[own[origin]] = index + np.tile(np.arange(parts), int(own.sum()))
    return origin, found

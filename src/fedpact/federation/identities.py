"""One agent under several names, and two agents under one.

An agent that poses as k gives each name a k-th of its value and of its cap; of each of its lots and tasks if it has
several. Every name draws on data and offers data
exactly as the agent does: it has the same row and the same column, so that the weight between two of the names is the
agent's weight on itself. Marginal costs that rise do so k times as fast, so that an even split costs what it cost
before. Nothing is created by splitting: at an even split everybody's data, payoffs and costs are the same.

Two agents can pose as one where this is undone: where they have the same row, column and payoff curve, so that pooled
values and caps describe both, and where their cheapest joint cost is again a linear or quadratic cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.costs import Cost, Linear, Quadratic
from fedpact.federation.federation import Federation
from fedpact.federation.lots import Owners, SharedCap, require_own_caps
from fedpact.federation.validation import Weights
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

SAME_NUMBER = 1e-12  # two of an agent's numbers that differ by less, relative to the larger, count as one
ORDER_DIGITS = 9  # of a member's numbers, by which members are put in order


def agent_place(federation: Federation, agent: int | str) -> int:
    """The place of an agent given by name or by number."""
    names = federation.names
    place = names.index(agent) if agent in names else agent
    if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < len(names):
        raise InvalidInput(field="agent", rule=f"must be a name or a number from 0 to {len(names) - 1}", value=agent)
    return int(place)


def split_agent(federation: Federation, agent: int | str, parts: int = 2) -> tuple[Federation, slice]:
    """The federation in which one agent poses as several that share its cap and value, and where these stand.

    Examples
    --------
    >>> from fedpact.federation import PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=10.0, payoff=PowerLaw(1.0), names=["A", "B"])
    >>> split, posing = split_agent(pair, "B")
    >>> split.names, split.caps.tolist(), split.dense_weights()[0].tolist()
    (('A', 'B (1)', 'B (2)'), [10.0, 5.0, 5.0], [1.0, 0.5, 0.5])
    """
    place = agent_place(federation, agent)
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 2:
        raise InvalidInput(field="parts", rule="must be a whole number of at least 2", value=parts)
    lots, lot_owners = _copies(federation.lot_owners, place, int(parts))
    tasks, task_owners = _copies(federation.task_owners, place, int(parts))
    posing = slice(place, place + int(parts))
    names = [*federation.names]
    names[place : place + 1] = _part_names(federation, place, int(parts))
    of_lots = np.where(federation.lot_owners[lots] == place, float(parts), 1.0)
    of_tasks = np.where(federation.task_owners[tasks] == place, float(parts), 1.0)
    return (
        Federation(
            weights=federation.weights[tasks][:, lots],
            costs=_with_quadratic(federation.costs.take(lots), of_lots),
            caps=federation.caps[lots] / of_lots,
            payoff=federation.payoff.take(tasks),
            names=names,
            values=federation.values[tasks] / of_tasks,
            lot_owners=lot_owners if federation.has_lots else None,
            task_owners=task_owners if federation.has_lots else None,
            shared_caps=_split_shared_caps(federation, place, int(parts), lots, lot_owners),
        ),
        posing,
    )


def _split_shared_caps(federation: Federation, place: int, parts: int, lots: Owners, owners: Owners) -> list[SharedCap]:
    """Every name has a part of each cap that the agent's lots share."""
    found = []
    for shared in federation.shared_caps:
        copies = np.flatnonzero(np.isin(lots, shared.lots))
        split = federation.lot_owners[shared.lots[0]] == place
        for owner in np.unique(owners[copies]).tolist():
            own = tuple(copies[owners[copies] == owner].tolist())
            found.append(SharedCap(own, shared.cap / parts if split else shared.cap))
    return found


def _copies(owners: Owners, place: int, parts: int) -> tuple[Owners, Owners]:
    """Lots or tasks, those of one agent `parts` times each, and whose they are where the agent is as many."""
    own = owners == place
    origin = np.repeat(np.arange(owners.size), np.where(own, parts, 1))
    later = np.where(owners > place, owners + parts - 1, owners)
    found = later[origin]
    found[own[origin]] = place + np.tile(np.arange(parts), int(own.sum()))
    return origin, found


def merge_agents(federation: Federation, pair: tuple[int | str, int | str]) -> tuple[Federation, int]:
    """The federation in which two agents pose as one that pools their values and caps, and where it stands.

    Raises
    ------
    InvalidInput
        If no single agent stands for the two: their rows, columns or payoff curves differ, or their joint cost is not
        linear or quadratic.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidInput(field="pair", rule="must name two members", value=pair)
    require_own_caps(federation, "posing as one")
    first, second = sorted(agent_place(federation, agent) for agent in pair)
    if first == second:
        raise InvalidInput(field="pair", rule="must name two different members", value=pair)
    both = "lots", (federation.lots_of(first), federation.lots_of(second))
    tested = "tasks", (federation.tasks_of(first), federation.tasks_of(second))
    for what, (one, other) in (both, tested):
        if one.size != other.size:
            why = f" have {one.size} and {other.size} {what}; only what one member could have split into can be merged"
            raise InvalidInput(field="pair", rule=_rule(federation, first, second), value=pair, given=why)
    lots, tasks = list(zip(*both[1], strict=True)), list(zip(*tested[1], strict=True))
    _check_alike(federation, (first, second), lots, tasks)
    joint_costs = [_joint_cost(federation, (first, second), each) for each in lots]
    alone = federation.take(np.delete(np.arange(federation.n_agents), second))
    values, caps = alone.values.copy(), alone.caps.copy()
    costs = np.array(alone.costs.linear), np.array(alone.costs.quadratic)
    for place, (_, task) in zip(alone.tasks_of(first), tasks, strict=True):
        values[place] += federation.values[task]
    for place, (_, lot), (linear, quadratic) in zip(alone.lots_of(first), lots, joint_costs, strict=True):
        caps[place] += federation.caps[lot]
        costs[0][place], costs[1][place] = linear, quadratic
    names = list(alone.names)
    names[first] = _unused(f"{federation.names[first]} + {federation.names[second]}", names)
    joint = Quadratic(*costs) if costs[1].any() else Linear(costs[0])
    return alone.replace(values=values, caps=caps, costs=joint, names=names), first


def interchangeable_agents(federation: Federation) -> NDArray[np.intp]:
    """(n,): for every agent the first one it could change places with, so that only names would differ.

    Agents with several lots or tasks are each taken to be one of a kind.

    Examples
    --------
    >>> from fedpact.federation import PowerLaw
    >>> three = Federation(
    ...     [[1.0, 0.2, 0.5], [0.2, 1.0, 0.5], [0.3, 0.3, 1.0]], costs=0.01, caps=10.0, payoff=PowerLaw(1.0)
    ... )
    >>> interchangeable_agents(three).tolist()
    [0, 0, 2]
    """
    size = federation.n_agents
    first = np.arange(size)
    if federation.has_lots:
        return first
    curves = [np.broadcast_to(numbers, size) for numbers in federation.payoff.parameters.values()]
    own = (federation.caps, federation.values, federation.costs.linear, federation.costs.quadratic, *curves)
    numbers = np.array([np.broadcast_to(each, size) for each in (*own, federation.own_weights)])
    seen: dict[bytes, list[int]] = {}
    for agent in range(size):
        candidates = seen.setdefault(numbers[:, agent].tobytes(), [])
        found = next((other for other in candidates if _could_swap(federation, other, agent)), None)
        if found is None:
            candidates.append(agent)
        else:
            first[agent] = found
    return first


def _could_swap(federation: Federation, one: int, other: int) -> bool:
    """Whether two agents with the same numbers of their own draw on the others, and are drawn on, alike."""
    swapped = np.arange(federation.n_agents)
    swapped[[one, other]] = other, one
    return all(
        np.array_equal(weights(one)[swapped], weights(other))
        for weights in (federation.weights_to, federation.weights_from)
    )


def _part_names(federation: Federation, place: int, parts: int) -> list[str]:
    taken = set(federation.names) - {federation.names[place]}
    made: list[str] = []
    for part in range(1, parts + 1):
        made.append(_unused(f"{federation.names[place]} ({part})", [*taken, *made]))
    return made


def _unused(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _with_quadratic(costs: Cost, stretch: FloatArray) -> Cost:
    """The same costs with quadratic parts multiplied."""
    return Quadratic(costs.linear, costs.quadratic * stretch) if costs.quadratic.any() else costs


def _rule(federation: Federation, first: int, second: int) -> str:
    names = federation.names
    return f'must be two members that one could stand for: "{names[first]}" and "{names[second]}"'


def _check_alike(
    federation: Federation, pair: tuple[int, int], lots: list[tuple[int, int]], tasks: list[tuple[int, int]]
) -> None:
    """Refuse agents that draw on data, or offer it, differently: with their lots and tasks in pairs."""
    curves = [np.broadcast_to(numbers, federation.n_tasks) for numbers in federation.payoff.parameters.values()]
    weights = federation.weights
    compared = [
        *(("draw on data with different weights", _dense(weights[[r], :]), _dense(weights[[k], :])) for r, k in tasks),
        *(("have data of different use to others", _dense(weights[:, [j]]), _dense(weights[:, [k]])) for j, k in lots),
        *(("have different payoff curves", curve[[r]], curve[[k]]) for curve in curves for r, k in tasks),
    ]
    for what, one, other in compared:
        if not _same(one, other):
            names = tuple(federation.names[agent] for agent in pair)
            why = f" {what}; only what one member could have split into can be merged"
            raise InvalidInput(field="pair", rule=_rule(federation, *pair), value=names, given=why)


def _dense(matrix: Weights) -> FloatArray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def _joint_cost(federation: Federation, pair: tuple[int, int], lots: tuple[int, int]) -> tuple[float, float]:
    """The cheapest way for two agents to contribute a sum of two lots: coefficients of its cost.

    With the same linear part, rising costs are shared in proportion to 1/quadratic; caps must leave room for that.
    """
    both = list(lots)
    linear = np.broadcast_to(federation.costs.linear, federation.n_lots)[both]
    quadratic = np.broadcast_to(federation.costs.quadratic, federation.n_lots)[both]
    caps = federation.caps[both]
    rising = quadratic > 0
    if _same(linear[:1], linear[1:]) and not rising.any():
        return float(linear[0]), 0.0
    fits = bool(np.isinf(caps).all()) or _same((caps * quadratic)[:1], (caps * quadratic)[1:])
    if _same(linear[:1], linear[1:]) and rising.all() and fits:
        return float(linear[0]), float(1.0 / (1.0 / quadratic).sum())
    names = tuple(federation.names[agent] for agent in pair)
    why = " share work at costs that no single linear or quadratic cost describes"
    raise InvalidInput(field="pair", rule=_rule(federation, *pair), value=names, given=why)


def _same(one: FloatArray, other: FloatArray) -> bool:
    return bool((np.abs(one - other) <= SAME_NUMBER * np.maximum(np.abs(one), np.abs(other))).all())


def canonical_order(*numbers: FloatArray) -> NDArray[np.intp]:
    """The members in an order that does not depend on how they are numbered, as far as their numbers tell them apart.

    A search among many members may find other groups if they come in another order.
    """
    sizes = [max(float(np.abs(key).max()), np.finfo(float).tiny) for key in numbers]
    return np.lexsort([np.round(key / size, ORDER_DIGITS) for key, size in zip(numbers, sizes, strict=True)])

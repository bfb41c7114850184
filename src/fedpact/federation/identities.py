"""One agent under several names, and two agents under one.

An agent that poses as k gives each name a k-th of its value and of its cap. Every name draws on data and offers data
exactly as the agent does: it has the same row and the same column, so that the weight between two of the names is the
agent's weight on itself. Marginal costs that rise do so k times as fast, so that an even split costs what it cost
before. Nothing is created by splitting: at an even split everybody's data, payoffs and costs are the same.

Two agents can pose as one where this is undone: where they have the same row, column and payoff curve, so that pooled
values and caps describe both, and where their cheapest joint cost is again a linear or quadratic cost.
"""

from __future__ import annotations

import numpy as np

from fedpact.federation.costs import Cost, Linear, Quadratic
from fedpact.federation.federation import Federation
from fedpact.federation.ownership import require_single_lots
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

SAME_NUMBER = 1e-12  # two of an agent's numbers that differ by less, relative to the larger, count as one


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
    require_single_lots(federation, "an agent under several names")
    place = agent_place(federation, agent)
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 2:
        raise InvalidInput(field="parts", rule="must be a whole number of at least 2", value=parts)
    counts = np.ones(federation.n_agents, dtype=np.intp)
    counts[place] = parts
    origin = np.repeat(np.arange(federation.n_agents), counts)
    names = [federation.names[each] for each in origin]
    posing = slice(place, place + int(parts))
    names[posing] = _part_names(federation, place, int(parts))
    stretch = np.where(origin == place, float(parts), 1.0)
    return (
        Federation(
            weights=federation.weights[origin][:, origin],
            costs=_with_quadratic(federation.costs.take(origin), stretch),
            caps=federation.caps[origin] / stretch,
            payoff=federation.payoff.take(origin),
            names=names,
            values=federation.values[origin] / stretch,
        ),
        posing,
    )


def merge_agents(federation: Federation, pair: tuple[int | str, int | str]) -> tuple[Federation, int]:
    """The federation in which two agents pose as one that pools their values and caps, and where it stands.

    Raises
    ------
    InvalidInput
        If no single agent stands for the two: their rows, columns or payoff curves differ, or their joint cost is not
        linear or quadratic.
    """
    require_single_lots(federation, "two agents under one name")
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidInput(field="pair", rule="must name two agents", value=pair)
    first, second = sorted(agent_place(federation, agent) for agent in pair)
    if first == second:
        raise InvalidInput(field="pair", rule="must name two different agents", value=pair)
    _check_alike(federation, first, second)
    linear, quadratic = _joint_cost(federation, first, second)
    kept = np.delete(np.arange(federation.n_agents), second)
    alone = federation.take(kept)
    values, caps = alone.values.copy(), alone.caps.copy()
    values[first] += federation.values[second]
    caps[first] += federation.caps[second]
    costs = np.array(alone.costs.linear), np.array(alone.costs.quadratic)
    costs[0][first], costs[1][first] = linear, quadratic
    names = list(alone.names)
    names[first] = _unused(f"{federation.names[first]} + {federation.names[second]}", names)
    joint = Quadratic(*costs) if costs[1].any() else Linear(costs[0])
    return alone.replace(values=values, caps=caps, costs=joint, names=names), first


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


def _check_alike(federation: Federation, first: int, second: int) -> None:
    """Refuse agents that draw on data, or offer it, differently."""
    names = federation.names
    rule = f'must be two agents that one could stand for: "{names[first]}" and "{names[second]}"'
    pair, way_out = (names[first], names[second]), "; only what one agent could have split into can be merged"
    curves = [np.broadcast_to(numbers, federation.n_agents) for numbers in federation.payoff.parameters.values()]
    curve, other_curve = (np.array([numbers[agent] for numbers in curves]) for agent in (first, second))
    compared = {
        "draw on data with different weights": (federation.weights_to(first), federation.weights_to(second)),
        "have data of different use to others": (federation.weights_from(first), federation.weights_from(second)),
        "have different payoff curves": (curve, other_curve),
    }
    for what, (one, other) in compared.items():
        if not _same(one, other):
            raise InvalidInput(field="pair", rule=rule, value=pair, given=f" {what}{way_out}")


def _joint_cost(federation: Federation, first: int, second: int) -> tuple[float, float]:
    """The cheapest way for two agents to contribute a sum: coefficients of its cost.

    With the same linear part, rising costs are shared in proportion to 1/quadratic; caps must leave room for that.
    """
    names, both = federation.names, [first, second]
    linear = np.broadcast_to(federation.costs.linear, federation.n_agents)[both]
    quadratic = np.broadcast_to(federation.costs.quadratic, federation.n_agents)[both]
    caps = federation.caps[both]
    rising = quadratic > 0
    if _same(linear[:1], linear[1:]) and not rising.any():
        return float(linear[0]), 0.0
    fits = bool(np.isinf(caps).all()) or _same((caps * quadratic)[:1], (caps * quadratic)[1:])
    if _same(linear[:1], linear[1:]) and rising.all() and fits:
        return float(linear[0]), float(1.0 / (1.0 / quadratic).sum())
    rule = f'must be two agents that one could stand for: "{names[first]}" and "{names[second]}"'
    why = " share work at costs that no single linear or quadratic cost describes"
    raise InvalidInput(field="pair", rule=rule, value=(names[first], names[second]), given=why)


def _same(one: FloatArray, other: FloatArray) -> bool:
    return bool((np.abs(one - other) <= SAME_NUMBER * np.maximum(np.abs(one), np.abs(other))).all())

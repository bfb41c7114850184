"""A member prepares itself: its own row, curve and value, from its own accuracies alone.

Everybody's contributions to a run are known to all, and what the model scored on a member's test set is known to that
member. The rows of a fit are independent of each other but for the parts of the curve they share, so one member's
accuracies are enough for its own row. What stands in its private file is what its agent negotiates with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.result import Fit
from fedpact.mechanisms import Standalone
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.lot_agent import AnyAgent, LotAgent
from fedpact.negotiation.processes import save_agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberNotes:
    """What a private file says beside what its agent negotiates with.

    Attributes
    ----------
    names
        Everybody's.
    level
        Of the intervals.
    intervals
        Of "weights" (members, 2), "value" and "beta", as far as they were fitted.
    """

    names: list[str]
    level: float = 0.9
    intervals: Mapping[str, FloatArray]

    @classmethod
    def of(cls, record: Mapping[str, Any], agent: Agent) -> MemberNotes:
        """The notes of a file, which has none if it was written by hand; raises `InvalidInput`."""
        size = agent.weights.size
        names, given = record.get("agents"), record.get("intervals") or {}
        is_named = isinstance(names, list) and len(names) == size
        level = record.get("level", 0.9)
        if not isinstance(given, dict) or type(level) is not float or not 0.0 < level < 1.0:
            raise InvalidInput(f"intervals must be an object and level between 0 and 1, got {short_repr(level)}")
        shapes = {"weights": (size, 2), "value": (2,), "beta": (2,)}
        intervals = {key: _interval(key, given[key], shape) for key, shape in shapes.items() if key in given}
        return cls(
            names=[str(name) for name in names] if is_named and names else [f"agent {place}" for place in range(size)],
            level=level,
            intervals=intervals,
        )


def _interval(key: str, given: Any, shape: tuple[int, ...]) -> FloatArray:
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != shape or not (found[..., 0] <= found[..., 1]).all():
        raise InvalidInput(f"intervals.{key} must be pairs of a lower and an upper end, got {short_repr(given)}")
    return found


def member_agent(
    found: Fit, member: str, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0
) -> AnyAgent:
    """The agent of a member, by a fit to its own accuracies; terms as in `Fit.federation`."""
    federation = found.federation(costs=costs, caps=caps, worth=worth)
    kind = LotAgent if federation.has_lots else Agent
    return kind.of(federation, list(found.names).index(member))


def member_notes(found: Fit, agent: Agent, *, level: float) -> MemberNotes:
    """The names of all, and the intervals of what was fitted."""
    intervals = found.intervals(level)
    worth = agent.value / float(found.values[agent.index])
    shown = {"weights": intervals["weights"][agent.index], "value": intervals["values"][agent.index] * worth}
    if "beta" in intervals:
        by_agent = np.broadcast_to(intervals["beta"], (len(found.names), 2))
        shown["beta"] = by_agent[agent.index]
    return MemberNotes(names=list(found.names), level=level, intervals=shown)


def save_member(agent: Agent, notes: MemberNotes, path: Path) -> None:
    """Write the private file of a member."""
    stated = {"agents": notes.names, "level": notes.level, "intervals": jsonable(dict(notes.intervals))}
    save_agent(agent, path, notes=stated)


def standalone_plan(agent: Agent) -> tuple[float, float]:
    """What a member would contribute to a model of its own, and the utility of that."""
    own = float(agent.weights[agent.index])
    alone = Federation([[own]], costs=agent.cost, caps=[agent.cap], payoff=agent.payoff, values=[agent.value])
    outcome = Standalone().solve(alone)
    return float(outcome.contributions[0]), float(outcome.standalone[0])


def agent_text(agent: Agent, notes: MemberNotes) -> str:
    """What a private file says, in words."""
    names = notes.names
    weights, own = agent.weights, float(agent.weights[agent.index])
    order = [place for place in np.argsort(-np.abs(weights)) if place != agent.index and weights[place]]
    worth = [f"{names[place]} {weights[place] / own:.3g}" for place in order]
    parameters = ", ".join(
        f"{name} {float(np.ravel(number)[0]):.4g}" for name, number in agent.payoff.parameters.items()
    )
    given, utility = standalone_plan(agent)
    rate, bend = (float(np.ravel(part)[0]) for part in (agent.cost.linear, agent.cost.quadratic))
    cost = f"{rate:.4g} a sample" + (f", and {bend:.4g} times the square" if bend else "")
    cap = "as many samples as it likes" if np.isinf(agent.cap) else f"up to {agent.cap:.6g} samples"
    lines = [
        f"{agent.name}, number {agent.index + 1} of {count_text(weights.size, 'member')}.",
        f"Full accuracy is worth {agent.value:.4g} of payoff to it; its curve is a {agent.payoff.family}"
        + (f" ({parameters})" if parameters else "")
        + f", a sample of its own counts {own:.4g}.",
        f"A sample of others counts, against one of its own: {', '.join(worth)}."
        if worth
        else "The data of others does not matter to it.",
        *_interval_lines(agent, notes),
        f"It can contribute {cap}, at a cost of {cost}.",
        f"Alone it would use {given:.4g} samples and have {utility:.4g}. {_least_gain_text(agent.least_gain)}",
    ]
    return "\n".join(lines)


def _least_gain_text(least_gain: float | None) -> str:
    """Which deals a member refuses."""
    if least_gain is None:
        return "It takes any deal, also one that leaves it less than that (least_gain is null)."
    more = f" and {least_gain:.4g} more" if least_gain > 0 else f" less {-least_gain:.4g}" if least_gain < 0 else ""
    return f"It refuses a deal that leaves it less than that{more}."


def lot_agent_text(agent: LotAgent) -> str:
    """What the private file of a member with several lots or tasks says, in words."""
    lots = [agent.lot_names[lot] for lot in agent.own_lots]
    rates, bends = np.broadcast_to(agent.costs.linear, len(lots)), np.broadcast_to(agent.costs.quadratic, len(lots))
    lines = [
        f"{agent.name}, number {agent.index + 1} of {count_text(agent.n_agents, 'member')}, with "
        f"{count_text(len(lots), 'lot')} of data and {count_text(len(agent.task_names), 'task')}."
    ]
    for lot, name in enumerate(lots):
        most = "as much as it likes" if np.isinf(agent.caps[lot]) else f"up to {agent.caps[lot]:.6g}"
        bend = f", and {bends[lot]:.4g} times the square" if bends[lot] else ""
        lines.append(f"Lot {name}: {most}, at a cost of {rates[lot]:.4g} a sample{bend}.")
    for task, name in enumerate(agent.task_names):
        row = agent.weights[task]
        shown = [
            f"{agent.lot_names[lot]}{' (its own)' if agent.lot_owners[lot] == agent.index else ''} {row[lot]:.4g}"
            for lot in np.argsort(-np.abs(row), kind="stable")
            if row[lot]
        ]
        lines.append(
            f"Task {name}: full accuracy is worth {agent.values[task]:.4g} of payoff; a sample counts: "
            f"{', '.join(shown) if shown else 'nothing, whatever the lot'}."
        )
    lines.append(f"Alone it would have {agent.standalone_utility():.4g}. {_least_gain_text(agent.least_gain)}")
    return "\n".join(lines)


def _interval_lines(agent: Agent, notes: MemberNotes) -> list[str]:
    """How well what was fitted is known."""
    if not notes.intervals:
        return []
    shown = [
        f"{key} {low:.3g} to {high:.3g}"
        for key in ("value", "beta")
        if key in notes.intervals
        for low, high in [notes.intervals[key]]
    ]
    for place, (low, high) in enumerate(notes.intervals.get("weights", ())):
        whose = "its own" if place == agent.index else notes.names[place]
        shown.append(f"a sample of {whose} {low:.3g} to {high:.3g}")
    return [f"How well that is known, {notes.level:.0%} intervals: {'; '.join(shown)}."]


def agent_record(agent: Agent, notes: MemberNotes) -> dict[str, Any]:
    """The same for programs."""
    given, utility = standalone_plan(agent)
    return {
        "agent": agent.name,
        "agents": notes.names,
        "weights": agent.weights.tolist(),
        "value": agent.value,
        "standalone_contribution": given,
        "standalone": utility,
        "level": notes.level,
        "intervals": jsonable(dict(notes.intervals)),
    }

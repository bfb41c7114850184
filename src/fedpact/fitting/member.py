"""A member prepares itself: its own row, curve and value, from its own accuracies alone.

Everybody's contributions to a run are known to all, and what the model scored on a member's test set is known to that
member. The rows of a fit are independent of each other but for the parts of the curve they share, so one member's
accuracies are enough for its own row. What stands in its private file is what its agent negotiates with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.result import Fit
from fedpact.mechanisms import Standalone
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.agent_file import record_of_agent
from fedpact.negotiation.processes import save_agent
from fedpact.scenario.fields import check_keys
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text

INTERVAL_ROUNDING = 1e-9  # of a number that stands at the end of its interval


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberNotes:
    """What a private file says beside what its agent negotiates with."""

    names: list[str]  # Everybody's
    level: float = 0.9  # Of the intervals
    # Of "weights" (members, 2), "value" and "beta", as far as they were fitted; none of a member with lots
    intervals: Mapping[str, FloatArray] = field(default_factory=dict)
    unit: str = ""  # What contributions are counted in, such as "thousand records"; empty if nobody said
    # The cost of a sample that was put where nobody had said one; None where somebody had
    placeholder_cost: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any], agent: Agent) -> MemberNotes:
        """The notes of a file, which has none if it was written by hand; raises `InvalidInput`."""
        size = agent.n_agents
        names, given = record.get("agents"), record.get("intervals") or {}
        is_named = isinstance(names, list) and len(names) == size
        level = record.get("level", 0.9)
        if not isinstance(given, dict) or type(level) is not float or not 0.0 < level < 1.0:
            raise InvalidInput(f"intervals must be an object and level between 0 and 1, got {short_repr(level)}")
        known = {} if agent.has_lots else _fitted_numbers(agent)
        with error_context("intervals"):
            check_keys(given, known)
        unit, placeholder = record.get("unit", ""), record.get("placeholder_cost")
        if not isinstance(unit, str):
            raise InvalidInput(f'unit must be a text such as "thousand records", got {short_repr(unit)}')
        if not isinstance(placeholder, int | float | None):
            raise InvalidInput(f"placeholder_cost must be a number, or null, got {short_repr(placeholder)}")
        return cls(
            names=[str(name) for name in names] if is_named and names else [f"agent {place}" for place in range(size)],
            level=level,
            intervals={key: _interval(key, given[key], numbers) for key, numbers in known.items() if key in given},
            unit=unit,
            placeholder_cost=placeholder,
        )


def _fitted_numbers(agent: Agent) -> dict[str, FloatArray]:
    """What intervals can be of, by name."""
    beta = agent.payoff.parameters.get("beta")
    known = {"weights": agent.weights[0], "value": agent.values[0]}
    return known if beta is None else known | {"beta": np.ravel(beta)[0]}


def _interval(key: str, given: Any, numbers: FloatArray) -> FloatArray:
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (*numbers.shape, 2) or not (found[..., 0] <= found[..., 1]).all():
        raise InvalidInput(f"intervals.{key} must be pairs of a lower and an upper end, got {short_repr(given)}")
    rounding = INTERVAL_ROUNDING * np.abs(numbers)
    for place in np.argwhere((numbers < found[..., 0] - rounding) | (numbers > found[..., 1] + rounding)).tolist():
        which = f"{key}[{place[0]}]" if place else key
        low, high = found[tuple(place)]
        raise InvalidInput(
            f"intervals.{which} must hold the number it is of, {which} = {numbers[tuple(place)]:.6g}, "
            f"got {low:.6g} to {high:.6g}; correct one of them, or remove intervals"
        )
    return found


def member_agent(found: Fit, member: str, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> Agent:
    """The agent of a member, by a fit to its own accuracies; terms as in `Fit.federation`."""
    federation = found.federation(costs=costs, caps=caps, worth=worth)
    return Agent.of(federation, list(found.names).index(member))


def member_notes(
    found: Fit, agent: Agent, *, level: float, unit: str = "", placeholder_cost: float | None = None
) -> MemberNotes:
    """The names of all, the intervals of what was fitted, and what was not fitted."""
    plain = MemberNotes(names=list(found.names), level=level, unit=unit, placeholder_cost=placeholder_cost)
    if agent.has_lots:
        return plain
    intervals = found.intervals(level)
    worth = float(agent.values[0]) / float(found.values[agent.index])
    shown = {"weights": intervals["weights"][agent.index], "value": intervals["values"][agent.index] * worth}
    if "beta" in intervals:
        by_agent = np.broadcast_to(intervals["beta"], (len(found.names), 2))
        shown["beta"] = by_agent[agent.index]
    return replace(plain, intervals=shown)


def save_member(agent: Agent, notes: MemberNotes, path: Path) -> None:
    """Write the private file of a member."""
    stated: dict[str, Any] = {"agents": notes.names}
    if notes.intervals:
        stated |= {"level": notes.level, "intervals": jsonable(dict(notes.intervals))}
    if notes.unit:
        stated["unit"] = notes.unit
    if notes.placeholder_cost is not None:
        stated["placeholder_cost"] = notes.placeholder_cost
    save_agent(agent, path, notes=stated)


def standalone_plan(agent: Agent) -> tuple[float, float]:
    """What a member would contribute to a model of its own, and the utility of that."""
    own = agent.weights[:, [agent.index]]
    alone = Federation(own, costs=agent.costs, caps=agent.caps, payoff=agent.payoff, values=agent.values)
    outcome = Standalone().solve(alone)
    return float(outcome.contributions[0]), float(outcome.standalone[0])


def agent_text(agent: Agent, notes: MemberNotes) -> str:
    """What a private file says, in words."""
    each, counted = (f"unit ({notes.unit})", notes.unit) if notes.unit else ("sample", "samples")
    lots = [agent.lot_names[lot] for lot in agent.own_lots] if agent.has_lots else [agent.name]
    everybody = agent.lot_names or tuple(notes.names)
    costs, caps, tasks, rows, values = agent.costs, agent.caps, agent.task_names, agent.weights, agent.values
    own, holds = agent.lot_owners == agent.index, ""
    if agent.has_lots:
        holds = f", with {count_text(len(lots), 'lot')} of data and {count_text(len(tasks), 'task')}"
        alone = f"Alone it would have {agent.standalone_utility():.4g} of payoff."
    else:
        given, utility = standalone_plan(agent)
        alone = f"Alone it would use {given:.4g} {counted} and have {utility:.4g} of payoff."
    if not rows[:, own].any():
        alone = (
            "It uses its own data at home: values and weights count what the others' data adds to that. Alone it has 0."
        )
    lines = [f"{agent.name}, number {agent.index + 1} of {count_text(agent.n_agents, 'member')}{holds}."]
    linear, quadratic = (np.broadcast_to(part, len(lots)) for part in (costs.linear, costs.quadratic))
    for lot, name in enumerate(lots):
        most = "as many {} as it likes" if np.isinf(caps[lot]) else f"up to {caps[lot]:.6g} {{}}"
        square = f", and {quadratic[lot]:.4g} times the square" if quadratic[lot] else ""
        which = f"Lot {name}: " if holds else "It can contribute "
        lines.append(f"{which}{most.format(counted)}, at a cost of {linear[lot]:.4g} of payoff a {each}{square}.")
    if notes.placeholder_cost is not None and notes.placeholder_cost in np.ravel(costs.linear):
        lines.append("Its cost is a placeholder: write the true one as linear, or say --cost to `fedpact fit`.")
    for task, (name, row) in enumerate(zip(tasks, rows, strict=True)):
        shown = [
            f"{everybody[lot]}{' (its own)' if own[lot] else ''} {row[lot]:.4g}"
            for lot in np.argsort(-np.abs(row), kind="stable")
            if row[lot]
        ]
        lines.append(
            f"{f'Task {name}: full' if holds else 'Full'} accuracy is worth {values[task]:.4g} of payoff; "
            f"a {each} counts: {', '.join(shown) if shown else 'nothing, whoever gives it'}."
        )
    shapes = [f"{name} {number:.4g}" for name, part in agent.payoff.parameters.items() for number in np.unique(part)]
    shape = f" ({', '.join(shapes)})" if shapes else ""
    lines.append(f"Curves are of the family {agent.payoff.family}{shape}.")
    if notes.intervals:
        lines.append(_interval_text(agent, notes))
    least = agent.least_gain
    if least is None:
        refused = "It takes any deal, also one that leaves it less than that (least_gain is null)."
    else:
        more = f" and {least:.4g} more" if least > 0 else f" less {-least:.4g}" if least < 0 else ""
        refused = f"It refuses a deal that leaves it less than that{more}."
    return "\n".join([*lines, f"{alone} {refused}"])


def _interval_text(agent: Agent, notes: MemberNotes) -> str:
    """How well what was fitted is known."""
    shown = [(key, notes.intervals[key]) for key in ("value", "beta") if key in notes.intervals]
    for index, ends in enumerate(notes.intervals.get("weights", ())):
        whose = "its own" if index == agent.index else notes.names[index]
        shown.append((f"a {'unit' if notes.unit else 'sample'} of {whose}", ends))
    listed = "; ".join(f"{what} {low:.3g} to {high:.3g}" for what, (low, high) in shown)
    return f"How well that is known, {notes.level:.0%} intervals: {listed}."


def agent_record(agent: Agent, notes: MemberNotes) -> dict[str, Any]:
    """The same for programs."""
    noted = {"unit": notes.unit, "placeholder_cost": notes.placeholder_cost}
    if agent.has_lots:
        return record_of_agent(agent) | {"standalone": agent.standalone_utility()} | noted
    given, utility = standalone_plan(agent)
    return noted | {
        "agent": agent.name,
        "agents": notes.names,
        "weights": agent.weights[0].tolist(),
        "value": float(agent.values[0]),
        "standalone_contribution": given,
        "standalone": utility,
        "level": notes.level,
        "intervals": jsonable(dict(notes.intervals)),
    }

"""The private file of a member, in words: its own row, curve and value, from its own accuracies alone.

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
from fedpact.negotiation.agent_file import record_of_agent, save_agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import count_text


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberNotes:
    """What a private file says beside what its agent negotiates with."""

    names: list[str]  # Everybody's
    known: str = ""  # How well what was fitted is known, in words; of a member with lots nothing is said
    unit: str = ""  # What contributions are counted in, such as "thousand records"; empty if nobody said
    # The cost of a sample that was put where nobody had said one; None where somebody had
    placeholder_cost: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any], agent: Agent) -> MemberNotes:
        """The notes of a file, which has none if it was written by hand; raises `InvalidInput`."""
        names, size = record.get("agents"), agent.n_agents
        is_named = isinstance(names, list) and len(names) == size
        placeholder = record.get("placeholder_cost")
        for key, example in (("known", "90 % intervals: value 0.7 to 0.9"), ("unit", "thousand records")):
            if not isinstance(record.get(key, ""), str):
                raise InvalidInput(f'{key} must be a text such as "{example}", got {short_repr(record[key])}')
        if not isinstance(placeholder, int | float | None):
            raise InvalidInput(f"placeholder_cost must be a number, or null, got {short_repr(placeholder)}")
        return cls(
            names=[str(name) for name in names] if is_named and names else [f"agent {index}" for index in range(size)],
            known=record.get("known", ""),
            unit=record.get("unit", ""),
            placeholder_cost=placeholder,
        )


def member_agent(found: Fit, member: str, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> Agent:
    """The agent of a member, by a fit to its own accuracies; terms as in `Fit.federation`."""
    federation = found.federation(costs=costs, caps=caps, worth=worth)
    return Agent.of(federation, list(found.names).index(member))


def member_intervals(found: Fit, agent: Agent, level: float) -> dict[str, FloatArray]:
    """The intervals of what was fitted, by name; none for a member with lots."""
    if agent.has_lots:
        return {}
    intervals = found.intervals(level)
    worth = float(agent.values[0]) / float(found.values[agent.index])
    shown = {"weights": intervals["weights"][agent.index], "value": intervals["values"][agent.index] * worth}
    if "beta" in intervals:
        by_agent = np.broadcast_to(intervals["beta"], (len(found.names), 2))
        shown["beta"] = by_agent[agent.index]
    return shown


def member_notes(
    found: Fit, agent: Agent, *, level: float, unit: str = "", placeholder_cost: float | None = None
) -> MemberNotes:
    """The names of all, how well what was fitted is known, and what was not fitted."""
    intervals = member_intervals(found, agent, level)
    shown: list[tuple[str, FloatArray]] = [(key, intervals[key]) for key in ("value", "beta") if key in intervals]
    for index, ends in enumerate(intervals.get("weights", ())):
        whose = "its own" if index == agent.index else found.names[index]
        shown.append((f"a {'unit' if unit else 'sample'} of {whose}", ends))
    listed = "; ".join(f"{what} {low:.3g} to {high:.3g}" for what, (low, high) in shown)
    known = f"How well that is known, {level:.0%} intervals: {listed}." if listed else ""
    return MemberNotes(names=list(found.names), known=known, unit=unit, placeholder_cost=placeholder_cost)


def save_member(agent: Agent, notes: MemberNotes, path: Path) -> None:
    """Write the private file of a member."""
    others = {"known": notes.known, "unit": notes.unit, "placeholder_cost": notes.placeholder_cost}
    stated = {key: said for key, said in others.items() if said not in ("", None)}
    save_agent(agent, path, notes={"agents": notes.names, **stated})


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
        alone = f"Alone it would have {agent.standalone:.4g} of payoff."
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
    if notes.known:
        lines.append(notes.known)
    least = agent.least_gain
    if least is None:
        refused = "It takes any deal, also one that leaves it less than that (least_gain is null)."
    else:
        more = f" and {least:.4g} more" if least > 0 else f" less {-least:.4g}" if least < 0 else ""
        refused = f"It refuses a deal that leaves it less than that{more}."
    return "\n".join([*lines, f"{alone} {refused}"])


def agent_record(agent: Agent, notes: MemberNotes) -> dict[str, Any]:
    """The same for programs."""
    noted = {"known": notes.known, "unit": notes.unit, "placeholder_cost": notes.placeholder_cost}
    if agent.has_lots:
        return record_of_agent(agent) | {"standalone": agent.standalone} | noted
    given, utility = standalone_plan(agent)
    return noted | {
        "agent": agent.name,
        "agents": notes.names,
        "weights": agent.weights[0].tolist(),
        "value": float(agent.values[0]),
        "standalone_contribution": given,
        "standalone": utility,
    }

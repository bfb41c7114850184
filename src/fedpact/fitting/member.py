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

from fedpact.federation import Cost, Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.result import Fit
from fedpact.mechanisms import Standalone
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.agent_file import record_of_agent
from fedpact.negotiation.lot_agent import AnyAgent, LotAgent
from fedpact.negotiation.processes import save_agent
from fedpact.scenario.fields import check_keys
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text

INTERVAL_ROUNDING = 1e-9  # of a number that stands at the end of its interval


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
        Of "weights" (members, 2), "value" and "beta", as far as they were fitted; none of a member with lots.
    unit
        What contributions are counted in, such as "thousand records"; empty if nobody said.
    placeholder_cost
        The cost of a sample that was put where nobody had said one; None where somebody had.
    """

    names: list[str]
    level: float = 0.9
    intervals: Mapping[str, FloatArray] = field(default_factory=dict)
    unit: str = ""
    placeholder_cost: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any], agent: AnyAgent) -> MemberNotes:
        """The notes of a file, which has none if it was written by hand; raises `InvalidInput`."""
        size = agent.n_agents
        names, given = record.get("agents"), record.get("intervals") or {}
        is_named = isinstance(names, list) and len(names) == size
        level = record.get("level", 0.9)
        if not isinstance(given, dict) or type(level) is not float or not 0.0 < level < 1.0:
            raise InvalidInput(f"intervals must be an object and level between 0 and 1, got {short_repr(level)}")
        known = {} if isinstance(agent, LotAgent) else _fitted_numbers(agent)
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

    @property
    def each(self) -> str:
        """What weights and costs are per: a sample, or a unit of the data that is named."""
        return f"unit ({self.unit})" if self.unit else "sample"

    @property
    def counted(self) -> str:
        """What contributions are."""
        return self.unit or "samples"

    def placeholder_lines(self, cost: Cost) -> list[str]:
        """That a cost is still the one that nobody has said."""
        if self.placeholder_cost is None or self.placeholder_cost not in np.ravel(cost.linear):
            return []
        return ["Its cost is a placeholder: write the true one as linear, or say --cost to `fedpact fit`."]


def _fitted_numbers(agent: Agent) -> dict[str, FloatArray]:
    """What intervals can be of, by name."""
    beta = agent.payoff.parameters.get("beta")
    known = {"weights": agent.weights, "value": np.array(agent.value)}
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


def member_agent(
    found: Fit, member: str, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0
) -> AnyAgent:
    """The agent of a member, by a fit to its own accuracies; terms as in `Fit.federation`."""
    federation = found.federation(costs=costs, caps=caps, worth=worth)
    kind = LotAgent if federation.has_lots else Agent
    return kind.of(federation, list(found.names).index(member))


def member_notes(
    found: Fit, agent: AnyAgent, *, level: float, unit: str = "", placeholder_cost: float | None = None
) -> MemberNotes:
    """The names of all, the intervals of what was fitted, and what was not fitted."""
    plain = MemberNotes(names=list(found.names), level=level, unit=unit, placeholder_cost=placeholder_cost)
    if isinstance(agent, LotAgent):
        return plain
    intervals = found.intervals(level)
    worth = agent.value / float(found.values[agent.index])
    shown = {"weights": intervals["weights"][agent.index], "value": intervals["values"][agent.index] * worth}
    if "beta" in intervals:
        by_agent = np.broadcast_to(intervals["beta"], (len(found.names), 2))
        shown["beta"] = by_agent[agent.index]
    return replace(plain, intervals=shown)


def save_member(agent: AnyAgent, notes: MemberNotes, path: Path) -> None:
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
    own = float(agent.weights[agent.index])
    alone = Federation([[own]], costs=agent.cost, caps=[agent.cap], payoff=agent.payoff, values=[agent.value])
    outcome = Standalone().solve(alone)
    return float(outcome.contributions[0]), float(outcome.standalone[0])


def agent_text(agent: AnyAgent, notes: MemberNotes) -> str:
    """What a private file says, in words."""
    if isinstance(agent, LotAgent):
        return _lot_agent_text(agent, notes)
    names = notes.names
    weights, own = agent.weights, float(agent.weights[agent.index])
    order = [place for place in np.argsort(-np.abs(weights)) if place != agent.index and weights[place]]
    worth = [f"{names[place]} {weights[place] / own:.3g}" for place in order]
    parameters = ", ".join(
        f"{name} {float(np.ravel(number)[0]):.4g}" for name, number in agent.payoff.parameters.items()
    )
    given, utility = standalone_plan(agent)
    rate, bend = (float(np.ravel(part)[0]) for part in (agent.cost.linear, agent.cost.quadratic))
    cost = f"{rate:.4g} of payoff a {notes.each}" + (f", and {bend:.4g} times the square" if bend else "")
    cap = f"as many {notes.counted} as it likes" if np.isinf(agent.cap) else f"up to {agent.cap:.6g} {notes.counted}"
    lines = [
        f"{agent.name}, number {agent.index + 1} of {count_text(weights.size, 'member')}.",
        f"Full accuracy is worth {agent.value:.4g} of payoff to it; its curve is of the family {agent.payoff.family}"
        + (f" ({parameters})" if parameters else "")
        + f", a {notes.each} of its own counts {own:.4g}.",
        f"A {notes.each} of others counts, against one of its own: {', '.join(worth)}."
        if worth
        else "The data of others does not matter to it.",
        *_interval_lines(agent, notes),
        f"It can contribute {cap}, at a cost of {cost}.",
        *notes.placeholder_lines(agent.cost),
        f"Alone it would use {given:.4g} {notes.counted} and have {utility:.4g} of payoff. "
        f"{_least_gain_text(agent.least_gain)}",
    ]
    return "\n".join(lines)


def _least_gain_text(least_gain: float | None) -> str:
    """Which deals a member refuses."""
    if least_gain is None:
        return "It takes any deal, also one that leaves it less than that (least_gain is null)."
    more = f" and {least_gain:.4g} more" if least_gain > 0 else f" less {-least_gain:.4g}" if least_gain < 0 else ""
    return f"It refuses a deal that leaves it less than that{more}."


def _lot_agent_text(agent: LotAgent, notes: MemberNotes) -> str:
    """What the private file of a member with several lots or tasks says, in words."""
    lots = [agent.lot_names[lot] for lot in agent.own_lots]
    rates, bends = np.broadcast_to(agent.costs.linear, len(lots)), np.broadcast_to(agent.costs.quadratic, len(lots))
    lines = [
        f"{agent.name}, number {agent.index + 1} of {count_text(agent.n_agents, 'member')}, with "
        f"{count_text(len(lots), 'lot')} of data and {count_text(len(agent.task_names), 'task')}."
    ]
    for lot, name in enumerate(lots):
        cap = agent.caps[lot]
        most = f"as many {notes.counted} as it likes" if np.isinf(cap) else f"up to {cap:.6g} {notes.counted}"
        bend = f", and {bends[lot]:.4g} times the square" if bends[lot] else ""
        lines.append(f"Lot {name}: {most}, at a cost of {rates[lot]:.4g} of payoff a {notes.each}{bend}.")
    lines += notes.placeholder_lines(agent.costs)
    for task, name in enumerate(agent.task_names):
        row = agent.weights[task]
        shown = [
            f"{agent.lot_names[lot]}{' (its own)' if agent.lot_owners[lot] == agent.index else ''} {row[lot]:.4g}"
            for lot in np.argsort(-np.abs(row), kind="stable")
            if row[lot]
        ]
        lines.append(
            f"Task {name}: full accuracy is worth {agent.values[task]:.4g} of payoff; a {notes.each} counts: "
            f"{', '.join(shown) if shown else 'nothing, whatever the lot'}."
        )
    alone = f"Alone it would have {agent.standalone_utility():.4g} of payoff."
    lines.append(f"{alone} {_least_gain_text(agent.least_gain)}")
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
        shown.append(f"a {'unit' if notes.unit else 'sample'} of {whose} {low:.3g} to {high:.3g}")
    return [f"How well that is known, {notes.level:.0%} intervals: {'; '.join(shown)}."]


def agent_record(agent: AnyAgent, notes: MemberNotes) -> dict[str, Any]:
    """The same for programs."""
    noted = {"unit": notes.unit, "placeholder_cost": notes.placeholder_cost}
    if isinstance(agent, LotAgent):
        return record_of_agent(agent) | {"standalone": agent.standalone_utility()} | noted
    given, utility = standalone_plan(agent)
    return noted | {
        "agent": agent.name,
        "agents": notes.names,
        "weights": agent.weights.tolist(),
        "value": agent.value,
        "standalone_contribution": given,
        "standalone": utility,
        "level": notes.level,
        "intervals": jsonable(dict(notes.intervals)),
    }

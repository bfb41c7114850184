"""A member prepares itself: its own row, curve and value, from its own accuracies alone.

Everybody's contributions to a run are known to all, and what the model scored on a member's test set is known to that
member. The rows of a fit are independent of each other but for the parts of the curve they share, so one member's
accuracies are enough for its own row. What stands in its private file is what its agent negotiates with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.validation import Costs
from fedpact.fitting.result import Fit
from fedpact.mechanisms import Standalone
from fedpact.negotiation.agent import Agent
from fedpact.negotiation.processes import save_agent
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text


def member_agent(found: Fit, member: str, *, costs: Costs, caps: ArrayLike = np.inf, worth: ArrayLike = 1.0) -> Agent:
    """The agent of a member, by a fit to its own accuracies; terms as in `Fit.federation`."""
    federation = found.federation(costs=costs, caps=caps, worth=worth)
    return Agent.of(federation, list(found.names).index(member))


def save_member(found: Fit, agent: Agent, path: Path, *, level: float) -> None:
    """Write the private file of a member, with the names of all and the intervals of what was fitted."""
    intervals = found.intervals(level)
    shown = {"weights": intervals["weights"][agent.index], "value": intervals["values"][agent.index]}
    if "beta" in intervals:
        by_agent = np.broadcast_to(intervals["beta"], (len(found.names), 2))
        shown["beta"] = by_agent[agent.index]
    notes = {"agents": list(found.names), "level": level, "intervals": jsonable(shown)}
    save_agent(agent, path, notes=notes)


def standalone_plan(agent: Agent) -> tuple[float, float]:
    """What a member would contribute to a model of its own, and the utility of that."""
    own = float(agent.weights[agent.index])
    alone = Federation([[own]], costs=agent.cost, caps=[agent.cap], payoff=agent.payoff, values=[agent.value])
    outcome = Standalone().solve(alone)
    return float(outcome.contributions[0]), float(outcome.standalone[0])


def agent_text(agent: Agent, names: list[str]) -> str:
    """What a private file says, in words."""
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
        f"{agent.name}, at place {agent.index} of {count_text(weights.size, 'member')}.",
        f"Full accuracy is worth {agent.value:.4g} of payoff to it; its curve is a {agent.payoff.family}"
        + (f" ({parameters})" if parameters else "")
        + f", a sample of its own counts {own:.4g}.",
        f"A sample of others counts, against one of its own: {', '.join(worth)}."
        if worth
        else "The data of others does not matter to it.",
        f"It can contribute {cap}, at a cost of {cost}.",
        f"Alone it would use {given:.4g} samples and have {utility:.4g}: less than that no deal should leave it.",
    ]
    return "\n".join(lines)


def agent_record(agent: Agent, names: list[str]) -> dict[str, Any]:
    """The same for programs."""
    given, utility = standalone_plan(agent)
    return {
        "agent": agent.name,
        "agents": names,
        "weights": agent.weights.tolist(),
        "value": agent.value,
        "standalone_contribution": given,
        "standalone": utility,
    }

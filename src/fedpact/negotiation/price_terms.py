"""A member's part in price discovery: what it says of a profile at the margin, and how its payoffs are shared out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.federation.arrays import sum_by

if TYPE_CHECKING:
    from fedpact.negotiation.agent import Agent, Answer, Question

# Of the value: with less to gain from more data an agent has enough, and names no prices.
MIN_SLOPE = 1e-40
OUTSIDE = {"outside": True}  # what is said of a task where the profile is beyond the domain of its payoff


def answer_prices(agent: Agent, question: Question) -> Answer:
    """Reveals, at the contributions asked about: payoffs and costs, their first and second derivatives.

    The prices of a task are a' w_j: its row of weights up to a factor. One number says how fast they fall, a'' / a'^2.
    """
    at = np.asarray(question["contributions"], dtype=np.float64)
    data = agent.weights @ at
    payoffs, slopes = agent.worth(data)
    inside = np.isfinite(slopes)
    curvatures = -agent.values * agent.payoff.curvature(np.where(inside, data, 0.0))
    enough = slopes <= MIN_SLOPE * agent.values
    tasks: list[Answer] = [
        {
            "payoff": float(payoffs[task]),
            "prices": np.where(enough[task], 0.0, slopes[task] * row).tolist(),
            "curvature": 0.0 if enough[task] else float(curvatures[task] / slopes[task] / slopes[task]),
        }
        if inside[task]
        else OUTSIDE
        for task, row in enumerate(agent.weights)
    ]
    own = at[agent.own_lots]
    costs = {
        "cost": agent.costs.value(own),
        "marginal_cost": agent.costs.slope(own),
        "cost_curvature": agent.costs.curvature(own),
    }
    listed = {key: np.broadcast_to(numbers, own.shape).tolist() for key, numbers in costs.items()}
    return {"tasks": tasks, "lots": [{key: listed[key][lot] for key in listed} for lot in range(own.size)]}


def answer_shares(agent: Agent, question: Question) -> Answer:
    """Reveals what `prices` does, and how its payoffs are shared out by the Shapley value.

    That is everybody's share of each and the slopes of the shares. A profile counts as outside where any coalition's
    contributions would be: the shares are means over all coalitions.
    """
    said = answer_prices(agent, question)
    at = np.asarray(question["contributions"], dtype=np.float64)
    brought = [sum_by(agent.lot_owners, row * at, agent.n_agents) for row in agent.weights]
    lowest = agent.worth(np.array([np.minimum(each, 0.0).sum() for each in brought]))[1]
    inside = [task for task, told in enumerate(said["tasks"]) if told != OUTSIDE and np.isfinite(lowest[task])]
    with np.errstate(over="ignore", invalid="ignore"):
        found = agent.rows(inside).shares(at)
    tasks = [OUTSIDE] * len(said["tasks"])
    for task, shares, slopes in zip(inside, *found, strict=True):
        if np.isfinite(shares).all() and np.isfinite(slopes).all():
            tasks[task] = said["tasks"][task] | {"shares": shares.tolist(), "slopes": slopes.tolist()}
    return said | {"tasks": tasks}


def answer_messages(agent: Agent, question: Question) -> dict[str, Any]:
    """Reveals nothing: the final messages are those that were agreed."""
    return {key: list(question[key]) for key in ("proposals", "prices")}

"""The best one agent could say in the message game instead, for tests: a concave problem at prices it cannot influence.

Its own prices only fine itself, so it is best to say zero. Its proposals move every s_j in a range. Where there is no
cap, proposals go up to a thousand times what is on the table. The gain is infinite for an agent that can get back into
the domain of its payoff.
"""

from __future__ import annotations

import numpy as np

import fedpact as fp
from fedpact.certificates.claims import agent_values, utility_tolerances
from fedpact.certificates.concave import ConcaveProblem, maximise
from fedpact.utils.arrays import FloatArray


def best_deviation(game: fp.MessageGame, agent: int, messages: fp.Messages) -> tuple[float, FloatArray]:
    """What an agent would gain by other messages at most, and its proposals then."""
    federation, here = game.federation, game.outcome(messages)
    matters, users = game.matters[agent], game.users
    proposals = np.where(game.matters, messages.proposals, 0.0)
    far = 1e3 * (1.0 + float(here.contributions.max()))
    ceiling = np.where(np.isfinite(federation.caps), federation.caps, far)
    others = (proposals.sum(axis=0) - proposals[agent]) / users
    low = np.where(matters, others, here.contributions)
    high = np.where(matters, others + ceiling / users, here.contributions)
    arrays, tasks = federation.arrays, federation.tasks_of(agent)
    own, weights = arrays.lot_owners == agent, arrays.weights[tasks]
    quadratic = np.where(own, arrays.quadratic, 0.0)
    problem = ConcaveProblem(
        weights=weights[None],
        values=arrays.values[None, tasks],
        payoff=arrays.payoff.take(tasks),
        background=(weights @ low)[None],
        linear=(here.prices[agent] + np.where(own, arrays.linear, 0.0) + 2.0 * quadratic * low)[None],
        quadratic=quadratic[None],
        upper=(high - low)[None],
        shared=np.zeros((1, 0, low.size)),
        limits=np.zeros((1, 0)),
    )
    start = np.clip(here.contributions - low, 0.0, high - low)[None]
    if not np.isfinite(problem.value(start)).all():  # from where the agent has most
        start = np.where(weights.sum(axis=0) > 0, high - low, 0.0)[None]
    profile = low + maximise(problem, start).x[0]
    wanted = np.where(matters, np.clip((profile - others) * users, 0.0, ceiling), 0.0)
    there = float(game.outcome(messages.replace(agent, wanted, np.zeros(users.size))).utilities[agent])
    if there > here.utilities[agent]:
        return there - float(here.utilities[agent]), wanted
    return 0.0, messages.proposals[agent]


def gains_by_messages(game: fp.MessageGame, messages: fp.Messages) -> FloatArray:
    """What each agent would gain by other messages, in units of what counts as rounding."""
    here = game.outcome(messages)
    payoffs = game.federation.arrays.payoffs(here.contributions)
    felt = np.where(np.isfinite(payoffs), np.abs(payoffs), 0.0)
    spent = game.federation.spending(here.contributions)
    tols = utility_tolerances(felt, spent, here.payments, agent_values(game.federation.arrays))
    return np.array([best_deviation(game, agent, messages)[0] for agent in range(game.federation.n_agents)]) / tols

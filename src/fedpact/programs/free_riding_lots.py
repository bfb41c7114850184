"""The free-riding equilibrium of agents with several lots of data, by their answers to each other."""

from __future__ import annotations

import numpy as np

from fedpact.federation import Federation
from fedpact.federation.lots import first_exceeded, shared_members
from fedpact.programs.best_response import best_free_lots, standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

MAX_ANSWERS, ANSWER_TOLERANCE = 1000, 1e-10  # of agents with several lots
MAX_TRIES, MAX_NEWTON_ANSWERS = 20, 12
FULL = 1.0 - 1e-9  # of a shared cap: where it counts as used up


def damped_answers(federation: Federation) -> FloatArray:
    """Agents with several lots answer all at once and go part of the way, less far when they overshoot.

    Newton steps on all slopes at once go ahead of them; the answers where they lead must agree.
    Stopping inequality: no best answer is further than 1e-10 of the largest contribution. Equals are treated alike.
    """
    profile, _ = standalone_optimum(federation)
    owners = [agent for agent in range(federation.n_agents) if federation.lots_of(agent).size]
    part, before, tries = 1.0, np.inf, 0
    for _ in range(MAX_ANSWERS):
        answer = profile.copy()
        for agent in owners:
            answer[federation.lots_of(agent)] = best_free_lots(federation, profile, agent)
        distance = float(np.abs(answer - profile).max())
        size = max(float(answer.max(initial=0.0)), np.finfo(float).tiny)
        if distance <= ANSWER_TOLERANCE * size:
            if not federation.admits(answer):
                raise outside_domain(federation, answer)
            return answer
        if tries < MAX_TRIES:
            tries, ahead = tries + 1, _newton_answers(federation, answer)
            if ahead is not None:
                profile, before = ahead, np.inf
                continue
        part = max(part / 2.0, 0.5 / len(owners)) if distance >= before else min(1.1 * part, 1.0)
        profile, before = profile + part * (answer - profile), distance
    raise NotConverged(
        "no free-riding equilibrium was reached: the members' answers go round in circles", result=profile
    )


def _newton_answers(federation: Federation, profile: FloatArray) -> FloatArray | None:
    """Newton steps on the slopes of every agent's own utility in its own lots, projected on the box; None if lost."""
    weights, caps, s = federation.dense_weights(), federation.caps, profile
    own = np.where(federation.task_owners[:, None] == federation.lot_owners, weights, 0.0)
    rows, sizes = shared_members(federation.shared_caps, s.size), [shared.cap for shared in federation.shared_caps]
    for _ in range(MAX_NEWTON_ANSWERS):
        if not federation.admits(s):
            return None
        bends = federation.values * federation.payoff.curvature(federation.data(s))
        slopes = own.T @ federation.marginal_payoffs(s) - federation.costs.slope(s)
        # What is left of the slopes where a shared cap is full: less the price of the cap, that of its steepest lot.
        worth = np.where(s < caps, slopes, 0.0)
        prices = np.array([max(0.0, float(worth[row > 0].max())) for row in rows])
        full = (rows @ s >= FULL * np.array(sizes)) & (prices > 0)
        slopes = slopes - prices[full] @ rows[full]
        free = np.flatnonzero(~((s <= 0) & (slopes <= 0)) & ~((s >= caps) & (slopes >= 0)))
        turning = own[:, free].T @ (bends[:, None] * weights[:, free])
        turning -= np.diag(federation.costs.curvature(s)[free])
        ahead = s.copy()
        if full.any():
            held, over = rows[full][:, free], rows[full] @ s - np.array(sizes)[full]
            turning = np.block([[turning, -held.T], [held, np.zeros((len(held), len(held)))]])
            ahead[free] -= np.linalg.lstsq(turning, np.append(slopes[free], over), rcond=None)[0][: free.size]
        else:
            ahead[free] -= np.linalg.lstsq(turning, slopes[free], rcond=None)[0]
        ahead = np.clip(ahead, 0.0, caps)
        if first_exceeded(ahead, federation.shared_caps) is not None:
            return None
        if np.abs(ahead - s).max() <= ANSWER_TOLERANCE * 1e-3 * max(float(s.max()), np.finfo(float).tiny):
            return ahead
        s = ahead
    return None


def outside_domain(federation: Federation, contributions: FloatArray) -> NotConverged:
    """Who is harmed most, and how far it would have to stay from that."""
    data = federation.data(contributions)
    floor = np.broadcast_to(federation.payoff.floor, data.shape)
    task = int(np.argmin(data - floor if np.isfinite(floor).all() else data))
    by = " by what others contribute for themselves"
    said = federation.payoff.harm_text(federation.task_labels, task, data[task], by=by)
    return NotConverged(f"no free-riding equilibrium was found: {said}; lower caps may help", result=contributions)

"""The most one agent could gain under accuracy shaping, where its payoff is held down to what it has earned.

Agent i has min(a_i(x, s_-i), earned_i(x)) - c_i(x), with earned_i its payoff alone up to its optimum alone s°, and from
there on a_i(s°, 0) + (1 + e) (c_i(x) - c_i(s°)). What is earned less the costs never falls, and a_i - c_i is concave:
so the best x is the peak of a_i - c_i if no more than that is earned there, and otherwise the last x at which no more
is earned than there is to have. Both are found by bisection over the whole range [0, cap].

At a vanishing bonus, e = 0, all x from s° to there are equally good. The bonus, however small, makes the largest of
them best: what an agent would spend on going there counts as a gain that it lets pass.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.deviations import Deviations, free_riding, isolation
from fedpact.certificates.shared_caps import best_contributions
from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

EARNED_PAYOFFS_SCOPE = "all contributions of one member in [0, cap], at the payoff it has earned"


def earning_payoff(federation: Federation, contributions: FloatArray, bonus: float) -> Deviations:
    """The best each agent could do where its payoff is held down to what it has earned."""
    if not federation.admits(contributions):
        anything = np.full(federation.n_agents, np.inf)
        return Deviations(actions=contributions, utilities=anything, scope="somebody is outside its payoff's domain")
    own, costs = federation.own_weights, federation.costs
    others = federation.data(contributions) - own * contributions
    alone, free = isolation(federation, contributions), free_riding(federation, contributions)
    spent = costs.value(alone.actions)

    def shared(x: FloatArray) -> FloatArray:
        reached = others + own * x
        inside = reached > federation.payoff.floor
        worth = federation.values * federation.payoff.value(np.where(inside, reached, 0.0))
        return np.asarray(np.where(inside, worth, -np.inf) - costs.value(x))

    def earned(x: FloatArray) -> FloatArray:
        before = np.minimum(x, alone.actions)
        had = federation.values * federation.payoff.value(own * before) - costs.value(before)
        return np.asarray(had + bonus * np.maximum(costs.value(x) - spent, 0.0))

    peak = free.actions
    last = best_contributions(lambda x: np.where(x <= peak, 1.0, shared(x) - earned(x)), federation.caps)
    best = np.where(earned(peak) >= shared(peak), peak, np.maximum(last, peak))
    utilities = np.minimum(shared(best), earned(best))
    scope = EARNED_PAYOFFS_SCOPE
    if bonus == 0.0:
        utilities = utilities + np.maximum(costs.value(best) - costs.value(np.maximum(contributions, alone.actions)), 0)
        scope = f"{EARNED_PAYOFFS_SCOPE}; at a vanishing bonus, what it would still spend for that counts as gained"
    return Deviations(actions=best, utilities=utilities, scope=scope)

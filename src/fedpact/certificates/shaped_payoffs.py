"""The most one member could gain under accuracy shaping, where its payoff is held down to what it has earned.

Member i has min(a_i(x, s_-i), earned_i(x)) - c_i(x), with earned_i its payoff alone up to its optimum alone s°, and
from there on a_i(s°, 0) + (1 + e) (c_i(x) - c_i(s°)). What is earned less the costs never falls, and a_i - c_i is
concave: so the best x is the peak of a_i - c_i if no more than that is earned there, and otherwise the last x at which
no more is earned than there is to have, found by bisection over the whole range [0, cap].

At a vanishing bonus, e = 0, all x from s° to there are equally good. The bonus, however small, makes the largest of
them best: what a member would spend on going there counts as a gain that it lets pass.
"""

from __future__ import annotations

import numpy as np

from fedpact.certificates.deviations import NO_DOMAIN_SCOPE, Deviations, free_riding, isolation, unbounded_deviations
from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray

HALVINGS = 200
EARNED_PAYOFFS_SCOPE = "all contributions of one member in [0, cap], at the payoff it has earned"


def earning_payoff(federation: Federation, contributions: FloatArray, bonus: float) -> Deviations:
    """The best each member could do where its payoff is held down to what it has earned; members have one lot each."""
    arrays = federation.arrays
    if not federation.admits(contributions):
        return unbounded_deviations(federation, contributions, NO_DOMAIN_SCOPE)
    others = arrays.data(contributions) - arrays.own_data(contributions)
    alone, free = isolation(federation, contributions), free_riding(federation, contributions)
    spent = arrays.lot_costs(alone.actions)

    def shared(x: FloatArray) -> FloatArray:
        return arrays.worth(others + arrays.own_data(x)) - arrays.lot_costs(x)

    def earned(x: FloatArray) -> FloatArray:
        before = np.minimum(x, alone.actions)
        had = arrays.worth(arrays.own_data(before)) - arrays.lot_costs(before)
        return had + bonus * np.maximum(arrays.lot_costs(x) - spent, 0.0)

    low = peak = free.actions
    high = end = np.maximum(np.minimum(arrays.caps, 2.0 * arrays.bounds()[0]), peak)  # beyond, more is spent than won
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        more = shared(middle) >= earned(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    last = np.where(shared(end) >= earned(end), end, low)
    best = np.where(earned(peak) >= shared(peak), peak, last)
    utilities = np.minimum(shared(best), earned(best))
    scope = EARNED_PAYOFFS_SCOPE
    if bonus == 0.0:
        had = np.maximum(contributions, alone.actions)
        utilities = utilities + np.maximum(arrays.lot_costs(best) - arrays.lot_costs(had), 0.0)
        scope = f"{EARNED_PAYOFFS_SCOPE}; at a vanishing bonus, what it would still spend for that counts as gained"
    return Deviations(actions=best, utilities=utilities, scope=scope)

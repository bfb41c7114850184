"""121 x 121 federations of three agents, solved at once, against the obvious way: one by one.

The grid is that of the paper's section 7.1.2. The obvious way is what one writes first, in plain NumPy here. For M^E:
SciPy's L-BFGS-B on welfare from five starts, of which the best counts. For M^Shap: best responses, each a bounded
scalar minimisation with a Shapley value summed over coalitions, until nobody moves by more than a tolerance; once with
SciPy's own tolerance, once with the finest at which they still settle, because SciPy finds a minimum to some 1e-6 and
no closer. Where the edge of the domain misleads them they never settle: such federations do not count, as they would
only make the obvious way look slower. Both are timed on some federations of the grid; the ratio is per federation.
"""

from itertools import combinations
from math import factorial

import numpy as np
from scipy.optimize import minimize, minimize_scalar

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once
from fedpact.comparison.batches import solve_arrays

POINTS = 121
SAMPLED = 60
BETA, COST, CAP = 0.02, 0.001, 400.0
STARTS = (0.0, 1.0, 10.0, 50.0, 200.0)
MOST_ROUNDS = 100  # those that settle do so in less than twenty
TOLERANCES = {"SciPy's tolerance": (1e-5, 1e-5), "the finest tolerance": (1e-9, 1e-6)}  # of a response, of a round
AT_LEAST = 100.0
COALITIONS = [set(members) for size in range(3) for members in combinations(range(3), size)]


def run():
    base, weights = grid()
    sample = np.random.default_rng(0).choice(len(weights), SAMPLED, replace=False)
    ours, outcome = _ours(base, weights, fp.ExternalityMechanism())
    theirs, found = once(lambda: [welfare_by_scipy(weights[place]) for place in sample])
    apart = np.abs(np.array(found) / outcome.welfare[sample] - 1.0).max()
    ratio = theirs / SAMPLED / ours
    yield _figure("M^E", f"welfare up to {apart:.0e} apart", "L-BFGS-B from five starts", ratio)
    ours, outcome = _ours(base, weights, fp.ShapleyMechanism())
    for words, tolerances in TOLERANCES.items():
        runs = {place: once(lambda: best_responses(weights[place], *tolerances)) for place in sample}
        settled = {place: ran for place, ran in runs.items() if ran[1] is not None}
        theirs = float(np.mean([seconds for seconds, _ in settled.values()]))
        apart = max(np.abs(found - outcome.contributions[place]).max() for place, (_, found) in settled.items())
        against = f"best responses, enumerated Shapley values, {words} ({len(settled)} of {SAMPLED} settle)"
        yield _figure("M^Shap", f"contributions up to {apart:.0e} apart", against, theirs / ours)


def _figure(mechanism, difference, against, ratio):
    what = f"{POINTS} x {POINTS} federations of three agents, {mechanism} ({difference})"
    return Figure(what=what, against=against, ratio=ratio, at_least=AT_LEAST)


def _ours(base, weights, mechanism):
    """Seconds per federation, and the outcomes."""

    def solve():
        return solve_arrays(base, base.arrays.repeated(len(weights), weights=weights), mechanism)

    seconds, outcomes = best_of(solve)
    return seconds / len(weights), outcomes


def grid():
    axis = np.linspace(-3.0, 3.0, POINTS)
    weights = np.tile(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.5], [1.0, 3.0, 1.0]]), (POINTS**2, 1, 1))
    weights[:, 0, 1], weights[:, 1, 0] = np.repeat(axis, POINTS), np.tile(axis, POINTS)
    base = fp.Federation(np.eye(3), costs=COST, caps=CAP, payoff=fp.PowerLaw(BETA))
    return base, weights


def total_payoff(weights, contributions):
    reach = 1.0 + weights @ contributions
    return float((1.0 - reach**-BETA).sum()) if (reach > 0).all() else -1e9


def welfare_by_scipy(weights):
    def loss(s):
        return COST * s.sum() - total_payoff(weights, s)

    found = [minimize(loss, np.full(3, start), method="L-BFGS-B", bounds=[(0.0, CAP)] * 3) for start in STARTS]
    return -min(each.fun for each in found)


def shapley_value(weights, contributions, agent):
    value = 0.0
    for coalition in COALITIONS:
        if agent in coalition:
            continue
        without = np.array([contributions[j] if j in coalition else 0.0 for j in range(3)])
        joined = without.copy()
        joined[agent] = contributions[agent]
        share = factorial(len(coalition)) * factorial(2 - len(coalition)) / 6
        value += share * (total_payoff(weights, joined) - total_payoff(weights, without))
    return value


def best_responses(weights, xatol, still):
    """The profile at which nobody moves by more than `still`; None if that never happens."""
    contributions = np.zeros(3)
    for _ in range(MOST_ROUNDS):
        before = contributions.copy()
        for agent in range(3):

            def loss(x):
                tried = contributions.copy()
                tried[agent] = x
                return COST * x - shapley_value(weights, tried, agent)

            contributions[agent] = minimize_scalar(
                loss, bounds=(0.0, CAP), method="bounded", options={"xatol": xatol}
            ).x
        if np.abs(contributions - before).max() < still:
            return contributions
    return None

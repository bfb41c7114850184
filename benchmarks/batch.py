"""A 121 x 121 grid of three agents, the paper's section 7.1.2, against the obvious way: one instance at a time.

The obvious way is what one writes first: SciPy's L-BFGS-B on welfare from five starts, the best of which counts; and
best responses, each a bounded scalar minimisation of a Shapley value summed over coalitions, until nothing moves. Both
are written in plain NumPy here. They are timed on a few instances of the grid; the ratio is per instance.
"""

from itertools import combinations
from math import factorial

import numpy as np
from scipy.optimize import minimize, minimize_scalar

import fedpact as fp
from benchmarks.timing import best_of

POINTS = 121
SAMPLED = 12
BETA, COST, CAP = 0.02, 0.001, 400.0
STARTS = (0.0, 1.0, 10.0, 50.0, 200.0)
STILL = 1e-9
COALITIONS = [set(members) for size in range(3) for members in combinations(range(3), size)]


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


def best_responses(weights):
    contributions = np.zeros(3)
    for _ in range(500):
        before = contributions.copy()
        for agent in range(3):

            def loss(x):
                tried = contributions.copy()
                tried[agent] = x
                return COST * x - shapley_value(weights, tried, agent)

            contributions[agent] = minimize_scalar(loss, bounds=(0.0, CAP), method="bounded", options={"xatol": 1e-9}).x
        if np.abs(contributions - before).max() < STILL:
            break
    return contributions


def run():
    base, weights = grid()
    sample = np.random.default_rng(0).choice(len(weights), SAMPLED, replace=False)
    obvious = {
        fp.ExternalityMechanism(): ("L-BFGS-B from five starts", welfare_by_scipy),
        fp.ShapleyMechanism(): ("best responses, enumerated Shapley values", best_responses),
    }
    ours, theirs = {}, {}
    for mechanism, (_, by_hand) in obvious.items():

        def solve():
            outcome = fp.solve_batch(fp.Batch.varied(base, weights=weights), mechanism)
            return outcome, outcome.certificates

        ours[mechanism], (outcome, _) = best_of(solve)
        theirs[mechanism], _ = best_of(lambda: [by_hand(weights[place]) for place in sample], repeats=1, warm=False)
        print(mechanism.name, ours[mechanism]/len(weights)*1e6, theirs[mechanism]/SAMPLED*1e6, theirs[mechanism]/SAMPLED/ours[mechanism]*len(weights))
        for place in sample:
            print(by_hand(weights[place]), outcome.welfare[place], outcome.contributions[place])

if __name__=="__main__": run()

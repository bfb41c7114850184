"""Solving the mechanisms: the welfare optimum against CVXPY, the Shapley equilibrium against one Shapley evaluation."""

import cvxpy as cp
import numpy as np

import fedpact as fp
from benchmarks.timing import best_of
from fedpact.programs.potential import shapley_optimum


def federation(n_agents):
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    costs = rng.uniform(0.002, 0.01, n_agents) * n_agents / 10
    return fp.Federation(weights, costs=costs, caps=400.0, payoff=fp.PowerLaw(0.3))


def by_cvxpy(game):
    contributions = cp.Variable(game.n_agents, nonneg=True)
    reach = 1.0 + game.weights @ contributions
    welfare = game.n_agents - cp.sum(cp.power(reach, -0.3)) - game.costs.linear @ contributions
    return cp.Problem(cp.Maximize(welfare), [contributions <= game.caps]).solve(solver=cp.CLARABEL)


def run():
    for n_agents in (5, 50, 200):
        game = federation(n_agents)
        ours, optimum = best_of(lambda: fp.social_optimum(game))
        theirs, value = best_of(lambda: by_cvxpy(game), repeats=1)
        label = f"welfare optimum, n = {n_agents}, difference {abs(value / optimum.welfare - 1.0):.0e}"
        yield label, "CVXPY with Clarabel", theirs / ours, "times faster"
    game = federation(200)
    ours, solution = best_of(lambda: shapley_optimum(game), repeats=1)
    once, _ = best_of(lambda: fp.shapley_values(game, solution.contributions))
    yield "Shapley equilibrium, n = 200", "one Shapley evaluation", ours / once, "times as long"

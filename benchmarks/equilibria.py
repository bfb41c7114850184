"""Solving the mechanisms: the welfare optimum against CVXPY, the Shapley equilibrium against one Shapley evaluation."""

import warnings

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once

OPTIMA = (5, 50, 1000)
EQUILIBRIA = (50, 200, 1000)


def run():
    _by_cvxpy(games.costly(3))  # imports
    for n_agents in OPTIMA:
        yield optimum_against_cvxpy(n_agents)
    for n_agents in EQUILIBRIA:
        yield equilibrium_against_values(n_agents)


def optimum_against_cvxpy(n_agents):
    """The same program stated in CVXPY and solved by Clarabel with power cones, which is its fastest way."""
    federation = games.costly(n_agents)
    ours, optimum = best_of(lambda: fp.social_optimum(federation))
    theirs, value = once(lambda: _by_cvxpy(federation))
    return Figure(
        what=f"welfare optimum, n = {n_agents} (difference {abs(value / optimum.welfare - 1.0):.0e})",
        against="CVXPY with Clarabel and power cones, stated and solved",
        ratio=theirs / ours,
        at_least=100.0 if n_agents == OPTIMA[-1] else 10.0,
    )


def equilibrium_against_values(n_agents):
    federation = games.costly(n_agents)
    ours, outcome = best_of(lambda: fp.ShapleyMechanism().solve(federation), repeats=1)
    reference, _ = best_of(lambda: fp.shapley_values(federation, outcome.contributions))
    return Figure(
        what=f"Shapley equilibrium, n = {n_agents}",
        against="one evaluation of the Shapley values",
        ratio=ours / reference,
        unit="times as long",
        at_most=50.0,
    )


def _by_cvxpy(federation):
    import cvxpy as cp

    contributions = cp.Variable(federation.n_agents, nonneg=True)
    reach = 1.0 + federation.weights @ contributions
    lost = cp.sum(cp.power(reach, -federation.payoff.beta, approx=False))
    welfare = federation.n_agents - lost - federation.costs.linear @ contributions
    problem = cp.Problem(cp.Maximize(welfare), [contributions <= federation.caps])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem.solve(solver=cp.CLARABEL)

"""Solving the mechanisms: the welfare optimum against CVXPY, the Shapley equilibrium against one Shapley evaluation."""

import warnings

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once
from fedpact.programs.shapley_equilibrium import shapley_optimum


def run():
    _by_cvxpy(games.costly(3), {})  # imports
    for n_agents in (5, 50, 200, 500):
        yield from optimum_against_cvxpy(n_agents)
    federation = games.costly(200)
    ours, solution = best_of(lambda: shapley_optimum(federation))
    reference, _ = best_of(lambda: fp.shapley_values(federation, solution.contributions))
    yield Figure(
        what="Shapley equilibrium, n = 200",
        against="one evaluation of the Shapley values",
        ratio=ours / reference,
        unit="times as long",
        at_most=60.0,
    )


def optimum_against_cvxpy(n_agents, *, at_least=None):
    """The same program stated in CVXPY and solved by Clarabel: as one writes it down, and as it is solved fastest."""
    federation = games.costly(n_agents)
    ours, optimum = best_of(lambda: fp.social_optimum(federation))
    spellings = {"": ({}, at_least), ", told to use power cones": ({"approx": False}, None)}
    for words, (options, bound) in spellings.items():
        theirs, value = once(lambda: _by_cvxpy(federation, options))
        yield Figure(
            what=f"welfare optimum, n = {n_agents} (difference {abs(value / optimum.welfare - 1.0):.0e})",
            against=f"CVXPY with Clarabel{words}, stated and solved",
            ratio=theirs / ours,
            at_least=bound,
        )


def _by_cvxpy(federation, options):
    import cvxpy as cp

    contributions = cp.Variable(federation.n_agents, nonneg=True)
    reach = 1.0 + federation.weights @ contributions
    lost = cp.sum(cp.power(reach, -federation.payoff.beta, **options))
    welfare = federation.n_agents - lost - federation.costs.linear @ contributions
    problem = cp.Problem(cp.Maximize(welfare), [contributions <= federation.caps])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that power cones would do better: they are measured as well
        return problem.solve(solver=cp.CLARABEL)

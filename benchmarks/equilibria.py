"""Solving the mechanisms: the welfare optimum against CVXPY, the Shapley equilibrium against one Shapley evaluation."""

import warnings

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.scaling import DENSE, log_slope
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
        at_most=25.0,
        before=17.7,
    )
    yield from growth_of_optimum()


# How many times as fast as each before members were decided on a few at a time.
OPTIMUM_BEFORE = {5: (3.71, 2.86), 50: (4.06, 1.83), 200: (20.2, 7.86), 500: (42.2, 4.09), 1000: (49.8, 2.49)}


def optimum_against_cvxpy(n_agents, *, at_least=None, at_least_by_cones=None):
    """The same program stated in CVXPY and solved by Clarabel: as one writes it down, and as it is solved fastest."""
    federation = games.costly(n_agents)
    ours, optimum = best_of(lambda: fp.social_optimum(federation))
    spellings = {"": ({}, at_least), ", told to use power cones": ({"approx": False}, at_least_by_cones)}
    for (words, (options, bound)), before in zip(spellings.items(), OPTIMUM_BEFORE[n_agents], strict=True):
        theirs, value = once(lambda: _by_cvxpy(federation, options))
        yield Figure(
            what=f"welfare optimum, n = {n_agents} (difference {abs(value / optimum.welfare - 1.0):.0e})",
            against=f"CVXPY with Clarabel{words}, stated and solved",
            ratio=theirs / ours,
            at_least=bound,
            before=before,
        )


def growth_of_optimum():
    """A dense factorisation grows with the third power."""
    seconds = {}
    for n_agents in DENSE:
        federation = games.costly(n_agents)
        seconds[n_agents], _ = best_of(lambda: fp.social_optimum(federation))
    yield Figure(
        what=f"welfare optimum: time against n, dense, n = {DENSE[0]} to {DENSE[-1]}",
        against="itself: the slope in log-log",
        ratio=log_slope(seconds),
        unit="(slope)",
        at_most=2.6,
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

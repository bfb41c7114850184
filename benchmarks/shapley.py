"""Exact Shapley values: the quadrature against enumeration, and against one exponential of a matrix as large."""

import numpy as np

import fedpact as fp
from benchmarks.timing import best_of


def federation(n_agents):
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents))
    np.fill_diagonal(weights, 1.0)
    return fp.Federation(weights, costs=0.1, payoff=fp.PowerLaw(0.5)), rng.uniform(1.0, 40.0, n_agents)


def run():
    for n_agents in (12, 16, 18):
        game, contributions = federation(n_agents)
        ours, found = best_of(lambda: fp.shapley_values(game, contributions, method="quadrature"))
        repeats = 1 if n_agents > 16 else 3
        theirs, exact = best_of(
            lambda: fp.shapley_values(game, contributions, method="enumeration"), repeats=repeats, warm=False
        )
        error = float(np.abs(found.values / exact.values - 1.0).max())
        yield f"Shapley values, n = {n_agents}, error {error:.0e}", "enumeration", theirs / ours, "times faster"
    for n_agents in (500, 1000, 2000):
        game, contributions = federation(n_agents)
        matrix = np.random.default_rng(0).random((n_agents, n_agents))
        reference, _ = best_of(lambda: np.exp(matrix), repeats=7)
        ours, found = best_of(lambda: fp.shapley_values(game, contributions, tolerance=1e-8))
        label = f"Shapley values, n = {n_agents}, efficiency gap {found.efficiency_gap:.0e}"
        yield label, "np.exp of an n x n matrix", ours / reference, "times as long"

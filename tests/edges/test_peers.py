"""Packages for Shapley values and cooperative games, given the game of a federation: their answers are ours.

Each test is skipped where its package is not installed; `make test-peers` runs them all, in the environment of the
benchmarks.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.groups import all_groups, group_optima

# Sums over all coalitions in another order.
EXACT = 1e-11

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


def imported(name: str, package: str) -> ModuleType:
    """A module of a peer, or a skip that says what to install."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except (ImportError, AttributeError) as error:  # old versions fail on a newer NumPy's attributes
            pytest.skip(f"{package} does not work here ({error}); `make test-peers` runs this where it does")


def federation(n_agents: int, *, harm: bool = False) -> tuple[fp.Federation, np.ndarray]:
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 2.0, (n_agents, n_agents)) - (0.3 * harm)
    np.fill_diagonal(weights, 1.0)
    made = fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(beta=0.5))
    return made, rng.uniform(0.0, 0.4 if harm else 20.0, n_agents)


@pytest.mark.parametrize("harm", [False, True])
@pytest.mark.parametrize(("library", "module"), [("shapiq", "shapiq"), ("shap", "shap"), ("pyDVL", "pydvl.valuation")])
def test_exact_shapley_values(library, module, harm):
    imported(module, library)
    from benchmarks import peers  # for environments with peers; it sets one thread

    fed, s = federation(7, harm=harm)
    np.testing.assert_allclose(peers.EXACT[library](fed, s), fp.shapley_values(fed, s).values, rtol=EXACT)


class TestTucoopy:
    def game(self, values):
        base = imported("tucoopy.base", "tucoopy")
        return base.Game.from_coalitions(
            n_players=int(np.log2(len(values))), values={mask: float(value) for mask, value in enumerate(values)}
        )

    @pytest.mark.parametrize("harm", [False, True])
    def test_nucleolus_and_least_core(self, harm):
        solutions = imported("tucoopy.solutions", "tucoopy")
        fed = federation(6, harm=harm)[0].replace(caps=5.0)
        groups = group_optima(fed)
        game, ours, size = self.game(groups.values), fp.least_core(fed), np.abs(groups.values).max()
        np.testing.assert_allclose(-solutions.least_core(game).epsilon, ours.level, atol=1e-9 * size)
        # Version 0.1.0 settles groups at one solution that other solutions of its program give more: its division may
        # be in the least core and not the nucleolus. It is never the better one.
        theirs = np.sort(-groups.gains(solutions.prenucleolus(game).x)[1:-1])
        mine = np.sort(-groups.gains(ours.utilities)[1:-1])
        apart = np.flatnonzero(np.abs(mine - theirs) > 1e-7 * size)
        assert not apart.size or mine[apart[0]] > theirs[apart[0]]

    @pytest.mark.parametrize("harm", [False, True])
    def test_semivalues(self, harm):
        solutions = imported("tucoopy.solutions", "tucoopy")
        fed, s = federation(7, harm=harm)
        game = self.game([fed.payoffs(inside * s).sum() for inside in all_groups(7)])
        for probability in (0.5, 0.2):
            theirs = solutions.weighted_banzhaf_value(game, p=probability)
            mechanism = fp.SemivalueMechanism(probability)
            ours = mechanism.payments(fed.arrays, s) + fed.payoffs(s)
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)

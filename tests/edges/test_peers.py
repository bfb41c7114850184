"""The adapters in the hands of the packages they are made for: their Shapley values are ours.

Nucleolus, least core and semivalues are held against tucoopy's.

Each test is skipped where its package is not installed; `make test-peers` runs them all, in the environment of the
benchmarks.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import numpy as np
import pytest
from fedpact.programs.groups import all_groups, group_optima
from fedpact.shapley.adapters import as_pydvl_utility, as_shapiq_game, coalition_game
from fedpact.shapley.enumeration import enumerate_semivalues
from fedpact.shapley.semivalues import integrate_semivalues

import fedpact as fp

# Sums over all coalitions in another order.
EXACT = 1e-11
STANDARD_ERRORS = 5.0

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
    names = [f"site {chr(65 + agent)}" for agent in range(n_agents)]
    made = fp.Federation(weights, costs=0.01, payoff=fp.PowerLaw(beta=0.5), names=names)
    return made, rng.uniform(0.0, 0.4 if harm else 20.0, n_agents)


class TestShapiq:
    @pytest.mark.parametrize("harm", [False, True])
    def test_exact_values(self, harm):
        shapiq = imported("shapiq", "shapiq")
        fed, s = federation(7, harm=harm)
        game = as_shapiq_game(fed, s)
        assert isinstance(game, shapiq.Game)
        theirs = shapiq.ExactComputer(game)("SV")
        ours = fp.shapley_values(fed, s)
        np.testing.assert_allclose([theirs[(agent,)] for agent in range(7)], ours.values, rtol=EXACT)

    def test_coalitions_by_name(self):
        imported("shapiq", "shapiq")
        fed, s = federation(4)
        game = as_shapiq_game(fed, s)
        alone = fed.payoffs(np.where(np.arange(4) == 2, s, 0.0)).sum()
        np.testing.assert_allclose(game([("site C",)]), alone, rtol=EXACT)
        np.testing.assert_allclose(game(game.empty_coalition), 0.0, atol=0)

    def test_an_approximator_runs_on_it(self):
        shapiq = imported("shapiq", "shapiq")
        fed, s = federation(8)
        approximator = shapiq.KernelSHAP(n=8, random_state=1)
        theirs = approximator.approximate(budget=2**8, game=as_shapiq_game(fed, s))
        ours = fp.shapley_values(fed, s)
        np.testing.assert_allclose([theirs[(agent,)] for agent in range(8)], ours.values, rtol=1e-6)


class TestShap:
    """Agents are features, absent at 0 and present at 1, and `values` of a game is a model of them."""

    @pytest.mark.parametrize("harm", [False, True])
    @pytest.mark.parametrize("explainer", ["ExactExplainer", "KernelExplainer"])
    def test_exact_values(self, explainer, harm):
        shap = imported("shap", "shap")
        fed, s = federation(7, harm=harm)
        explain = getattr(shap, explainer)(coalition_game(fed, s).values, np.zeros((1, 7)))
        theirs = explain(np.ones((1, 7))).values[0]
        np.testing.assert_allclose(theirs, fp.shapley_values(fed, s).values, rtol=EXACT)

    def test_sampled_values_add_up(self):
        shap = imported("shap", "shap")
        fed, s = federation(30)
        explain = shap.PermutationExplainer(coalition_game(fed, s).values, np.zeros((1, 30)), seed=1)
        theirs = explain(np.ones((1, 30)), max_evals=1000, silent=True).values[0]
        np.testing.assert_allclose(theirs.sum(), fed.payoffs(s).sum(), rtol=EXACT)


class TestPyDVL:
    @pytest.mark.parametrize("harm", [False, True])
    def test_exact_values(self, harm):
        valuation = imported("pydvl.valuation", "pyDVL 0.10")
        fed, s = federation(6, harm=harm)
        utility = as_pydvl_utility(fed, s)
        method = valuation.ShapleyValuation(
            utility, valuation.DeterministicUniformSampler(), valuation.NoStopping(), progress=False
        )
        result = self.fitted(method, utility)
        ours = fp.shapley_values(fed, s)
        np.testing.assert_allclose(result.values, ours.values, rtol=EXACT)
        assert result.names.tolist() == list(fed.names)

    def test_sampled_values(self):
        valuation = imported("pydvl.valuation", "pyDVL 0.10")
        fed, s = federation(5)
        utility = as_pydvl_utility(fed, s)
        method = valuation.ShapleyValuation(
            utility, valuation.PermutationSampler(seed=3), valuation.MinUpdates(2000), progress=False
        )
        result = self.fitted(method, utility)
        room = STANDARD_ERRORS * result.stderr
        assert (np.abs(result.values - fp.shapley_values(fed, s).values) <= room).all()
        np.testing.assert_allclose(result.values.sum(), fed.payoffs(s).sum(), rtol=1e-6)

    @staticmethod
    def fitted(method, utility):
        joblib = imported("joblib", "joblib")
        # One process: with more, pyDVL 0.10 can report convergence with players never updated.
        with joblib.parallel_config(n_jobs=1):
            return method.fit(utility.training_data).result


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
            for ours in (enumerate_semivalues, integrate_semivalues):
                np.testing.assert_allclose(ours(fed, s, probability), theirs, rtol=1e-10)

"""The adapters in the hands of the packages they are made for: their Shapley values are ours.

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
from fedpact.shapley.adapters import as_pydvl_utility, as_shapiq_game, coalition_game

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

"""The peers on a federation at a profile: each is given the game as its own kind of object and returns Shapley values.

The value function is NumPy over whole batches of coalitions wherever the peer asks for batches: shapiq and shap do,
pyDVL asks for one coalition at a time. The peers are imported where they are used; `make bench` installs them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 1


def coalition_values(federation, contributions):
    """The payoffs of all when only a coalition contributes, as a function of coalitions in the rows of a matrix."""
    return lambda coalitions: federation.arrays.payoffs(np.asarray(coalitions, dtype=float) * contributions).sum(-1)


def as_shapiq_game(federation, contributions):
    import shapiq

    class FederationGame(shapiq.Game):
        def __init__(self):
            super().__init__(federation.n_agents, normalize=False)

        value_function = staticmethod(coalition_values(federation, contributions))

    return FederationGame()


def as_pydvl_utility(federation, contributions):
    from pydvl.valuation.dataset import Dataset
    from pydvl.valuation.utility.base import UtilityBase

    class FederationUtility(UtilityBase):
        def __call__(self, sample):
            if sample is None:
                return 0.0
            chosen = np.asarray(sample.subset)  # one coalition at a time costs no more than its members
            data = federation.weights[:, chosen] @ contributions[chosen]
            return float(federation.arrays.worth(data).sum())

    agents = np.arange(federation.n_agents)
    return FederationUtility().with_dataset(Dataset(agents[:, None], np.zeros(agents.size)), copy=False)


def shapiq_exact(federation, contributions):
    import shapiq

    return _of_shapiq(shapiq.ExactComputer(as_shapiq_game(federation, contributions))("SV"), federation.n_agents)


def shap_exact(federation, contributions):
    return _of_shap("Exact", federation, contributions, max_evals=2**federation.n_agents)


def pydvl_exact(federation, contributions):
    import pydvl.valuation as pv

    return _of_pydvl(federation, contributions, pv.DeterministicUniformSampler(), pv.NoStopping())


def shapiq_approximator(name):
    def approximate(federation, contributions, evaluations):
        import shapiq

        approximator = getattr(shapiq, name)(n=federation.n_agents, random_state=SEED)
        game = as_shapiq_game(federation, contributions)
        return _of_shapiq(approximator.approximate(budget=evaluations, game=game), federation.n_agents)

    return approximate


def shap_permutations(federation, contributions, evaluations):
    return _of_shap("Permutation", federation, contributions, max_evals=evaluations, options={"seed": SEED})


def shap_kernel(federation, contributions, evaluations):
    import shap

    absent, present = np.zeros((1, federation.n_agents)), np.ones((1, federation.n_agents))
    explainer = shap.KernelExplainer(coalition_values(federation, contributions), absent, seed=SEED)
    return explainer.shap_values(present, nsamples=evaluations, l1_reg=False, silent=True)[0]


def pydvl_harmonic_strata(federation, contributions, evaluations):
    import pydvl.valuation as pv

    sampler = pv.VRDSSampler(max(evaluations // (2 * federation.n_agents), 1), seed=SEED)
    return _of_pydvl(federation, contributions, sampler, pv.NoStopping())


def pydvl_permutations(federation, contributions, evaluations):
    import pydvl.valuation as pv

    stopping = pv.MinUpdates(max(evaluations // federation.n_agents, 1))
    return _of_pydvl(federation, contributions, pv.AntitheticPermutationSampler(seed=SEED), stopping)


@dataclass(frozen=True, kw_only=True)
class Approximator:
    """A method that estimates Shapley values from about so many coalition values, for up to `largest` agents."""

    library: str
    method: str
    estimate: Callable[..., Any]
    largest: int = 1000


EXACT = {"shapiq": shapiq_exact, "shap": shap_exact, "pyDVL": pydvl_exact}

# The best of each library on these games. Left out: shapiq's regressions (KernelSHAP and kin, which shap's stands for)
# and its Owen sampling, whose error stays at several hundred per cent; SVARM beyond 50 agents, where it takes minutes
# to begin.
APPROXIMATORS = (
    Approximator(library="shapiq", method="SVARM", estimate=shapiq_approximator("SVARM"), largest=50),
    Approximator(library="shapiq", method="stratified", estimate=shapiq_approximator("StratifiedSamplingSV")),
    Approximator(library="shapiq", method="permutations", estimate=shapiq_approximator("PermutationSamplingSV")),
    Approximator(library="shap", method="kernel", estimate=shap_kernel),
    Approximator(library="shap", method="permutations", estimate=shap_permutations),
    Approximator(library="pyDVL", method="harmonic strata", estimate=pydvl_harmonic_strata),
    Approximator(library="pyDVL", method="permutations", estimate=pydvl_permutations),
)


def _of_shapiq(result, n_agents):
    return np.array([result[(agent,)] for agent in range(n_agents)])


def _of_shap(explainer, federation, contributions, *, max_evals, options=None):
    import shap

    absent, present = np.zeros((1, federation.n_agents)), np.ones((1, federation.n_agents))
    model = coalition_values(federation, contributions)
    explain = getattr(shap.explainers, explainer)(model, absent, **(options or {}))
    return explain(present, max_evals=max_evals, silent=True).values[0]


def _of_pydvl(federation, contributions, sampler, stopping):
    import joblib
    import pydvl.valuation as pv

    utility = as_pydvl_utility(federation, contributions)
    method = pv.ShapleyValuation(utility, sampler, stopping, progress=False)
    # One process: with more, pyDVL 0.10 can report convergence with players never updated.
    with joblib.parallel_config(n_jobs=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.fit(utility.training_data).result.values

"""Groups that could leave: what all of them reach by themselves against SciPy, and the proof that none gains."""

import numpy as np
from scipy.optimize import minimize

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once
from fedpact.certificates import Certificates
from fedpact.programs.groups import all_groups, group_optima
from fedpact.programs.worst_group import worst_group

EVERY = 15  # one group in so many is solved by SciPy, and its time multiplied


def run():
    yield all_groups_against_scipy(12)
    yield certificate_against_exponentials(1000)
    yield search_against_certificate(40)


def all_groups_against_scipy(n_agents):
    """The values of all groups: compiled Newton steps against L-BFGS-B with exact slopes, one group after the other."""
    federation, groups = games.costly(n_agents), all_groups(n_agents)
    ours, optima = best_of(lambda: group_optima(federation, groups))
    some = np.arange(1, len(groups), EVERY)
    _by_scipy(federation.take(groups[-1]))  # imports
    theirs, values = once(lambda: np.array([_by_scipy(federation.take(group)) for group in groups[some]]))
    difference = float((values / optima.values[some] - 1.0).max())  # SciPy may stop early, never above the optimum
    assert difference < 1e-9, f"SciPy found a group worth more, by {difference:.1e}"
    return Figure(
        what=f"values of all {len(groups) - 1} groups of {n_agents} agents",
        against="SciPy's L-BFGS-B with slopes, one by one",
        ratio=theirs * (len(groups) - 1) / some.size / ours,
        at_least=100.0,
    )


def certificate_against_exponentials(n_agents):
    """The proof that no group gains, by prices: in units of one exponential of the weights."""
    federation = games.costly(n_agents)
    outcome = fp.ExternalityMechanism().solve(federation)
    ours, certificate = best_of(lambda: Certificates(outcome)["core"], repeats=5)
    assert certificate.holds, certificate.scope
    weights = federation.dense_weights()
    reference, _ = best_of(lambda: np.exp(weights), repeats=5)
    return Figure(
        what=f"no group of {n_agents} agents gains by leaving M^E, proved",
        against="one exponential of the weights",
        ratio=ours / reference,
        unit="times as long",
        at_most=10.0,
    )


def search_against_certificate(n_agents):
    """The group that gains most under M^Shap, to the last digit: in units of solving M^Shap."""
    federation = games.costly(n_agents)
    reference, outcome = best_of(lambda: fp.ShapleyMechanism().solve(federation))
    ours, found = once(lambda: worst_group(federation, outcome.utilities))
    closed = "bracket closed" if found.exact else f"bracket {found.upper_bound / found.gain - 1.0:.1%} wide"
    return Figure(
        what=f"the group of {n_agents} that gains most by leaving M^Shap ({closed})",
        against="solving M^Shap",
        ratio=ours / reference,
        unit="times as long",
    )


def _by_scipy(federation):
    def loss(contributions):
        data = federation.weights @ contributions
        slopes = federation.values * federation.payoff.slope(data)
        worth = federation.values @ federation.payoff.value(data) - federation.costs.value(contributions).sum()
        return -worth, federation.costs.slope(contributions) - federation.weights.T @ slopes

    start = np.full(federation.n_agents, 1.0)
    bounds = [(0.0, cap) for cap in federation.caps]
    return -minimize(
        loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-10}
    ).fun

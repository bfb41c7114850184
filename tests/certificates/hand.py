"""Instances, and the quantities of section 2 of the paper worked out by hand: plain formulas, grids and permutations.

Nothing here calls the code under test beyond reading an instance's numbers.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

import fedpact as fp
from fedpact.utils.arrays import FloatArray
from old_hospitals import example

MECHANISMS: dict[str, fp.Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism(), fp.Voluntary(), fp.Standalone())
}


def figure_5(outgoing: float = -0.3, incoming: float = 0.0) -> fp.Federation:
    """Section 8 of the paper: agents 1 to 3 value each other's data fully, agent 0's harms them."""
    weights = np.ones((4, 4))
    weights[1:, 0] = outgoing
    weights[0, 1:] = incoming
    return fp.Federation(weights, costs=[0.1, 0.3, 0.3, 0.3], caps=3.0, payoff=fp.PowerLaw(beta=0.5))


def capped() -> fp.Federation:
    """Table 1's W2 with caps that bind for agents 0 and 2."""
    weights = example("paper-w2").federation.weights
    return fp.Federation(weights, costs=0.001, caps=[10.0, 400.0, 20.0], payoff=fp.PowerLaw(beta=0.02))


def useless() -> fp.Federation:
    """Data dearer than it is worth to everybody together: all contribute nothing."""
    return fp.Federation(np.ones((3, 3)), costs=1.0, caps=400.0, payoff=fp.PowerLaw(beta=0.02))


def single() -> fp.Federation:
    """One agent: every mechanism is standing alone."""
    return fp.Federation([[1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))


def tied() -> fp.Federation:
    """Two pairs of twins: many optima, equal agents, ties in every search for the worst."""
    weights = np.array([[1.0, 1.0, 0.5, 0.5], [1.0, 1.0, 0.5, 0.5], [0.2, 0.2, 1.0, 1.0], [0.2, 0.2, 1.0, 1.0]])
    return fp.Federation(weights, costs=[0.01, 0.01, 0.02, 0.02], caps=50.0, payoff=fp.PowerLaw(beta=0.3))


INSTANCES: dict[str, fp.Federation] = {
    "hospitals": example("hospitals").federation,
    "paper-w1": example("paper-w1").federation,
    "paper-w2": example("paper-w2").federation,
    "paper-w3": example("paper-w3").federation,
    "figure 5": figure_5(),
    "capped": capped(),
    "useless": useless(),
    "single": single(),
    "tied": tied(),
}


def payoffs(federation: fp.Federation, profile: FloatArray) -> FloatArray:
    """a_i(s) of the paper's family, equation (3)."""
    return 1.0 - (1.0 + federation.weights @ profile) ** -_beta(federation)


def slopes(federation: fp.Federation, profile: FloatArray) -> FloatArray:
    """a_i' with respect to the reach xi_i."""
    beta = _beta(federation)
    return beta * (1.0 + federation.weights @ profile) ** (-beta - 1.0)


def costs(federation: fp.Federation, profile: FloatArray) -> FloatArray:
    return federation.costs.linear * profile + federation.costs.quadratic * profile**2


def welfare(federation: fp.Federation, profile: FloatArray) -> float:
    return float(payoffs(federation, profile).sum() - costs(federation, profile).sum())


def prices(federation: fp.Federation, profile: FloatArray) -> FloatArray:
    """Personal prices l_ij = da_i/ds_j, and l_jj such that every column sums to zero."""
    matrix = slopes(federation, profile)[:, None] * federation.weights
    np.fill_diagonal(matrix, 0.0)
    return matrix - np.diag(matrix.sum(axis=0))


def shapley(federation: fp.Federation, profile: FloatArray) -> FloatArray:
    """Equation (8) as it is first taught: agents join in every order and are credited with what they add."""
    n_agents = len(profile)
    orders = list(permutations(range(n_agents)))
    shares = np.zeros(n_agents)
    for order in orders:
        joined = np.zeros(n_agents)
        before = 0.0
        for agent in order:
            joined[agent] = profile[agent]
            after = payoffs(federation, joined).sum()
            shares[agent] += after - before
            before = after
    return shares / len(orders)


def alone(federation: fp.Federation, agent: int, contribution: FloatArray) -> FloatArray:
    """Utility of training alone with each of several contributions."""
    own = federation.weights[agent, agent]
    reach = 1.0 + own * contribution
    cost = federation.costs.linear[agent] * contribution + federation.costs.quadratic[agent] * contribution**2
    return 1.0 - reach ** -_beta(federation) - cost


def standalone(federation: fp.Federation) -> FloatArray:
    """v_i*, by a grid that is refined around its best point."""
    return np.array(
        [grid_maximum(lambda x, i=agent: alone(federation, i, x), cap)[1] for agent, cap in enumerate(federation.caps)]
    )


def grid_maximum(utility, cap: float) -> tuple[float, float]:
    """The best point of a function on [0, cap] and its value: 401 points, four times refined around the best."""
    low, high = 0.0, cap
    for _ in range(5):
        grid = np.linspace(low, high, 401)
        found = np.asarray(utility(grid))
        best = int(np.argmax(found))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 400)]
    return float(grid[best]), float(found[best])


def moved(payments: FloatArray, payer: int, payee: int, amount: float) -> FloatArray:
    """The payments with `amount` taken from one agent and given to another."""
    changed = np.array(payments)
    changed[payer] -= amount
    changed[payee] += amount
    return changed


def _beta(federation: fp.Federation) -> float:
    assert isinstance(federation.payoff, fp.PowerLaw)
    return float(federation.payoff.beta)

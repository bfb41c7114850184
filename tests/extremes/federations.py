"""Federations over up to twelve orders of magnitude: every family, cost and sign, sparse and dense, of 1 to 60 agents.

They come in groups of `GROUP` with one size and one family, because a batch must have that. Everything follows from the
seed and the number of the group.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import fedpact as fp
from fedpact.federation import Payoff
from fedpact.utils.arrays import FloatArray

GROUP = 4
FAMILIES = ("power-law", "log", "michaelis", "exponential")
DECADES = (1.0, 3.0, 6.0, 12.0)  # from the smallest to the largest weight, cost, cap or value of a federation
SIZES = ((1, 4), (5, 8), (9, 16), (17, 60))
SIZE_CHANCES = (0.45, 0.3, 0.15, 0.1)  # large ones cost most
PARAMETERS = {"power-law": (-2.5, 0.7), "michaelis": (-3.0, 3.0), "exponential": (-3.0, 3.0)}  # powers of ten


def draw_group(seed: int, group: int) -> list[fp.Federation]:
    """The federations of one group."""
    rng = np.random.default_rng([seed, group])
    low, high = SIZES[rng.choice(len(SIZES), p=SIZE_CHANCES)]
    n_agents, family = int(rng.integers(low, high + 1)), str(rng.choice(FAMILIES))
    return [_draw(rng, n_agents, family) for _ in range(GROUP)]


def _draw(rng: np.random.Generator, n_agents: int, family: str) -> fp.Federation:
    decades = float(rng.choice(DECADES))

    def spread(*shape: int) -> FloatArray:
        return np.asarray(10.0 ** rng.uniform(-decades / 2, decades / 2, shape))

    payoff = _draw_payoff(rng, n_agents, family)
    weights = _draw_weights(rng, n_agents, spread)
    values, caps = spread(n_agents), _draw_caps(rng, n_agents, spread)
    if rng.random() < 0.1:  # equal agents: ties everywhere, and many optima
        weights = np.full_like(weights, float(weights[0, 0]))
        values, caps = np.full_like(values, values[0]), np.full_like(caps, caps[0])
    rates = spread(n_agents)
    if rng.random() < 0.5:  # costs that leave something to decide, rather than any
        worth = np.maximum(weights, 0.0).T @ (values * payoff.slope(np.zeros(n_agents)))
        rates = np.maximum(worth, np.finfo(float).tiny) * 10.0 ** rng.uniform(-decades, 0.3, n_agents)
    costs: fp.Linear | fp.Quadratic = fp.Linear(rates)
    if rng.random() < 0.5:
        costs = fp.Quadratic(rates * (rng.random(n_agents) < 0.8), rates * spread(n_agents))
    dense = rng.random() < 0.5
    return fp.Federation(
        weights if dense else sp.csr_array(weights), costs=costs, caps=caps, payoff=payoff, values=values
    )


def _draw_payoff(rng: np.random.Generator, n_agents: int, family: str) -> Payoff:
    if family == "log":
        return fp.Log()
    low, high = PARAMETERS[family]
    parameter = 10.0 ** rng.uniform(low, high, None if rng.random() < 0.3 else n_agents)
    return {"power-law": fp.PowerLaw, "michaelis": fp.Michaelis, "exponential": fp.Exponential}[family](parameter)


def _draw_weights(rng: np.random.Generator, n_agents: int, spread) -> FloatArray:
    """Dense or sparse, with no harm, a little or much."""
    shape = (n_agents, n_agents)
    density = rng.choice([1.0, 0.8, 0.3, 2.0 / n_agents])
    weights = spread(*shape) * (rng.random(shape) < density)
    weights = np.where(rng.random(shape) < rng.choice([0.0, 0.0, 0.1, 0.3]), -weights, weights)
    np.fill_diagonal(weights, 1.0 if rng.random() < 0.5 else spread(n_agents))
    return weights


def _draw_caps(rng: np.random.Generator, n_agents: int, spread) -> FloatArray:
    """None, some or all bound; now and then somebody has nothing to give."""
    bounded = rng.random(n_agents) < rng.choice([0.0, 0.5, 1.0])
    caps = np.where(bounded, spread(n_agents) * 10.0 ** rng.uniform(-1.0, 3.0), np.inf)
    return np.where(rng.random(n_agents) < 0.03, 0.0, caps)

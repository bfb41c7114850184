"""Random federations made so that a chosen profile is an interior equilibrium: costs follow from marginal values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import fedpact as fp
from fedpact.arrays import FloatArray

ROOM = 20.0  # caps, in multiples of the chosen profile


def homogeneous(seed: int, count: int) -> Iterator[fp.Federation]:
    """Equal agents: n from 2 to 8, the paper's family, costs below what data is worth to everybody together."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n_agents = int(rng.integers(2, 9))
        beta = float(np.exp(rng.uniform(np.log(0.005), 0.0)))
        cost = beta * n_agents * np.exp(rng.uniform(-6.0, -0.2))
        yield fp.Federation(np.ones((n_agents, n_agents)), costs=cost, caps=1e6, payoff=fp.PowerLaw(beta=beta))


def interior_optima(seed: int, count: int, *, harm: bool = False) -> Iterator[tuple[fp.Federation, FloatArray]]:
    """Federations of 3 to 7 agents with a welfare optimum strictly inside the caps, and that optimum."""
    rng = np.random.default_rng(seed)
    while count:
        weights, profile, beta = _drawn(rng, harm=harm)
        reach = 1.0 + weights @ profile
        if (reach <= 0.1).any():
            continue
        costs = beta * reach ** (-beta - 1.0) @ weights
        if (costs <= 1e-9).any():
            continue
        yield _federation(weights, costs, profile, beta), profile
        count -= 1


def interior_shapley_equilibria(seed: int, count: int) -> Iterator[tuple[fp.Federation, FloatArray]]:
    """Federations of 3 to 7 agents with a Shapley equilibrium strictly inside the caps, and that equilibrium."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        weights, profile, beta = _drawn(rng, harm=False)
        trial = _federation(weights, np.ones(len(profile)), profile, beta)
        costs = fp.shapley_values(trial, profile, method="enumeration").gradient
        yield _federation(weights, costs, profile, beta), profile


def _drawn(rng: np.random.Generator, *, harm: bool) -> tuple[FloatArray, FloatArray, float]:
    n_agents = int(rng.integers(3, 8))
    weights = rng.uniform(0.05, 2.0, (n_agents, n_agents))
    if harm:
        weights = np.where(rng.random((n_agents, n_agents)) < 0.3, -0.5 * weights, weights)
    np.fill_diagonal(weights, 1.0)
    return weights, np.exp(rng.uniform(-2.0, 3.0, n_agents)), float(np.exp(rng.uniform(np.log(0.01), 0.0)))


def _federation(weights: FloatArray, costs: FloatArray, profile: FloatArray, beta: float) -> fp.Federation:
    return fp.Federation(weights, costs=costs, caps=ROOM * profile, payoff=fp.PowerLaw(beta=beta))

"""Shapley values from sampled orders: for checking, and for values that can only be evaluated.

Agents join one by one in a random order and each is credited with what it adds; each order is followed by its reverse
(antithetic), whose errors tend to cancel. The standard error of a value is that of the mean over such pairs. Sampling
can refute, never prove.
"""

from __future__ import annotations

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.errors import InvalidInput
from fedpact.federation import Federation

__all__ = ["sample_shapley"]


def sample_shapley(
    federation: Federation, contributions: FloatArray, *, permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates of the Shapley values and of d phi_j / d s_j, and the values' standard errors.

    Cost: `permutations` x n coalition values.
    """
    if permutations < 4:
        raise InvalidInput(f"permutations must be at least 4, to tell the error, got {permutations}")
    n_agents = federation.n_agents
    weights = federation.dense_weights()
    pairs = permutations // 2
    values = np.zeros((pairs, n_agents))
    gradient = np.zeros(n_agents)
    for pair in range(pairs):
        order = rng.permutation(n_agents)
        for sequence in (order, order[::-1]):
            steps = (weights * contributions)[:, sequence].T
            after = np.cumsum(steps, axis=0)
            values[pair, sequence] += federation.payoff.increment(after - steps, steps) @ federation.values / 2.0
            slopes = federation.payoff.slope(after) * federation.values
            gradient[sequence] += np.einsum("ki,ik->k", slopes, weights[:, sequence])
    errors = values.std(axis=0, ddof=1) / np.sqrt(pairs)
    return values.mean(axis=0), gradient / (2 * pairs), errors

"""Contribution vectors worth considering for the next training: coalitions at a few levels, and mixtures."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fedpact.utils.arrays import FloatArray

__all__ = ["candidates"]

LEVELS = (0.1, 0.4, 1.0)  # of what an agent can contribute
ALL_COALITIONS = 6  # agents up to which every coalition is considered
MOST_PAIRS, MIXTURES = 60, 60


def candidates(most: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(candidates, n): distinct contribution vectors up to `most`, none of them empty."""
    n_agents = most.size
    members = _coalitions(n_agents, rng)
    levels = np.concatenate([level * members for level in LEVELS])
    mixed = rng.choice([0.0, *LEVELS], size=(MIXTURES, n_agents))
    found = np.unique(np.concatenate([levels, mixed]) * most, axis=0)
    return np.asarray(found[found.any(axis=1)])


def _coalitions(n_agents: int, rng: np.random.Generator) -> FloatArray:
    """All coalitions of a few agents; of many everybody, everybody but one, each alone, and some pairs."""
    everybody = np.ones((1, n_agents))
    if n_agents <= ALL_COALITIONS:
        numbers = np.arange(1, 2**n_agents)
        return (numbers[:, None] >> np.arange(n_agents) & 1).astype(np.float64)
    pairs = np.array(list(combinations(range(n_agents), 2)))
    pairs = pairs[rng.permutation(len(pairs))[:MOST_PAIRS]]
    two = np.zeros((len(pairs), n_agents))
    np.put_along_axis(two, pairs, 1.0, axis=1)
    return np.concatenate([everybody, 1.0 - np.eye(n_agents), np.eye(n_agents), two])

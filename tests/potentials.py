"""Shapley values by all orders, and the Hart-Mas-Colell potential over all coalitions, to hold other routes against."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import factorial

import numpy as np

from fedpact.federation.arrays import FederationArrays
from fedpact.shapley.coalitions import coalition_data, coalition_sizes, size_coefficients


def summed_potential(arrays: FederationArrays, contributions: np.ndarray) -> np.ndarray:
    """P(s), (...), of the payoffs alone: the sum over coalitions X of (|X|-1)! (n-|X|)! / n! times what X earns."""
    brought = np.moveaxis(arrays.member_data(contributions), -1, 0)
    data = coalition_data(brought.reshape(arrays.n_agents, -1)).reshape(-1, *brought.shape[1:])
    counted = size_coefficients(arrays.n_agents)[coalition_sizes(arrays.n_agents)]
    return sum(share * arrays.worth(each).sum(axis=-1) for share, each in zip(counted, data, strict=True))


def average_over_orders(n_agents: int, worth: Callable[[tuple[int, ...]], float]) -> np.ndarray:
    """What each agent adds when it joins, averaged over all orders; `worth` is what a group has."""
    values = np.zeros(n_agents)
    for order in permutations(range(n_agents)):
        for place, agent in enumerate(order):
            values[agent] += worth(order[: place + 1]) - worth(order[:place])
    return values / factorial(n_agents)

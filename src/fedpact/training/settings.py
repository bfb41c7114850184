"""How models are trained, and where everything random comes from: one seed, with a stream of numbers for each purpose.

Changing what one stream is used for leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import POSITIVE, one_number, positive, whole_number
from fedpact.utils.errors import InvalidInput, short_repr

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Federated averaging with stochastic gradient descent; the paper's settings unless told otherwise."""

    rounds: int = 20  # how often the agents train and their models are averaged; at least 1
    local_epochs: int = 1  # how often an agent goes through its samples in a round; at least 1
    learning_rate: float = 0.05  # positive
    momentum: float = 0.9  # from 0 to below 1; it starts anew in every round
    batch_size: int = 32  # samples a step; at least 1
    hidden: tuple[int, ...] = (128, 64)  # sizes of the hidden layers, each at least 1

    def __post_init__(self) -> None:
        for label in ("rounds", "local_epochs", "batch_size"):
            object.__setattr__(self, label, whole_number(label, getattr(self, label), least=1))
        rules = {"learning_rate": (positive, POSITIVE), "momentum": (lambda x: (x >= 0) & (x < 1), "from 0 to below 1")}
        for label, rule in rules.items():
            object.__setattr__(self, label, one_number(label, getattr(self, label), *rule))
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise InvalidInput(f"hidden must be a list of sizes, one per hidden layer, got {short_repr(self.hidden)}")
        sizes = (whole_number(f"hidden[{layer}]", size, least=1) for layer, size in enumerate(self.hidden))
        object.__setattr__(self, "hidden", tuple(sizes))


class Stream(IntEnum):
    """What random numbers are for."""

    DEALING = 0
    LABELS = 1
    WEIGHTS = 3
    SHUFFLES = 4


def generator(seed: int, stream: Stream, *which: int) -> np.random.Generator:
    """The numbers for one purpose, and for one agent or round of it."""
    return np.random.default_rng([seed, stream, *which])


def shuffle_orders(count: int, epochs: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """(epochs, count): orders of an agent's samples; all agents' come from one stream, one after the other."""
    return rng.permuted(np.tile(np.arange(count, dtype=np.int32), (epochs, 1)), axis=1)

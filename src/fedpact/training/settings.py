"""How models are trained, and where everything random comes from: one seed, with a stream of numbers for each purpose.

Changing what one stream is used for leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.arrays import POSITIVE, one_number, positive, whole_number
from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Federated averaging with stochastic gradient descent; the paper's settings unless told otherwise.

    Parameters
    ----------
    rounds
        How often the agents train and their models are averaged; at least 1.
    local_epochs
        How often an agent goes through its samples in a round; at least 1.
    learning_rate
        Positive.
    momentum
        From 0 to below 1. It starts anew in every round.
    batch_size
        Samples a step; at least 1.
    hidden
        Sizes of the hidden layers, each at least 1.
    """

    rounds: int = 20
    local_epochs: int = 1
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 32
    hidden: tuple[int, ...] = (128, 64)

    def __post_init__(self) -> None:
        for label in ("rounds", "local_epochs", "batch_size"):
            object.__setattr__(self, label, whole_number(label, getattr(self, label), least=1))
        rate = one_number("learning_rate", self.learning_rate, positive, POSITIVE)
        momentum = one_number("momentum", self.momentum, lambda x: (x >= 0) & (x < 1), "from 0 to below 1")
        object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "momentum", momentum)
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


def nearest_counts(amounts: ArrayLike) -> IntArray:
    """The whole numbers nearest to some amounts, for designs of experiments; a deal is rounded down."""
    return np.rint(amounts).astype(np.int64)


def require_jax() -> None:
    """Say so early where JAX is not installed, without importing it, which takes a second."""
    if find_spec("jax") is None:
        raise MissingExtra("Training", "train")

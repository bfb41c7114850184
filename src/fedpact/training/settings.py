"""How models are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.utils.arrays import POSITIVE, checked_numbers, positive
from fedpact.utils.errors import InvalidInput, short_repr


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
        rate = _one_number("learning_rate", self.learning_rate, positive, POSITIVE)
        momentum = _one_number("momentum", self.momentum, lambda x: (x >= 0) & (x < 1), "from 0 to below 1")
        object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "momentum", momentum)
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise InvalidInput(f"hidden must be a list of sizes, one per hidden layer, got {short_repr(self.hidden)}")
        sizes = (whole_number(f"hidden[{place}]", size, least=1) for place, size in enumerate(self.hidden))
        object.__setattr__(self, "hidden", tuple(sizes))


def whole_number(label: str, given: Any, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise InvalidInput(f"{label} must be a whole number of at least {least}, got {short_repr(given)}")
    return int(given)


def _one_number(label: str, given: Any, accepts: Any, rule: str) -> float:
    number = checked_numbers(label, given, accepts, rule)
    if number.ndim:
        raise InvalidInput(f"{label} must be one number, got {number.size}")
    return float(number)

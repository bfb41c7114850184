"""What a node brings to training: the part of a Flower app that belongs to the user's machine-learning framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flwr.app import Context

Model = Sequence[np.ndarray[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a model does on a node's own test set: the share of right answers, and of how many."""

    accuracy: float
    samples: int


class Learner(Protocol):
    """A node's data and how to learn from it; made anew for every message, so it should import frameworks late."""

    @property
    def samples(self) -> int:
        """Training samples the node holds: the most it can contribute."""

    def train(self, model: Model, samples: int, server_round: int) -> Model:
        """The model after one round on the first `samples` of its training samples."""

    def evaluate(self, model: Model) -> Score:
        """The model on its own test set."""


LearnerFactory = Callable[[Context], Learner]

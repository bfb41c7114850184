"""What a node brings to training, and the app made of it: the part that belongs to the user's framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpact.flower.messages import only_arrays
from fedpact.flower.node import DealKeeper, agreed_samples, server_round
from fedpact.utils.errors import InvalidInput

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


def client_app(learner: LearnerFactory) -> ClientApp:
    """The app of a node that negotiates, trains under the deal and checks what it is to be paid.

    Parameters
    ----------
    learner
        Makes the node's `Learner` from its context.
    """
    app = ClientApp(mods=[DealKeeper(learner)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own, arrays = learner(context), only_arrays(message, "a message to train")
        samples = min(agreed_samples(message), own.samples)
        if samples < 1:
            raise InvalidInput("this node holds no sample to train on")
        model = own.train(arrays.to_numpy_ndarrays(), samples, server_round(message))
        trained = ArrayRecord([np.asarray(array) for array in model])
        if len(trained) != len(arrays):
            raise InvalidInput(f"the learner must return {len(arrays)} arrays, got {len(trained)}")
        named = ArrayRecord(dict(zip(arrays.keys(), trained.values(), strict=True)))  # as they came
        metrics = MetricRecord({"num-examples": samples})
        return Message(RecordDict({"arrays": named, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = only_arrays(message, "a message to evaluate")
        found = learner(context).evaluate(arrays.to_numpy_ndarrays())
        metrics = MetricRecord({"accuracy": float(found.accuracy), "num-examples": int(found.samples)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app

"""The learner an app starts with: the paper's network on a node's share of the embedded MNIST images, in JAX.

Every node derives its own share from the public images, by its index and the run's seed: nothing is sent. Put your own
`Learner` in its place for data of your own. Everything random is that of `fedpact.training.Experiment` with the same
seed, so what a run measures can be computed beforehand.

JAX is imported when a model is trained or tested, not before: every message to a deployed node starts a process, and
most of them only negotiate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Context

from fedpact.flower.identity import OwnNode
from fedpact.flower.node import Model, Score
from fedpact.training import Experiment, Training, mnist
from fedpact.training.data import Holdings
from fedpact.training.settings import Stream, generator, shuffle_orders
from fedpact.utils.errors import InvalidInput, short_repr

PIXELS, CLASSES = 784, 10


class MnistLearner:
    """A node's share of MNIST.

    The run's configuration may set `seed`, `local-epochs`, `learning-rate` and `batch-size`.
    """

    def __init__(self, context: Context) -> None:
        agent = OwnNode(context).required_agent()
        self._place, self._size = agent.index, agent.n_agents
        self._seed, self._training = _seed(context), _training(context)

    @property
    def samples(self) -> int:
        """Training samples the node holds."""
        return len(self._own.labels)

    def train(self, model: Model, samples: int, server_round: int) -> Model:
        """Local epochs of stochastic gradient descent on its first samples."""
        own, orders = self._own, self._orders(server_round)
        chosen = [order[order < samples] for order in orders]
        return local_epochs(model, own.pixels, own.labels, chosen, self._training)

    def evaluate(self, model: Model) -> Score:
        """The share of its test images that the model gets right."""
        own = self._own
        count = len(own.test_labels)
        right = right_answers(model, own.test_pixels, own.test_labels)
        return Score(accuracy=right / count, samples=count)

    @cached_property
    def _experiment(self) -> Experiment:
        images = mnist()
        return Experiment(
            images, n_agents=self._size, samples=len(images) // self._size, training=self._training, seed=self._seed
        )

    @property
    def _own(self) -> Holdings:
        return self._experiment.holdings[self._place]

    def _orders(self, server_round: int) -> Any:
        """Its shuffle_orders samples, one order an epoch: the numbers of all agents come from one stream."""
        rng = generator(self._seed, Stream.SHUFFLES, max(server_round - 1, 0))
        for index, own in enumerate(self._experiment.holdings):
            orders = shuffle_orders(len(own.labels), self._training.local_epochs, rng)
            if index == self._place:
                return orders
        raise InvalidInput(f"place {self._place} is not among {self._size}")


def first_model(context: Context) -> Model:
    """The network before training."""
    from fedpact.training.fedavg import initial_weights  # noqa: PLC0415 - JAX takes a second to import

    sizes = (PIXELS, *_training(context).hidden, CLASSES)
    weights = initial_weights(sizes, generator(_seed(context), Stream.WEIGHTS))
    return [array for layer in weights for array in layer]


def local_epochs(model: Model, pixels: Any, labels: Any, orders: Sequence[Any], training: Training) -> Model:
    """The model after going through the samples in the orders given; the momentum starts at zero."""
    import jax  # noqa: PLC0415 - takes a second

    from fedpact.training.fedavg import Descent, descend  # noqa: PLC0415 - imports JAX

    step, descent, weights = jax.jit(descend), Descent.of(training), _layers(model)
    velocity = jax.tree.map(jax.numpy.zeros_like, weights)
    for order in orders:
        for start in range(0, len(order), training.batch_size):
            batch = order[start : start + training.batch_size]
            rows = np.zeros(training.batch_size, dtype=np.int64)  # of one shape, so that it is compiled once
            rows[: len(batch)] = batch
            real = (np.arange(training.batch_size) < len(batch)).astype(np.float32)
            weights, velocity = step((weights, velocity), pixels[rows], labels[rows], real, descent)
    return [np.asarray(array) for layer in weights for array in layer]


def right_answers(model: Model, pixels: Any, labels: Any) -> int:
    """How many images the model gets right."""
    from fedpact.training.fedavg import log_probabilities  # noqa: PLC0415 - imports JAX

    return int((np.asarray(log_probabilities(_layers(model), pixels)).argmax(axis=1) == labels).sum())


def _layers(model: Model) -> Any:
    """A list of arrays as layers: a matrix and an offset each."""
    import jax.numpy as jnp  # noqa: PLC0415 - takes a second

    arrays = [jnp.asarray(array) for array in model]
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


def _seed(context: Context) -> int:
    seed = context.run_config.get("seed", 0)
    if type(seed) is not int or seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, got {short_repr(seed)}")
    return seed


def _training(context: Context) -> Training:
    given: dict[str, Any] = {key.replace("-", "_"): each for key, each in context.run_config.items()}
    return Training(**{key: given[key] for key in ("local_epochs", "learning_rate", "batch_size") if key in given})

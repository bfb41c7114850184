"""One node's round of training, in JAX: stochastic gradient descent with momentum, as in `fedpact.training.fedavg`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedpact.flower.learner import Model
from fedpact.training.fedavg import Descent, Weights, descend, log_probabilities
from fedpact.training.settings import Training

_step = jax.jit(descend)


def local_epochs(
    model: Model,
    pixels: NDArray[np.float32],
    labels: NDArray[np.int32],
    orders: Sequence[NDArray[np.int32]],
    training: Training,
) -> Model:
    """The model after going through the samples in the orders given; the momentum starts at zero."""
    weights = _layers(model)
    velocity = jax.tree.map(jnp.zeros_like, weights)
    descent = Descent.of(training)
    for order in orders:
        for start in range(0, len(order), training.batch_size):
            batch = order[start : start + training.batch_size]
            rows = np.zeros(training.batch_size, dtype=np.int64)
            rows[: len(batch)] = batch
            real = (np.arange(training.batch_size) < len(batch)).astype(np.float32)
            weights, velocity = _step((weights, velocity), pixels[rows], labels[rows], real, descent)
    return [np.asarray(array) for layer in weights for array in layer]


def right_answers(model: Model, pixels: NDArray[np.float32], labels: NDArray[np.int32]) -> int:
    """How many images the model gets right."""
    return int((np.asarray(log_probabilities(_layers(model), pixels)).argmax(axis=1) == labels).sum())


def _layers(model: Model) -> Weights:
    """A list of arrays as layers: a matrix and an offset each."""
    arrays = [jnp.asarray(array) for array in model]
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))

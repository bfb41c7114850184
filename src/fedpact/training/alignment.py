"""What gradients say of single samples.

A step of gradient descent on sample i lowers the test loss, to first order, if its gradient agrees with that of the
test loss: if their product is positive (Pruthi et al. 2020, "Estimating training data influence by tracing gradient
descent"). A sample's value is how often it agrees over the steps of the first epochs of one training run, from -1 for
never to 1 for always. Later on models know wrong labels by heart, and products say little; sums of products are ruled
by a few steps with long gradients (on MNIST with wrong labels, counting finds more of them). All products of a step
come from one directional derivative of all losses along the gradient of the test loss.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedpact.training.fedavg import Descent, descend
from fedpact.training.network import initial_weights, losses
from fedpact.training.partitions import Holdings
from fedpact.training.settings import Stream, Training, generator
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

ALIGNED_EPOCHS = 6


def gradient_alignment(samples: Holdings, n_classes: int, training: Training, seed: int) -> FloatArray:
    """(N,): how often each sample's gradient agrees with that of the tests, from -1 for never to 1 for always."""
    count = len(samples.labels)
    weights = initial_weights((samples.pixels.shape[1], *training.hidden, n_classes), generator(seed, Stream.WEIGHTS))
    batch, rng = min(training.batch_size, count), generator(seed, Stream.SHUFFLES)
    epochs = min(training.rounds, ALIGNED_EPOCHS)
    orders = np.concatenate([rng.permutation(count)[: count // batch * batch] for _ in range(epochs)])
    data = (samples.pixels, samples.labels, samples.test_pixels, samples.test_labels)
    signs, loss = _align(weights, data, orders.reshape(-1, batch), Descent.of(training))
    if not np.isfinite(float(loss)):
        raise NotConverged("training has gone astray: the loss is not finite; use a smaller learning_rate")
    return np.asarray(signs, dtype=np.float64)


@jax.jit
def _align(weights: Any, data: Any, orders: Any, descent: Descent) -> Any:
    """The mean sign of every sample's alignment over all steps, and the mean loss of the tests."""
    pixels, labels, test_pixels, test_labels = (jnp.asarray(part) for part in data)

    def test_loss(at: Any) -> Any:
        return losses(at, test_pixels, test_labels)[0].mean()

    def step(state: Any, batch: Any) -> Any:
        direction = jax.grad(test_loss)(state[0])
        along = jax.jvp(lambda at: losses(at, pixels, labels)[0], (state[0],), (direction,))[1]
        return descend(state, pixels[batch], labels[batch], jnp.ones(len(batch)), descent), jnp.sign(along)

    start = jax.tree.map(jnp.asarray, weights)
    (final, _), signs = jax.lax.scan(step, (start, jax.tree.map(jnp.zeros_like, start)), orders)
    return signs.mean(axis=0), test_loss(final)

"""One model on samples pooled in one place: what gradients say of each sample, and what leaving some out does.

**Gradient alignment.** A step of gradient descent on sample i lowers the test loss, to first order, if its gradient
agrees with that of the test loss: if their product is positive (Pruthi et al. 2020, "Estimating training data influence
by tracing gradient descent"). A sample's value is how often it agrees over the steps of the first epochs of one
training run, from -1 for never to 1 for always. Later on models know wrong labels by heart, and products say little;
sums of products are ruled by a few steps with long gradients (on MNIST with wrong labels, counting finds more of them).
All products of a step come from one directional derivative of all losses along the gradient of the test loss.

Samples that are left out keep their place and count for nothing, so one compiled program serves all subsets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.training.network import initial_weights, losses
from fedpact.training.seeds import Stream, generator
from fedpact.training.settings import Training
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import MissingExtra, NotConverged

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtra("Training", "train") from error


ALIGNED_EPOCHS = 6


class PooledSamples(NamedTuple):
    """Samples to train on and to test with: features (N, d), labels whole numbers from 0."""

    features: NDArray[np.float32]
    labels: NDArray[np.int32]
    test_features: NDArray[np.float32]
    test_labels: NDArray[np.int32]

    @classmethod
    def of(cls, features: FloatArray, labels: Any, test_features: FloatArray, test_labels: Any) -> PooledSamples:
        """With any labels, and features over their standard deviation."""
        _, places = np.unique(np.concatenate([labels, test_labels]), return_inverse=True)
        deviation = float(np.std(features)) or 1.0
        return cls(
            (features / deviation).astype(np.float32),
            places[: len(labels)].astype(np.int32),
            (test_features / deviation).astype(np.float32),
            places[len(labels) :].astype(np.int32),
        )


def train_pooled(
    samples: PooledSamples, training: Training, *, seed: int = 0, kept: NDArray[np.bool_] | None = None
) -> float:
    """Train on the samples that are kept, all if none are named: the accuracy on the tests.

    Raises
    ------
    NotConverged
        If the loss is not finite.
    """
    used = np.ones(len(samples.labels), dtype=np.float32) if kept is None else kept.astype(np.float32)
    weights, orders = _start(samples, training, training.rounds, seed)
    right, loss = _train(weights, samples, used, orders, _rates(training))
    _check_loss(loss)
    return float(np.asarray(right).mean())


def gradient_alignment(samples: PooledSamples, training: Training, *, seed: int = 0) -> FloatArray:
    """(N,): how often each sample's gradient agrees with that of the tests, from -1 for never to 1 for always.

    Raises
    ------
    NotConverged
        If the loss is not finite.
    """
    weights, orders = _start(samples, training, min(training.rounds, ALIGNED_EPOCHS), seed)
    signs, loss = _align(weights, samples, orders, _rates(training))
    _check_loss(loss)
    return np.asarray(signs, dtype=np.float64)


def _start(samples: PooledSamples, training: Training, epochs: int, seed: int) -> tuple[Any, NDArray[np.int64]]:
    """The weights a network starts with, and the samples of every step."""
    count = len(samples.labels)
    n_classes = int(max(samples.labels.max(), samples.test_labels.max())) + 1
    sizes = (samples.features.shape[1], *training.hidden, n_classes)
    batch = min(training.batch_size, count)
    rng = generator(seed, Stream.SHUFFLES)
    orders = np.concatenate([rng.permutation(count)[: count // batch * batch] for _ in range(epochs)])
    return initial_weights(sizes, generator(seed, Stream.WEIGHTS)), orders.reshape(-1, batch)


def _rates(training: Training) -> tuple[np.float32, np.float32]:
    return np.float32(training.learning_rate), np.float32(training.momentum)


def _check_loss(loss: Any) -> None:
    if not np.isfinite(float(loss)):
        raise NotConverged("training has gone astray: the loss is not finite; use a smaller learning_rate")


def _step(samples: PooledSamples, used: Any, rates: Any, state: Any, batch: Any) -> Any:
    """A step of gradient descent with momentum on the samples of a batch that are used."""
    now, speed = state

    def batch_loss(at: Any) -> Any:
        each, _ = losses(at, samples.features[batch], samples.labels[batch])
        return (each * used[batch]).sum() / jnp.maximum(used[batch].sum(), 1.0)

    slopes = jax.grad(batch_loss)(now)
    speed = jax.tree.map(lambda before, slope: rates[1] * before + slope, speed, slopes)
    return jax.tree.map(lambda weight, moved: weight - rates[0] * moved, now, speed), speed


def _still(weights: Any) -> Any:
    started = jax.tree.map(jnp.asarray, weights)
    return started, jax.tree.map(jnp.zeros_like, started)


@jax.jit
def _train(weights: Any, samples: PooledSamples, used: Any, orders: Any, rates: Any) -> Any:
    """Which tests are right in the end, and their mean loss."""

    def step(state: Any, batch: Any) -> Any:
        return _step(samples, used, rates, state, batch), None

    (final, _), _ = jax.lax.scan(step, _still(weights), orders)
    each, right = losses(final, samples.test_features, samples.test_labels)
    return right, each.mean()


@jax.jit
def _align(weights: Any, samples: PooledSamples, orders: Any, rates: Any) -> Any:
    """The mean sign of every sample's alignment over all steps, and the mean loss of the tests."""

    def test_loss(at: Any) -> Any:
        return losses(at, samples.test_features, samples.test_labels)[0].mean()

    def step(state: Any, batch: Any) -> Any:
        direction = jax.grad(test_loss)(state[0])
        along = jax.jvp(lambda at: losses(at, samples.features, samples.labels)[0], (state[0],), (direction,))[1]
        return _step(samples, jnp.ones(len(samples.labels)), rates, state, batch), jnp.sign(along)

    (final, _), signs = jax.lax.scan(step, _still(weights), orders)
    return signs.mean(axis=0), test_loss(final)

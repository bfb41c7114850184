"""Federated averaging, compiled: one call trains one model for all, or one for every member.

Every round, every member with samples starts from its model and takes its local epochs of stochastic gradient descent
with momentum (McMahan and others, 2017): v <- momentum v + gradient, weights <- weights - rate v. The momentum starts
at zero in every round and never leaves the member. The trained models are then averaged with the samples used as
weights. A member with zero samples is not in the round; a round without any leaves the model as it is. A member with
several lots uses the first samples of each, as many as it contributes of it, and has one model all the same.

With **personal models** every member trains from a model of its own, once a round, and gets back the average of the
trained models it wants. Members that want the same ones have the same model, so one model for all is the case in which
everybody wants all. Lots of one member that are not wanted by the same members are trained on apart, each from that
member's model.

The number of minibatches follows from the samples used while the program runs, so all profiles of one experiment share
one compiled program and small ones cost little. The last minibatch of an epoch may be partial: its empty rows have
weight zero. Shuffling is common to all profiles: the same samples come in the same order, whoever else is there.

The network is the paper's: fully connected layers with ReLU between them and log-softmax at the end. Weights start as
PyTorch's do, uniform in plus or minus one over the square root of the number of inputs. They are drawn with NumPy, so a
seed means the same in every version of JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from fedpact.training.settings import Training

# Each model is trained on one core, and several at once: tiny matrices gain nothing from more, and results must not
# depend on how many cores there are.
ONE_CORE: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}

Weights = tuple[tuple[Any, Any], ...]  # arrays of NumPy or JAX


def initial_weights(sizes: Sequence[int], rng: np.random.Generator) -> Weights:
    """A matrix (inputs, outputs) and an offset per layer, `sizes` being those of the layers from pixels to classes."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        bound = inputs**-0.5
        matrix = rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        offset = rng.uniform(-bound, bound, outputs).astype(np.float32)
        layers.append((matrix, offset))
    return tuple(layers)


def log_probabilities(weights: Weights, pixels: Any, fixed: Any = 0.0) -> jax.Array:
    """Of every class, for every row of pixels; `fixed` is what pixels not among these add to the first layer."""
    (matrix, offset), *later = weights
    found = pixels @ matrix + offset + fixed
    for matrix, offset in later:
        found = jax.nn.relu(found) @ matrix + offset
    return jax.nn.log_softmax(found)


def losses(weights: Weights, pixels: Any, labels: Any, fixed: Any = 0.0) -> tuple[jax.Array, jax.Array]:
    """Of every image: minus the log-probability of its label, and whether that is found likeliest."""
    found = log_probabilities(weights, pixels, fixed)
    return -jnp.take_along_axis(found, labels[:, None], axis=1)[:, 0], found.argmax(axis=1) == labels


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Descent:
    """Stochastic gradient descent."""

    rate: Any
    momentum: Any
    batch_size: int = field(metadata={"static": True})

    @classmethod
    def of(cls, training: Training) -> Descent:
        """As the settings say, in single precision."""
        rate, momentum = np.float32(training.learning_rate), np.float32(training.momentum)
        return cls(rate=rate, momentum=momentum, batch_size=training.batch_size)


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Agents:
    """What all agents hold, one after the other: agent i's samples are `held[i]` rows from row `starts[i]`.

    `longest` is the largest of `held`, up to a whole number of minibatches. `lots` says which lot a sample is of, and
    `ranks` which of that lot's samples it is. `test_fixed` is what pixels that are left out of training add to the
    first layer for every test image, and `tested_by` the agent whose it is.
    """

    pixels: Any
    labels: Any
    starts: Any
    held: Any
    lots: Any
    ranks: Any
    test_pixels: Any
    test_labels: Any
    test_fixed: Any
    tested_by: Any
    longest: int = field(metadata={"static": True})


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """Which updates are made in a round, and which models take them.

    Update u is made by agent `owners[u]` from model `starts[u]`, on its lots where `lots[u]` is 1. Model m takes it
    where `wanted[m, u]` is 1. Agent i has model `models[i]`.
    """

    owners: Any
    starts: Any
    lots: Any
    wanted: Any
    models: Any


@partial(jax.jit, compiler_options=ONE_CORE)
def train_models(
    weights: Weights,
    agents: Agents,
    descent: Descent,
    aggregation: Aggregation,
    *,
    orders: jax.Array,
    schedule: jax.Array,
    tested: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Train models: per round and agent, test images its own gets right, and the sum of the losses of all of them.

    `orders` (rounds, local epochs, all samples and padding) has an order of its samples for every agent's rows,
    `schedule` (rounds, lots) the samples used, and `tested` (rounds,) says where models are tested; elsewhere the
    answers are zeros.
    """

    def one_round(current: Weights, given: tuple[jax.Array, ...]) -> tuple[Weights, tuple[jax.Array, jax.Array]]:
        order, used, test = given
        after = _average_round(current, agents, descent, aggregation, (order, used))
        nothing = (jnp.zeros(agents.held.shape, jnp.int32), jnp.zeros(agents.held.shape, jnp.float32))
        return after, lax.cond(test, lambda: _test_models(after, agents, aggregation), lambda: nothing)

    n_models = aggregation.wanted.shape[0]
    models = jax.tree.map(lambda part: jnp.broadcast_to(part, (n_models, *part.shape)), weights)
    return lax.scan(one_round, models, (orders, schedule, tested))[1]


def _average_round(
    models: Weights, agents: Agents, descent: Descent, aggregation: Aggregation, given: tuple[jax.Array, ...]
) -> Weights:
    """All models after one round: with m the model before and b that which update u began with, m + sum of shares of
    (u + b - m), the average of the trained models."""
    orders, lots_used = given
    used = aggregation.lots @ lots_used
    totals = jnp.maximum(aggregation.wanted @ used, 1).astype(jnp.float32)

    def add_update(sum_so_far: Weights, which: jax.Array) -> tuple[Weights, None]:
        def add() -> Weights:
            agent, begin = aggregation.owners[which], jax.tree.map(lambda part: part[aggregation.starts[which]], models)
            own_lots = aggregation.lots[which] * lots_used
            after = _train_locally(begin, agents, descent, orders, (agent, own_lots, used[which]))
            update = jax.tree.map(lambda new, old: new - old, after, begin)
            shares = aggregation.wanted[:, which] * used[which].astype(jnp.float32) / totals

            def average(sofar: jax.Array, own: jax.Array, old: jax.Array, before: jax.Array) -> jax.Array:
                weighted = shares.reshape(-1, *[1] * own.ndim)
                return sofar + weighted * (own + (old - before))

            return jax.tree.map(average, sum_so_far, update, begin, models)

        return lax.cond(used[which] > 0, add, lambda: sum_so_far), None

    return lax.scan(add_update, models, jnp.arange(used.shape[0], dtype=jnp.int32))[0]


def _train_locally(
    weights: Weights, agents: Agents, descent: Descent, orders: jax.Array, given: tuple[jax.Array, ...]
) -> Weights:
    """One member's model after its local epochs: who, the samples used of every lot, and of all its lots."""
    agent, lots_used, used = given
    size, start = descent.batch_size, agents.starts[agent]
    positions = jnp.arange(agents.longest, dtype=jnp.int32)

    def epoch(state: tuple[Weights, Weights], order: jax.Array) -> tuple[tuple[Weights, Weights], None]:
        own = lax.dynamic_slice(order, (start,), (agents.longest,)).astype(jnp.int32)
        among = (agents.ranks[start + own] < lots_used[agents.lots[start + own]]) & (positions < agents.held[agent])
        rows = start + own[jnp.nonzero(among, size=agents.longest, fill_value=0)[0]]

        def step(number: jax.Array, state: tuple[Weights, Weights]) -> tuple[Weights, Weights]:
            batch = lax.dynamic_slice(rows, (number * size,), (size,))
            real = (number * size + positions[:size] < used).astype(jnp.float32)
            return descend(state, agents.pixels[batch], agents.labels[batch], real, descent)

        return lax.fori_loop(0, (used + size - 1) // size, step, state), None

    still = jax.tree.map(jnp.zeros_like, weights)
    return lax.scan(epoch, (weights, still), orders)[0][0]


def descend(
    state: tuple[Weights, Weights], pixels: jax.Array, labels: jax.Array, real: jax.Array, descent: Descent
) -> tuple[Weights, Weights]:
    """One step of gradient descent on the mean loss over the real rows of a minibatch."""
    weights, velocity = state

    def mean_loss(weights: Weights) -> jax.Array:
        return (losses(weights, pixels, labels)[0] * real).sum() / real.sum()

    gradient = jax.grad(mean_loss)(weights)
    velocity = jax.tree.map(lambda old, new: descent.momentum * old + new, velocity, gradient)
    return jax.tree.map(lambda old, new: old - descent.rate * new, weights, velocity), velocity


def _test_models(models: Weights, agents: Agents, aggregation: Aggregation) -> tuple[jax.Array, jax.Array]:
    """Right answers and losses of everybody's model on its test images."""

    def test(weights: Weights) -> tuple[jax.Array, jax.Array]:
        loss, right = losses(weights, agents.test_pixels, agents.test_labels, agents.test_fixed)
        counts = jnp.zeros(agents.held.shape, jnp.int32).at[agents.tested_by].add(right.astype(jnp.int32))
        return counts, jnp.zeros(agents.held.shape, jnp.float32).at[agents.tested_by].add(loss)

    counts, loss = lax.map(test, models)
    everybody = jnp.arange(agents.held.size)
    return counts[aggregation.models, everybody], loss[aggregation.models, everybody]

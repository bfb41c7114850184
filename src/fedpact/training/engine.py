"""Models trained side by side: what an experiment holds, handed to the compiled program, one model a thread.

A model is trained by one call that knows nothing of others, so what it comes to does not depend on them. JAX lets go of
Python's lock while it works, so plain threads use all the cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from fedpact.training.data import Holdings
from fedpact.training.fedavg import Agents, Aggregation, Descent, initial_weights, train_models
from fedpact.training.settings import IntArray, Stream, Training, generator, shuffle_orders
from fedpact.utils.arrays import FloatArray, first_where
from fedpact.utils.errors import NotConverged
from fedpact.utils.threads import thread_count

COMPILING = threading.Lock()


class Engine:
    """Trains models on what agents hold, noise included."""

    def __init__(self, holdings: Sequence[Holdings], n_classes: int, training: Training, seed: int) -> None:
        self._device = _cpu_device()
        self._training, self._seed = training, seed
        self._held = np.array([len(own.labels) for own in holdings])
        lots = np.concatenate([own.lots for own in holdings])
        self._lot_owners = np.zeros(int(lots.max()) + 1, dtype=np.int32)  # the agent of each lot
        self._lot_owners[lots] = np.repeat(np.arange(len(self._held), dtype=np.int32), self._held)
        self._test_sizes = np.array([len(own.test_labels) for own in holdings])
        sizes = (holdings[0].pixels.shape[1], *training.hidden, n_classes)
        weights = initial_weights(sizes, generator(seed, Stream.WEIGHTS))
        # The weights of a pixel that is blank in all samples have no gradient: they stay as they are.
        live = np.any([own.pixels.any(axis=0) for own in holdings], axis=0)
        self._longest = -(-int(self._held.max()) // training.batch_size) * training.batch_size
        start = ((weights[0][0][live], weights[0][1]), *weights[1:])
        agents = self._agents(holdings, live, weights[0][0])
        self._fixed = self._put((start, agents, Descent.of(training)))

    def final(self, profiles: IntArray) -> Iterator[tuple[int, FloatArray]]:
        """Train a model for every profile; as each is finished, its index and all agents' accuracies."""
        rounds = self._training.rounds
        orders = self._put(self._shuffles(rounds))
        tested = np.arange(rounds) == rounds - 1
        with COMPILING:  # train nobody for as many rounds, so that threads do not each compile the program
            self._run(orders, np.zeros((rounds, len(self._lot_owners)), dtype=np.int64), np.zeros_like(tested))

        def train(profile: IntArray) -> FloatArray:
            right, _ = self._run(orders, np.tile(profile, (rounds, 1)), tested)
            return right[-1] / self._test_sizes

        pool = ThreadPoolExecutor(thread_count())
        longest_first = np.argsort(-profiles.sum(axis=1), kind="stable").tolist()  # no thread waits for a long last one
        try:
            indices = {pool.submit(train, profiles[index]): index for index in longest_first}
            for future in as_completed(indices):
                yield indices[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def history(self, schedule: IntArray, wanted: NDArray[np.bool_] | None = None) -> tuple[FloatArray, FloatArray]:
        """Accuracies and mean losses of all agents after every round.

        Of one model for all, or of each agent's own, where `wanted` (agents, lots) says which lots it takes in.
        """
        orders = self._put(self._shuffles(len(schedule)))
        right, loss = self._run(orders, schedule, np.ones(len(schedule), dtype=np.bool_), wanted)
        return right / self._test_sizes, loss / self._test_sizes

    def _run(
        self, orders: Any, schedule: IntArray, tested: NDArray[np.bool_], wanted: NDArray[np.bool_] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        taken = np.ones((len(self._held), schedule.shape[1]), dtype=np.bool_) if wanted is None else wanted.copy()
        taken[:, ~schedule.any(axis=0)] = True  # nobody has to leave out what nobody brings
        aggregation = _aggregation(taken, self._lot_owners)
        given, used, asked = self._put((aggregation, schedule.astype(np.int32), tested))
        found = train_models(*self._fixed, given, orders=orders, schedule=used, tested=asked)
        right, loss = (np.asarray(each, dtype=np.float64) for each in found)
        lost = first_where(~np.isfinite(loss.sum(axis=1)))
        if lost is not None:
            raise NotConverged(
                f"training has gone astray by round {lost + 1}, with {schedule[lost].tolist()} samples: the loss is "
                f"not finite; use a smaller learning_rate"
            )
        return right, loss

    def _shuffles(self, rounds: int) -> NDArray[np.int32]:
        """(rounds, local epochs, all samples and padding) orders of every agent's samples, the same for all models."""
        epochs, longest = self._training.local_epochs, self._longest
        padding = np.zeros((epochs, longest), dtype=np.int32)
        streams = (generator(self._seed, Stream.SHUFFLES, number) for number in range(rounds))
        orders = ([shuffle_orders(held, epochs, rng) for held in self._held] for rng in streams)
        return np.stack([np.concatenate([*order, padding], axis=1) for order in orders])

    def _agents(self, holdings: Sequence[Holdings], live: NDArray[np.bool_], matrix: NDArray[np.float32]) -> Agents:
        def all_of(part: str) -> NDArray[Any]:
            return np.concatenate([getattr(own, part) for own in holdings])

        pixels, test_pixels, lots = all_of("pixels"), all_of("test_pixels"), all_of("lots")
        return Agents(
            pixels=pixels[:, live],
            labels=all_of("labels"),
            starts=(self._held.cumsum() - self._held).astype(np.int32),
            held=self._held.astype(np.int32),
            lots=lots,
            ranks=_ranks(lots),
            test_pixels=test_pixels[:, live],
            test_fixed=test_pixels[:, ~live] @ matrix[~live],
            test_labels=all_of("test_labels"),
            tested_by=np.repeat(np.arange(len(holdings), dtype=np.int32), self._test_sizes),
            longest=self._longest,
        )

    def _put(self, given: Any) -> Any:
        return jax.device_put(given, self._device)


def _aggregation(taken: NDArray[np.bool_], lot_owners: NDArray[np.int32]) -> Aggregation:
    """Of lots that agents' models take, (agents, lots): agents that take the same have one model, and lots of one agent
    that the same models take are trained on together."""
    models, model_of = np.unique(taken, axis=0, return_inverse=True)
    lots, owners = [], []
    for agent in range(len(taken)):
        own = lot_owners == agent
        for pattern in np.unique(models[:, own], axis=1).T:
            lots.append(own & (models == pattern[:, None]).all(axis=0))
            owners.append(agent)
    made_of = np.array(lots)
    return Aggregation(
        owners=np.array(owners, dtype=np.int32),
        starts=model_of[owners].astype(np.int32),
        lots=made_of.astype(np.int32),
        wanted=models[:, made_of.argmax(axis=1)].astype(np.int32),
        models=model_of.astype(np.int32),
    )


def _ranks(lots: NDArray[np.int32]) -> NDArray[np.int32]:
    """Which of its lot's samples each is, from 0, in their order."""
    order = np.argsort(lots, kind="stable")
    sizes = np.bincount(lots)
    ranks = np.empty(len(lots), dtype=np.int32)
    ranks[order] = np.arange(len(lots)) - np.repeat(sizes.cumsum() - sizes, sizes)
    return ranks


def _cpu_device() -> jax.Device:
    """The processor, never an accelerator: models as small as these gain nothing from one.

    JAX starts once in a process. Started here it gets as many threads as fedpact may use, and works in the thread that
    calls it, so that several models are trained at once. Where JAX runs already, all is as right and some slower.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    given = os.environ.get("NPROC")  # which JAX reads when it starts
    os.environ["NPROC"] = given or str(thread_count())
    try:
        return jax.devices("cpu")[0]
    finally:
        if given is None:
            del os.environ["NPROC"]

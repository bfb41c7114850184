"""The compiled training against the same written in NumPy, in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blobs import BLANK
from fedpact.training import Experiment, Training
from fedpact.training.data import Holdings
from fedpact.training.engine import Engine
from fedpact.training.fedavg import initial_weights
from fedpact.training.settings import Stream, generator
from random_cases import some

from . import by_hand

NOTHING = [[0, 0, 0]] * 3
SINGLE = 2e-4  # relative, of losses after some tens of steps in single precision


def shuffles(engine: Engine, holdings: list[Holdings], rounds: int) -> list[list[np.ndarray]]:
    """The engine's orders, cut into agents."""
    ends = np.cumsum([len(own.labels) for own in holdings])
    orders = engine._shuffles(rounds)
    return [[each[:, end - len(own.labels) : end] for own, end in zip(holdings, ends, strict=True)] for each in orders]


def reference(holdings: list[Holdings], engine: Engine, training: Training, schedule: Any, n_classes: int) -> Any:
    """Accuracies and losses after every round, by hand."""
    sizes = (holdings[0].pixels.shape[1], *training.hidden, n_classes)
    start = [[part.astype(float) for part in layer] for layer in initial_weights(sizes, generator(0, Stream.WEIGHTS))]
    orders = shuffles(engine, holdings, len(schedule))
    models = by_hand.federated(start, holdings, np.array(schedule), orders, training)
    return np.array([[by_hand.measured(model, own) for own in holdings] for model in models]).transpose(2, 0, 1)


@pytest.mark.parametrize(
    ("settings", "schedule"),
    some(
        [
            ({}, [[32, 0, 0], *NOTHING]),  # one member, one round: plain descent
            ({}, [[32, 24, 28]] * 4),
            ({}, [[13, 1, 7]] * 4),  # partial minibatches, and one of a single sample
            ({}, [[13, 0, 7], [0, 0, 28], [0, 0, 0], [5, 24, 0]]),  # members come and go
            ({"momentum": 0.0, "learning_rate": 0.2}, [[32, 24, 28]] * 4),
            ({"local_epochs": 3, "batch_size": 1}, [[3, 1, 2]] * 4),
            ({"hidden": (), "batch_size": 100}, [[32, 24, 28]] * 4),  # larger than what anybody has
        ]
    ),
)
def test_it_is_federated_averaging(experiment: Experiment, settings: dict[str, Any], schedule: Any) -> None:
    one = replace(experiment, training=replace(experiment.training, **settings))
    history = one.history(schedule)
    accuracies, losses = reference(one.holdings, one._engine, one.training, schedule, 3)
    np.testing.assert_allclose(history.loss, losses, rtol=SINGLE)
    np.testing.assert_array_equal(history.accuracies, accuracies)


def test_members_count_by_their_samples(experiment: Experiment) -> None:
    """With one step of descent each and no momentum, averaging by samples is one step on all the samples."""
    training = replace(experiment.training, hidden=(), batch_size=100, momentum=0.0)
    one = replace(experiment, training=training)
    used = [32, 3, 12]
    pixels, labels = (
        np.concatenate([getattr(own, part)[:count] for own, count in zip(one.holdings, used, strict=True)])
        for part in ("pixels", "labels")
    )
    ((matrix, offset),) = initial_weights((12, 3), generator(0, Stream.WEIGHTS))
    (slopes,) = by_hand.gradients([[matrix, offset]], pixels, labels)
    stepped = [[part - training.learning_rate * slope for part, slope in zip((matrix, offset), slopes, strict=True)]]
    expected = [by_hand.measured(stepped, own)[1] for own in one.holdings]
    np.testing.assert_allclose(one.history([used, *NOTHING]).loss[0], expected, rtol=1e-5)
    assert np.abs(one.history([[32, 24, 12], *NOTHING]).loss[0] - expected).max() > 1e-3


def test_blank_pixels_keep_their_weights(experiment: Experiment) -> None:
    """Pixels that are blank in all samples are left out of training, but count where a test image has them."""
    rng = np.random.default_rng(0)
    holdings = []
    for own in experiment.holdings:
        assert not own.pixels[:, -BLANK:].any()
        drawn = own.test_pixels.copy()
        drawn[:, -BLANK:] = rng.uniform(0, 3, (len(drawn), BLANK))
        holdings.append(replace(own, test_pixels=drawn))
    engine = Engine(holdings, 3, experiment.training, 0)
    schedule = np.array([[32, 24, 28]] * 4)
    _, losses = reference(holdings, engine, experiment.training, schedule, 3)
    _, found = engine.history(schedule)
    np.testing.assert_allclose(found, losses, rtol=SINGLE)
    assert np.abs(found - experiment.history(schedule).loss).max() > 0.01


def test_a_single_class_in_a_profile_is_learnt_without_harm(experiment: Experiment) -> None:
    history = experiment.history([[1, 0, 0]] * 4)
    assert np.isfinite(history.loss).all()

"""Agents with several lots of images, tested on several tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedpact.training import Experiment, Images, LabelNoise, PrivateUpdates
from fedpact.training.measured import MeasuredGame
from fedpact.utils.errors import InvalidInput

from .test_fedavg import SINGLE, reference


@pytest.fixture(scope="module")
def sorted_images(experiment: Experiment) -> Experiment:
    """The first agent has two lots, taken in turn, the third three, the second one."""
    counts = (2, 1, 3)
    lots = [np.arange(held) % count for held, count in zip(experiment.available, counts, strict=True)]
    return experiment.with_lots(lots, [("a", "b"), ("all",), ("x", "y", "z")])


def test_what_is_held(sorted_images: Experiment) -> None:
    assert sorted_images.has_lots and (sorted_images.n_lots, sorted_images.n_tasks) == (6, 3)
    assert sorted_images.available.tolist() == [16, 16, 24, 10, 9, 9]
    assert sorted_images.lot_labels == (
        "agent 0: a",
        "agent 0: b",
        "agent 1: all",
        "agent 2: x",
        "agent 2: y",
        "agent 2: z",
    )


def test_lots_are_trained_as_by_hand(sorted_images: Experiment) -> None:
    schedule = [[16, 0, 24, 3, 0, 9], [0, 5, 0, 0, 9, 0], [1, 1, 1, 1, 1, 1], [16, 16, 24, 10, 9, 9]]
    accuracies, losses = reference(sorted_images.holdings, sorted_images._engine, sorted_images.training, schedule, 3)
    history = sorted_images.history(schedule)
    np.testing.assert_allclose(history.loss, losses, rtol=SINGLE)
    np.testing.assert_array_equal(history.accuracies, accuracies)


def test_all_lots_together_are_the_agent(experiment: Experiment, sorted_images: Experiment) -> None:
    everything = experiment.history([experiment.available] * 4)
    np.testing.assert_array_equal(sorted_images.history([sorted_images.available] * 4).loss, everything.loss)


def test_tasks_are_parts_of_the_tests(experiment: Experiment) -> None:
    tested = experiment.with_tasks({"first": [0], "others": [1, 2]})
    assert tested.test_sizes.reshape(3, 2).sum(axis=1).tolist() == [8, 6, 7]
    found, whole = tested.accuracies([[32, 24, 28]])[0], experiment.accuracies([[32, 24, 28]])[0]
    np.testing.assert_allclose((found * tested.test_sizes).reshape(3, 2).sum(axis=1), whole * [8, 6, 7])
    assert len({each.fingerprint for each in (experiment, tested)}) == 2


def test_lots_are_dealt_with_noise_of_their_own(images: Images) -> None:
    owned = {"n_agents": 2, "samples": [20, 30, 40], "lot_owners": [0, 0, 1], "lot_names": ["a", "b", "c"]}
    clean, noisy = (
        Experiment(images, noise=noise, **owned)
        for noise in ((), [LabelNoise([0.0, 1.0, 0.0]), PrivateUpdates([1, 2])])
    )
    assert clean.available.tolist() == [16, 24, 32] and clean.test_sizes.tolist() == [10, 8]
    wrong = [held.labels != own.labels for held, own in zip(noisy.holdings, clean.holdings, strict=True)]
    np.testing.assert_array_equal(wrong[0], clean.holdings[0].lots == 1)
    assert not wrong[1].any()


def test_another_seed_trains_otherwise_on_the_same_images(experiment: Experiment) -> None:
    again = experiment.with_training_seed(5)
    assert again.fingerprint != experiment.fingerprint and again.holdings is experiment.holdings
    assert not np.array_equal(again.history([[32, 24, 28]]).loss, experiment.history([[32, 24, 28]]).loss)


def test_measured_by_lot_and_task(sorted_images: Experiment) -> None:
    game = MeasuredGame(sorted_images.with_tasks({"first": [0], "others": [1, 2]}))
    found = game.many([[16, 0, 24, 3, 0, 9], [0] * 6])
    assert found.shape == (2, 6) and not found[1].any()
    with pytest.raises(InvalidInput, match="one lot of data"):
        game.shapley([1] * 6)


def test_what_is_refused(experiment: Experiment, sorted_images: Experiment, images: Images) -> None:
    with pytest.raises(InvalidInput, match='lot "agent 2: y" has 9 training samples'):
        sorted_images.accuracies([[0, 0, 0, 0, 10, 0]])
    with pytest.raises(InvalidInput, match="a column per lot"):
        sorted_images.accuracies([[0, 0, 1]])
    with pytest.raises(InvalidInput, match='32 training samples of member "agent 0"'):
        experiment.with_lots([[0], [0], [0]], [("a",)] * 3)
    with pytest.raises(InvalidInput, match='has no test image of task "none"'):
        experiment.with_tasks({"none": [17]})
    with pytest.raises(InvalidInput, match='member "agent 1" has no lot'):
        Experiment(images, n_agents=2, samples=30, lot_owners=[0, 0])
    assert not replace(sorted_images, seed=1).has_lots  # dealt anew

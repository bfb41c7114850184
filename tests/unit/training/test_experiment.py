"""What an experiment answers, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from blobs import blobs
from fedpact.training import Experiment, Images, Training
from fedpact.utils.errors import InvalidInput, MissingExtra, NotConverged

PROFILES = np.array([[32, 24, 28], [10, 0, 0], [0, 24, 1], [5, 5, 5], [32, 24, 28], [0, 0, 7]])


@pytest.fixture(scope="module")
def found(experiment: Experiment) -> np.ndarray:
    return experiment.accuracies(PROFILES)


def test_what_agents_can_contribute(images: Images) -> None:
    assert Experiment(images, n_agents=2, samples=100).available.tolist() == [80, 80]
    assert Experiment(images, n_agents=1, samples=15, test_share=0.4).available.tolist() == [9]
    assert Experiment(images, samples=[40, 30, 35]).available.tolist() == [32, 24, 28]
    with pytest.raises(ValueError, match="read-only"):
        Experiment(images, samples=30).available[0] = 1


@pytest.mark.slow
def test_accuracies_are_shares_of_the_test_sets(found: np.ndarray) -> None:
    assert found.shape == PROFILES.shape
    right = found * [8, 6, 7]
    np.testing.assert_allclose(right, np.rint(right), atol=1e-9)
    assert ((found >= 0) & (found <= 1)).all()


def test_neither_order_nor_company_matters(experiment: Experiment, found: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(len(PROFILES))
    np.testing.assert_array_equal(experiment.accuracies(PROFILES[order]), found[order])
    singly = [experiment.accuracies([profile])[0] for profile in PROFILES]
    np.testing.assert_array_equal(singly, found)


@pytest.mark.slow
def test_neither_threads_nor_settings_of_jax_matter(experiment: Experiment) -> None:
    """Losses of whole histories too, to the last bit, in a process with another number of threads and settings."""
    threads = 1 if fp.thread_count() > 1 else 2
    code = (
        "import jax; jax.config.update('jax_enable_x64', True); jax.config.update('jax_default_prng_impl', 'rbg')\n"
        "from blobs import blobs; from fedpact.training import Experiment, Training\n"
        "small = Training(rounds=4, batch_size=8, hidden=(9, 5))\n"
        "experiment = Experiment(blobs(), samples=[40, 30, 35], training=small)\n"
        f"rows = experiment.accuracies({PROFILES.tolist()})\n"
        "history = experiment.history([[13, 24, 2]] * 4)\n"
        "print(rows.tobytes().hex(), history.loss.tobytes().hex())"
    )
    environment = os.environ | {"FEDPACT_THREADS": str(threads), "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("NUMBA_NUM_THREADS", None)
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = experiment.accuracies(PROFILES), experiment.history([[13, 24, 2]] * 4).loss
    assert ran.stdout.split() == [array.tobytes().hex() for array in here]


def test_a_constant_schedule_ends_where_the_profile_does(experiment: Experiment, found: np.ndarray) -> None:
    for profile, row in zip(PROFILES[:4], found, strict=False):
        history = experiment.history([profile] * experiment.training.rounds)
        np.testing.assert_array_equal(history.accuracies[-1], row)
        np.testing.assert_array_equal(history.contributions, [profile] * experiment.training.rounds)


@pytest.mark.slow
def test_a_longer_history_begins_like_a_shorter_one(experiment: Experiment) -> None:
    long, short = experiment.history([[9, 9, 9]] * 5), experiment.history([[9, 9, 9]] * 4)
    np.testing.assert_array_equal(long.accuracies[:4], short.accuracies)
    np.testing.assert_allclose(long.loss[:4], short.loss, rtol=1e-6)


def test_a_round_without_samples_changes_nothing(experiment: Experiment) -> None:
    history = experiment.history([[9, 9, 9], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(history.loss[1], history.loss[0])
    np.testing.assert_array_equal(history.loss[2], history.loss[0])


def test_more_samples_are_the_same_and_more(experiment: Experiment) -> None:
    """Samples beyond those contributed do not matter: spoil them, and nothing changes."""
    before = experiment.history([[17, 5, 0]] * 4).loss
    spoiled = replace(experiment)
    own = spoiled.holdings[0]
    pixels = own.pixels.copy()
    pixels[17:, :10] = 3 - pixels[17:, :10]
    spoiled.holdings[0] = replace(own, pixels=pixels)
    np.testing.assert_array_equal(spoiled.history([[17, 5, 0]] * 4).loss, before)
    changed = spoiled.history([[18, 5, 0]] * 4).loss - experiment.history([[18, 5, 0]] * 4).loss
    assert np.abs(changed).max() > 1e-4


def test_rows_come_as_they_are_finished(experiment: Experiment, found: np.ndarray) -> None:
    rows = dict(experiment.each(PROFILES))
    assert sorted(rows) == list(range(len(PROFILES)))
    np.testing.assert_array_equal([rows[place] for place in range(len(PROFILES))], found)
    first = experiment.each(PROFILES)
    next(first)
    first.close()  # type: ignore[attr-defined]


def test_a_model_gone_astray_is_no_model(experiment: Experiment) -> None:
    wild = replace(experiment, training=replace(experiment.training, learning_rate=1e20))
    message = r"training has gone astray by round 4, with \[32, 24, 0\] samples: the loss is not finite; use a smaller"
    with pytest.raises(NotConverged, match=message):
        wild.accuracies([[32, 24, 0]])
    with pytest.raises(NotConverged, match="by round 2, with"):
        wild.history([[0, 0, 0], [32, 24, 0], [1, 0, 0], [1, 0, 0]])


def test_bad_profiles_are_refused_before_any_is_trained(experiment: Experiment) -> None:
    with pytest.raises(InvalidInput):
        experiment.each([[1, 1, 1], [0, 0, 0]])


def test_no_profiles_have_no_accuracies(experiment: Experiment) -> None:
    assert experiment.accuracies(np.empty((0, 3), dtype=int)).shape == (0, 3)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        (
            [[1, 1, 1], [0, 0, 0]],
            r"profiles\[1\] must have at least one sample of somebody, got zeros: no data, no mod",
        ),
        ([[1, 25, 1]], r'profiles\[0, 1\] must be at most 24, got 25: member "agent 1" has 24 training samples'),
        ([[1, -1, 1]], r"profiles\[0, 1\] must be a whole number of at least 0, got -1"),
        ([[1, 1.5, 1]], r"profiles\[0, 1\] must be a whole number of at least 0, got 1.5"),
        ([[1, np.nan, 1]], r"profiles\[0, 1\] must be a whole number of at least 0, got nan"),
        ([1, 1, 1], r"with a row per profile and a column per member \(3\), got int64 of shape \(3,\)"),
        ([[1, 1]], r"with a row per profile and a column per member \(3\), got int64 of shape \(1, 2\)"),
        ([[True, False, True]], r"got bool of shape .*; a coalition is `members \* experiment.available`"),
        ([["a", "b", "c"]], "profiles must be whole numbers"),
    ],
)
def test_what_is_no_profile(experiment: Experiment, profiles: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        experiment.accuracies(profiles)


def test_what_is_no_schedule(experiment: Experiment) -> None:
    with pytest.raises(InvalidInput, match="schedule must have at least one round, got none"):
        experiment.history(np.empty((0, 3), dtype=int))
    with pytest.raises(InvalidInput, match=r"schedule\[1, 2\] must be at most 28, got 29"):
        experiment.history([[1, 1, 1], [1, 1, 29]])
    with pytest.raises(InvalidInput, match="with a row per round"):
        experiment.history([1, 1, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_agents": 0}, "n_agents must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"samples": 0}, "samples must be a whole number of at least 1, got 0"),
        (
            {"samples": [30, 30.5, 30]},
            r'samples\[1\] must be a whole number of at least 1, got 30.5 \(member "agent 1"\)',
        ),
        ({"samples": [30, 30]}, "samples must be a number or one number per member: 3 members, 2 numbers given"),
        ({"samples": 2}, "samples must be at least 3, one image a class, got 2"),
        ({"samples": 200}, "samples must not exceed the 360 images there are, got 600 over all members"),
        ({"test_share": 0.0}, "test_share must be between 0 and 1, got 0"),
        ({"test_share": [0.2, 0.3, 0.2]}, "test_share must be one number, got 3"),
        ({"test_share": 0.01}, "holds 30 images, of which a test_share of 0.01 is 0"),
        ({"training": 20}, "training must be of type Training, got 20"),
        ({"label_noise": [0.1, 0.2]}, "3 members, 2 numbers given"),
        ({"label_noise": 1.2}, "label_noise must be a share from 0 to 1, got 1.2"),
        ({"names": ["a", "", "c"]}, "names must be non-empty strings"),
    ],
)
def test_what_is_no_experiment(images: Images, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Experiment(images, **{"samples": 30, **settings})


def test_images_are_needed() -> None:
    with pytest.raises(InvalidInput, match="images must be of type Images, got None"):
        Experiment(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"local_epochs": 1.5}, "local_epochs must be a whole number of at least 1, got 1.5"),
        ({"batch_size": True}, "batch_size must be a whole number of at least 1, got True"),
        ({"learning_rate": 0}, "learning_rate must be positive, got 0"),
        ({"learning_rate": [0.1, 0.2]}, "learning_rate must be one number, got 2"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1, got 1"),
        ({"hidden": 128}, "hidden must be a list of sizes, one per hidden layer, got 128"),
        ({"hidden": (128, 0)}, r"hidden\[1\] must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_no_training(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Training(**settings)


def test_the_fingerprint_is_of_all_that_matters(images: Images, experiment: Experiment) -> None:
    assert len(experiment.fingerprint) == 16
    assert int(experiment.fingerprint, 16) >= 0
    same = [
        replace(experiment, names=["x", "y", "z"]),
        replace(experiment, samples=np.array([40.0, 30.0, 35.0])),
        replace(experiment, images=blobs()),
        replace(experiment, training=replace(experiment.training, hidden=[9, 5])),
    ]
    assert {one.fingerprint for one in same} == {experiment.fingerprint}
    others = [
        replace(experiment, seed=1),
        replace(experiment, images=blobs(seed=1)),
        replace(experiment, samples=[40, 30, 36]),
        replace(experiment, test_share=0.21),
        replace(experiment, alpha=100.0),
        replace(experiment, alpha=101.0),
        replace(experiment, label_noise=0.1),
        replace(experiment, label_noise=[0.1, 0.1, 0.2]),
        *(
            replace(experiment, training=replace(experiment.training, **change))
            for change in (
                {"rounds": 5},
                {"local_epochs": 2},
                {"learning_rate": 0.04},
                {"momentum": 0.8},
                {"batch_size": 9},
                {"hidden": (9, 6)},
            )
        ),
    ]
    assert len({one.fingerprint for one in others} | {experiment.fingerprint}) == len(others) + 1


def test_without_jax_it_says_so(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedpact.training.experiment.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'Training is not installed: pip install "\.\[train\]"'):
        Experiment(images, samples=30)


def test_jax_is_imported_when_something_is_trained() -> None:
    code = "import sys, fedpact.training, fedpact.training.run; print('jax' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"

"""Agents with several lots of images, tested on several tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.report.records import run_record
from fedpact.training import Experiment, Images, Training, train_under
from fedpact.training.run import save_run
from fedpact.utils.errors import InvalidInput
from lots_scenario import FEDERATION

from .conftest import SMALL
from .test_fedavg import SINGLE, reference


@pytest.fixture(scope="module")
def sorted_images(images: Images) -> Experiment:
    """The first agent has two lots, the third three, the second one."""
    return Experiment(
        images,
        n_agents=3,
        samples=[20, 20, 30, 15, 10, 10],
        lot_owners=[0, 0, 1, 2, 2, 2],
        lot_names=["a", "b", "all", "x", "y", "z"],
        training=SMALL,
    )


def test_what_is_held(sorted_images: Experiment) -> None:
    assert sorted_images.has_lots and sorted_images.n_lots == 6
    assert sorted_images.available.tolist() == [16, 16, 24, 12, 8, 8]
    assert sorted_images.lot_labels == (
        "agent 0: a",
        "agent 0: b",
        "agent 1: all",
        "agent 2: x",
        "agent 2: y",
        "agent 2: z",
    )


@pytest.mark.slow
def test_lots_are_trained_as_by_hand(sorted_images: Experiment) -> None:
    schedule = [[16, 0, 24, 3, 0, 8], [0, 5, 0, 0, 8, 0], [1, 1, 1, 1, 1, 1], [16, 16, 24, 12, 8, 8]]
    accuracies, losses = reference(sorted_images.holdings, sorted_images._engine, sorted_images.training, schedule, 3)
    history = sorted_images.history(schedule)
    np.testing.assert_allclose(history.loss, losses, rtol=SINGLE)
    np.testing.assert_array_equal(history.accuracies, accuracies)


def test_lots_are_dealt_with_noise_of_their_own(images: Images) -> None:
    owned = {"n_agents": 2, "samples": [20, 30, 40], "lot_owners": [0, 0, 1], "lot_names": ["a", "b", "c"]}
    clean, noisy = (Experiment(images, label_noise=noise, **owned) for noise in (0.0, [0.0, 1.0, 0.0]))
    assert clean.available.tolist() == [16, 24, 32] and clean.test_sizes.tolist() == [10, 8]
    wrong = [held.labels != own.labels for held, own in zip(noisy.holdings, clean.holdings, strict=True)]
    np.testing.assert_array_equal(wrong[0], clean.holdings[0].lots == 1)
    assert not wrong[1].any()


def test_what_is_refused(sorted_images: Experiment, images: Images) -> None:
    with pytest.raises(InvalidInput, match='lot "agent 2: y" has 8 training samples'):
        sorted_images.accuracies([[0, 0, 0, 0, 10, 0]])
    with pytest.raises(InvalidInput, match="a column per lot"):
        sorted_images.accuracies([[0, 0, 1]])
    with pytest.raises(InvalidInput, match='member "agent 1" has no lot'):
        Experiment(images, n_agents=2, samples=30, lot_owners=[0, 0])


LOT_OWNERS = {"lot_owners": FEDERATION.lot_owners, "lot_names": FEDERATION.lot_names, "names": FEDERATION.names}


@pytest.fixture(scope="module")
def trainer(images: Images) -> Experiment:
    return Experiment(
        images, n_agents=3, samples=40, training=Training(rounds=2, batch_size=8, hidden=(5,)), **LOT_OWNERS
    )


@pytest.mark.slow
def test_a_deal_is_trained_on_what_is_agreed_of_each_lot(trainer: Experiment) -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    run = train_under(outcome, FEDERATION, trainer, floors=0.1)
    np.testing.assert_array_equal(run.samples, np.floor(outcome.contributions + 1e-9))
    np.testing.assert_array_equal(run.accuracies, trainer.history([run.samples] * 2).accuracies[-1])
    alone = np.where(FEDERATION.lot_owners == 1, run.standalone_samples, 0)
    assert run.standalone_accuracies[1] == trainer.history([alone] * 2).accuracies[-1, 1]
    np.testing.assert_allclose(run.promised.payoffs, outcome.payoffs)
    np.testing.assert_allclose(run.measured.payoffs, [1.0, 1.0, 1.3] * (run.accuracies - 0.1) / 0.9)
    spent = np.array([0.01, 0.08, 0.012, 0.02]) * run.samples
    np.testing.assert_allclose(run.measured.costs, [spent[0] + spent[1], spent[2], spent[3]])
    assert run.measured.welfare == pytest.approx(run.measured.utilities.sum(), abs=1e-12)


def test_who_is_not_in_the_deal_trains_alone_on_its_lots(trainer: Experiment) -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION.take([0, 2]))
    run = train_under(outcome.deal, FEDERATION, trainer)
    assert [run.agents[place] for place in run.plan.members] == ["North", "East"]
    assert run.samples[2] == run.standalone_samples[2] and run.accuracies[1] == run.standalone_accuracies[1]
    np.testing.assert_allclose(run.promised.payoffs[[0, 2]], outcome.payoffs)


@pytest.mark.slow
def test_a_run_with_lots_is_kept(tmp_path: Path, images: Images) -> None:
    experiment = Experiment(
        images,
        n_agents=FEDERATION.n_agents,
        names=FEDERATION.names,
        lot_owners=FEDERATION.lot_owners,
        lot_names=FEDERATION.lot_names,
        samples=np.array([20.0, 30.0, 40.0, 40.0]),
        label_noise=[0.0, 0.5, 0.0, 0.0],
        training=Training(rounds=2, hidden=(5,)),
    )
    run = train_under(fp.ShapleyMechanism().solve(FEDERATION), FEDERATION, experiment)
    save_run(tmp_path / "run", run, fp.Scenario(federation=FEDERATION), experiment, {})
    record = run_record(run)
    assert record["lots"] == list(FEDERATION.lot_labels) and len(record["samples"]) == 4 and len(record["payoffs"]) == 3
    rows = (tmp_path / "run" / "rounds.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 3 and rows[1].split(",")[3] == str(run.samples[0] + run.samples[1])


def test_experiments_of_other_lots_are_refused(trainer: Experiment, images: Images) -> None:
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    with pytest.raises(InvalidInput, match="lots in their order"):
        train_under(outcome, FEDERATION, Experiment(images, names=FEDERATION.names, samples=30))
    small = Experiment(images, samples=20, **LOT_OWNERS)
    with pytest.raises(InvalidInput, match='lot "South: all" agreed to 21 samples but has 16 to train on; give it'):
        train_under(outcome, FEDERATION, small)

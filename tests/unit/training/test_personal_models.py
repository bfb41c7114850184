"""Personal models: every member trains its own, and gets back the average of the trained models that it wants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from blobs import blobs
from fedpact.report.records import run_record
from fedpact.training import Experiment, Images, Training, train_under
from fedpact.training.fedavg import initial_weights
from fedpact.training.settings import Stream, generator

from . import by_hand
from .test_fedavg import SINGLE, shuffles

pytest.importorskip("jax")

NAMES = ["North", "South", "West"]
WANTED = np.array([[True, False, True], [True, True, False], [False, False, True]])


def federation(weights: list[list[float]], **more: object) -> fp.Federation:
    costs = more.pop("costs", [0.02, 0.03, 0.025])
    return fp.Federation(weights, costs=costs, caps=20.0, payoff=fp.PowerLaw(beta=0.3), names=NAMES, **more)


def test_models_are_averages_of_what_members_want(experiment: Experiment) -> None:
    check_by_hand(experiment, [[13, 0, 7], [0, 0, 28], [0, 0, 0], [5, 24, 0]], WANTED)


def test_lots_that_are_not_wanted_alike_are_trained_on_apart(images: Images) -> None:
    """North's second lot harms the others: its first goes to them without it."""
    trainer = Experiment(
        images,
        samples=[30, 20, 25, 20],
        training=Training(rounds=3, batch_size=8, hidden=(9, 5)),
        lot_owners=[0, 0, 1, 2],
        lot_names=["clean", "noisy", "all", "all"],
    )
    wanted = np.array([[True, True, True, True], [True, False, True, True], [True, False, True, True]])
    check_by_hand(trainer, [[20, 12, 15, 16]] * 3, wanted)


def test_a_run_with_data_at_home_counts_from_there(experiment: Experiment) -> None:
    weights = [[1.0, 1.5, 0.2], [0.3, 1.0, 0.4], [0.1, 1.6, 1.0]]
    fed, trainer = federation(weights, costs=0.001, home=[20.0, 18.0, 12.5]), replace(experiment, names=NAMES)
    deal = fp.ExternalityMechanism().solve(fed)
    run = train_under(deal, fed, trainer)
    assert run.plan.home is not None and run.plan.home.tolist() == [20, 18, 12] and run.samples[1] > 0
    for agent, home in enumerate(run.plan.home):
        own = np.arange(3) == agent
        alone, together = (trainer.history([np.where(own, home, others)] * 4) for others in (0, run.samples))
        np.testing.assert_array_equal(run.alone.loss[:, agent], alone.loss[:, agent])
        np.testing.assert_array_equal(run.together.loss[:, agent], together.loss[:, agent])
    np.testing.assert_array_equal(run.measured.standalone, 0.0)
    np.testing.assert_array_equal(run.promised.standalone, 0.0)
    np.testing.assert_allclose(run.measured.payoffs, run.accuracies - run.standalone_accuracies)
    np.testing.assert_allclose(run.measured.costs, 0.001 * run.samples)
    assert run_record(run)["home"] == [20, 18, 12]
    harmed = fed.replace(weights=[[1.0, -1.5, 0.2], weights[1], weights[2]]).with_personal_models()
    personal = train_under(fp.ExternalityMechanism().solve(harmed), harmed, trainer, models="personal")
    used = personal.samples
    expected = (
        trainer.history([[20, 0, used[2]]] * 4).loss[:, 0],
        trainer.history([[used[0], used[1], 12]] * 4).loss[:, 2],
    )
    assert used[1] > 0
    np.testing.assert_array_equal(personal.together.loss[:, 0], expected[0])
    np.testing.assert_array_equal(personal.together.loss[:, 2], expected[1])
    fuller = federation(weights, costs=0.001, home=[20.0, 30.0, 12.0])
    with pytest.raises(fp.InvalidInput, match=r'"South" would use, alone, 30 samples but has 24 to train on'):
        train_under(fp.ExternalityMechanism().solve(fuller), fuller, trainer)


def check_by_hand(trainer: Experiment, schedule: list[list[int]], wanted: np.ndarray) -> None:
    training, holdings = trainer.training, trainer.holdings
    sizes = (holdings[0].pixels.shape[1], *training.hidden, 3)
    start = [[part.astype(float) for part in layer] for layer in initial_weights(sizes, generator(0, Stream.WEIGHTS))]
    orders = shuffles(trainer._engine, holdings, len(schedule))
    models = by_hand.personal(start, holdings, np.array(schedule), orders, training, wanted=wanted)
    accuracies, losses = np.array(
        [[by_hand.measured(model, own) for model, own in zip(each, holdings, strict=True)] for each in models]
    ).transpose(2, 0, 1)
    found = trainer.history(schedule, wanted=wanted)
    np.testing.assert_allclose(found.loss, losses, rtol=SINGLE)
    np.testing.assert_array_equal(found.accuracies, accuracies)
    assert np.abs(found.loss - trainer.history(schedule).loss).max() > 1e-3


def test_without_harm_all_is_as_with_one_model(experiment: Experiment) -> None:
    one, schedule = experiment, [[32, 24, 28]] * 4
    everybody = one.history(schedule, wanted=np.ones((3, 3), dtype=bool))
    common = one.history(schedule)
    np.testing.assert_array_equal(everybody.loss, common.loss)
    np.testing.assert_array_equal(everybody.accuracies, common.accuracies)
    # Nor does it matter whether somebody is wanted who brings nothing.
    unwanted = one.history([[32, 0, 28]] * 4, wanted=np.array([[True, False, True]] * 3))
    np.testing.assert_array_equal(unwanted.loss, one.history([[32, 0, 28]] * 4).loss)


def test_a_run_without_harm_is_the_common_one(experiment: Experiment) -> None:
    fed = federation([[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.1, 0.6, 1.0]])
    trainer = replace(experiment, names=NAMES)
    deal = fp.ExternalityMechanism().solve(fed)
    common, personal = (train_under(deal, fed, trainer, models=models) for models in ("common", "personal"))
    for part in ("together", "alone"):
        np.testing.assert_array_equal(getattr(personal, part).loss, getattr(common, part).loss)
    np.testing.assert_array_equal(personal.measured.gains, common.measured.gains)
    records = run_record(common), run_record(personal)
    assert [record.pop("models") for record in records] == ["common", "personal"] and records[0] == records[1]


def test_a_harmful_member_spoils_the_common_model_and_not_the_personal_ones() -> None:
    """West's labels are wrong: North and South do without, and West learns from them what its own cannot teach it."""
    trainer = Experiment(
        blobs(per_class=400),
        names=NAMES,
        samples=[150, 150, 700],
        label_noise=[0.0, 0.0, 0.9],
        training=Training(rounds=8, batch_size=8, hidden=(9, 5)),
    )
    harmed = federation([[1.0, 0.9, -0.5], [0.9, 1.0, -0.5], [0.8, 0.8, 0.01]], costs=1e-4)
    deal = fp.Deal(
        mechanism="by hand",
        agents=tuple(NAMES),
        contributions=np.array([20.0, 20.0, 20.0]),
        payments=np.zeros(3),
    )
    used = [[100, 100, 500]] * 8
    common = trainer.history(used).accuracies[-1]
    personal = trainer.history(used, wanted=harmed.wanted_lots).accuracies[-1]
    without = trainer.history([[100, 100, 0]] * 8).accuracies[-1]
    assert (common[:2] < 0.5).all() and (personal[:2] > 0.8).all()
    np.testing.assert_array_equal(personal[:2], without[:2])
    run = train_under(deal, harmed, trainer, models="personal")
    np.testing.assert_array_equal(run.together.loss[:, :2], trainer.history([[20, 20, 0]] * 8).loss[:, :2])
    np.testing.assert_array_equal(run.promised.payoffs, harmed.with_personal_models().payoffs(deal.contributions))
    assert run.models == "personal"


def test_what_cannot_be_personal_is_refused(experiment: Experiment) -> None:
    fed = federation([[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.1, 0.6, 1.0]])
    with pytest.raises(fp.InvalidInput, match="models must be one of common, personal, got 'own'"):
        train_under(fp.ExternalityMechanism().solve(fed), fed, replace(experiment, names=NAMES), models="own")
    torn = fp.Federation(
        [[1.0, 0.5], [1.0, -0.5], [0.2, 1.0]],
        costs=0.02,
        caps=20.0,
        payoff=fp.PowerLaw(beta=0.3),
        names=["North", "South"],
        task_owners=[0, 0, 1],
    )
    with pytest.raises(fp.InvalidInput, match=r'"North" has one model, and lot "South.*make a member of each task'):
        _ = torn.wanted_lots

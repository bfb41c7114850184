"""Training under a deal: who trains with whom on how much, and what is made of the accuracies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedpact as fp
from fedpact.report.records import run_record
from fedpact.training import (
    Experiment,
    Images,
    Training,
)
from fedpact.training.run import Run, images_for, plan_training, train_under

pytest.importorskip("jax")

TRAINING = Training(rounds=4, batch_size=8, hidden=(9, 5))
RATES = np.array([0.02, 0.03, 0.025])
NAMES = ["North", "South", "West"]
FEDERATION = fp.Federation(
    [[1.0, 0.5, 0.2], [0.3, 1.0, 0.4], [0.1, 0.6, 1.0]],
    costs=RATES,
    caps=[20.0, 18.0, 22.0],
    values=[2.0, 1.0, 3.0],
    payoff=fp.PowerLaw(beta=0.3),
    names=NAMES,
)


@pytest.fixture(scope="module")
def trainer(images: Images) -> Experiment:
    return Experiment(images, samples=[40, 30, 35], training=TRAINING, names=NAMES)


@pytest.fixture(scope="module")
def solved() -> fp.Outcome:
    return fp.ExternalityMechanism().solve(FEDERATION)


@pytest.fixture(scope="module")
def run(trainer: Experiment, solved: fp.Outcome) -> Run:
    return train_under(solved, FEDERATION, trainer)


def agreed(*contributions: float, members: tuple[bool, ...] = (True, True, True)) -> fp.Deal:
    return fp.Deal(
        mechanism="by hand",
        agents=tuple(NAMES),
        contributions=np.array(contributions),
        payments=np.where(members, [0.1, -0.1, 0.0], 0.0),
        excluded={name: "it left" for name, inside in zip(NAMES, members, strict=True) if not inside},
    )


# What is trained


def test_the_common_model_is_that_of_the_agreed_samples_rounded_down(run: Run, trainer: Experiment, solved) -> None:
    expected = np.floor(solved.contributions).astype(int)
    assert (expected < solved.contributions).any() and expected.sum() > 0
    history = trainer.history(np.tile(expected, (TRAINING.rounds, 1)))
    np.testing.assert_array_equal(run.samples, expected)
    np.testing.assert_array_equal(run.together.accuracies, history.accuracies)
    np.testing.assert_array_equal(run.together.loss, history.loss)
    np.testing.assert_array_equal(run.accuracies, history.accuracies[-1])
    assert repr(run).startswith("<Run under externality: 3 agents, 4 rounds, mean accuracy 0.")


def test_alone_everybody_trains_on_what_it_would_use_alone(run: Run, trainer: Experiment) -> None:
    alone = fp.Standalone().solve(FEDERATION)
    expected = np.floor(alone.contributions).astype(int)
    np.testing.assert_array_equal(run.standalone_samples, expected)
    for agent in range(3):
        own = np.where(np.arange(3) == agent, expected, 0)
        history = trainer.history(np.tile(own, (TRAINING.rounds, 1)))
        np.testing.assert_array_equal(run.alone.accuracies[:, agent], history.accuracies[:, agent])
        np.testing.assert_array_equal(run.alone.loss[:, agent], history.loss[:, agent])


def test_the_same_again_is_the_same_and_another_seed_is_not(run: Run, images: Images, solved) -> None:
    def again(seed: int) -> Run:
        made = Experiment(images, samples=[40, 30, 35], training=TRAINING, names=NAMES, seed=seed)
        return train_under(solved, FEDERATION, made)

    assert run_record(again(0)) == run_record(run)
    assert not np.array_equal(again(1).together.loss, run.together.loss)


def test_nobody_federates_when_everybody_stands_alone(trainer: Experiment) -> None:
    run = train_under(fp.Standalone().solve(FEDERATION), FEDERATION, trainer)
    assert not run.plan.deal.is_federated
    np.testing.assert_array_equal(run.together.accuracies, run.alone.accuracies)
    np.testing.assert_allclose(run.promised.utilities, run.promised.standalone, rtol=1e-12)
    assert run.plan.members.size == 0 and run.gains.doubtful == () and run.verdict == "do not federate"


def test_those_outside_the_deal_train_alone(trainer: Experiment, solved) -> None:
    rest = FEDERATION.take([2, 0])  # in another order
    outcome = fp.ExternalityMechanism().solve(rest)
    run = train_under(outcome, FEDERATION, trainer)
    np.testing.assert_array_equal(run.plan.members, [0, 2])
    np.testing.assert_array_equal(run.plan.contributions[[2, 0]], outcome.contributions)
    np.testing.assert_allclose(run.promised.payoffs[[2, 0]], outcome.payoffs, rtol=1e-12)
    np.testing.assert_allclose(run.promised.utilities[[2, 0]], outcome.utilities, rtol=1e-12)
    assert run.promised.utilities[1] == pytest.approx(solved.standalone[1])
    assert run.plan.payments[1] == 0.0
    assert run.together.accuracies[-1, 1] == run.alone.accuracies[-1, 1]
    assert run.measured.utilities[1] == run.measured.standalone[1]
    assert run_record(run)["members"] == ["North", "West"]


def test_a_negotiated_deal_is_trained_like_the_solved_one(trainer: Experiment, run: Run) -> None:
    deal = fp.negotiate(FEDERATION)
    found = train_under(deal, FEDERATION, trainer)
    np.testing.assert_array_equal(found.together.accuracies, run.together.accuracies)
    np.testing.assert_allclose(found.plan.payments, run.plan.payments, atol=1e-6)
    assert found.plan.deal.mechanism == "externality"


@pytest.mark.slow
def test_one_agent_is_a_federation_too(images: Images) -> None:
    lone = fp.Federation([[1.0]], costs=0.01, caps=20.0, payoff=fp.PowerLaw(0.3))
    trainer = Experiment(images, n_agents=1, samples=40, training=TRAINING)
    run = train_under(fp.ExternalityMechanism().solve(lone), lone, trainer)
    np.testing.assert_array_equal(run.together.loss, run.alone.loss)
    assert run.measured.gains == pytest.approx(0.0)
    assert not run.promised.leaves.any() and not run.measured.leaves.any()


def test_without_samples_of_its_own_an_agent_alone_has_an_untrained_model(trainer: Experiment) -> None:
    dear = replace(FEDERATION, costs=fp.Linear([0.02, 10.0, 0.025]))
    run = train_under(fp.ExternalityMechanism().solve(dear), dear, trainer)
    assert run.standalone_samples[1] == 0
    untrained = trainer.history(np.zeros((TRAINING.rounds, 3), dtype=int))
    assert run.standalone_accuracies[1] == untrained.accuracies[-1, 1]
    assert run.promised.standalone[1] == 0.0


# What is made of it


def test_predictions_are_those_of_the_outcome(run: Run, solved) -> None:
    for name in ("payoffs", "costs", "payments", "utilities", "standalone"):
        np.testing.assert_allclose(getattr(run.promised, name), getattr(solved, name), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(run.promised.gains, solved.ir_gaps, rtol=1e-12)
    assert run.promised.welfare == pytest.approx(solved.welfare)
    assert [run.agents[agent] for agent in np.flatnonzero(run.promised.leaves)] == list(solved.leavers)


def test_realised_numbers_follow_from_accuracies_samples_and_payments(run: Run) -> None:
    rate, values = RATES, np.array([2.0, 1.0, 3.0])
    payoffs = values * run.accuracies
    utilities = payoffs - rate * run.samples + run.plan.payments
    alone = values * run.standalone_accuracies - rate * run.standalone_samples
    np.testing.assert_allclose(run.measured.payoffs, payoffs, rtol=1e-14)
    np.testing.assert_allclose(run.measured.utilities, utilities, rtol=1e-14)
    np.testing.assert_allclose(run.measured.standalone, alone, rtol=1e-14)
    np.testing.assert_allclose(run.measured.gains, utilities - alone, atol=1e-14)
    assert run.measured.welfare == pytest.approx((payoffs - rate * run.samples).sum())
    np.testing.assert_array_equal(run.measured.leaves, utilities < alone)


def test_floors_and_ceilings_say_what_an_accuracy_is_worth(trainer: Experiment, run: Run, solved) -> None:
    fitted = train_under(solved, FEDERATION, trainer, floors=[0.2, 0.3, 0.1], ceilings=0.9)
    expected = np.array([2.0, 1.0, 3.0]) * (run.accuracies - [0.2, 0.3, 0.1]) / (0.9 - np.array([0.2, 0.3, 0.1]))
    np.testing.assert_allclose(fitted.measured.payoffs, expected, rtol=1e-14)
    np.testing.assert_array_equal(fitted.promised.payoffs, run.promised.payoffs)
    np.testing.assert_allclose(fitted.gains.errors, run.gains.errors / (0.9 - np.array([0.2, 0.3, 0.1])), rtol=1e-14)


def test_who_is_better_off_alone_would_have_left(run: Run) -> None:
    def with_accuracies(together: list[float], alone: list[float]) -> Run:
        def of(history, last):
            accuracies = np.array(history.accuracies)
            accuracies[-1] = last
            return replace(history, accuracies=accuracies)

        return replace(run, together=of(run.together, together), alone=of(run.alone, alone))

    harmed = with_accuracies([0.9, 0.1, 0.9], [0.1, 0.9, 0.1])
    assert harmed.gains.losers == ("South",)
    assert harmed.gains.doubtful == () and harmed.verdict == "do not federate"
    assert with_accuracies([0.9] * 3, [0.1] * 3).verdict == "federate"
    even = with_accuracies([0.5] * 3, [0.5] * 3)
    assert even.verdict == "not enough evidence"
    assert set(even.gains.doubtful) == set(NAMES), "payments here are smaller than the noise of 6 to 8 test images"


def test_the_standard_error_is_that_of_two_shares(run: Run) -> None:
    np.testing.assert_array_equal(run.test_sizes, [8, 6, 7])
    rng = np.random.default_rng(0)
    share = 0.6
    perfect = replace(
        run,
        together=replace(run.together, accuracies=np.full((4, 3), share)),
        alone=replace(run.alone, accuracies=np.full((4, 3), share)),
        test_sizes=np.array([400, 400, 400]),
    )
    drawn = (rng.binomial(400, share, 20_000) - rng.binomial(400, share, 20_000)) / 400
    np.testing.assert_allclose(perfect.gains.errors, np.array([2.0, 1.0, 3.0]) * drawn.std(), rtol=0.03)
    right = replace(perfect, together=replace(run.together, accuracies=np.ones((4, 3))))
    assert (right.gains.errors > 0).all()


# Samples


@pytest.mark.parametrize(
    ("samples", "members"),
    [(0.9, (True, True, True)), (0.9, (False, False, False)), (9.0, (True, False, True))],
)
def test_an_empty_coalition_is_refused(trainer: Experiment, samples: float, members) -> None:
    with pytest.raises(fp.InvalidInput, match="nobody contributes a whole sample under this deal"):
        train_under(agreed(0.0, samples, 0.0, members=members), FEDERATION, trainer)


# Mistakes


def test_agents_must_be_those_of_the_federation(trainer: Experiment, images: Images, solved) -> None:
    two = Experiment(images, n_agents=2, samples=30, training=TRAINING)
    with pytest.raises(
        fp.InvalidInput, match=r"in their order \(North, South, West\), got agent 0, agent 1; say n_agents=3"
    ):
        train_under(solved, FEDERATION, two)
    turned = Experiment(images, samples=30, training=TRAINING, names=NAMES[::-1])
    with pytest.raises(fp.InvalidInput, match=r"in their order \(North, South, West\), got West, South, North"):
        train_under(solved, FEDERATION, turned)
    others = fp.Federation(FEDERATION.weights, costs=0.01, caps=20.0, payoff=fp.PowerLaw(0.3))
    with pytest.raises(fp.InvalidInput, match=r"between members of the scenario \(agent 0.*got 'North'"):
        train_under(solved, others, Experiment(images, samples=30, training=TRAINING))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floors": -0.1}, "floors must be an accuracy from 0 to 1, got -0.1"),
        ({"floors": float("nan")}, "floors must be an accuracy"),
        ({"ceilings": [1.0, 0.5]}, "3 members, 2 numbers given"),
        ({"floors": 0.5, "ceilings": [1.0, 0.5, 0.9]}, r"floors\[1\] must be below the ceiling 0.5, got 0.5 .*South"),
    ],
)
def test_bad_options(trainer: Experiment, solved, options, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        train_under(solved, FEDERATION, trainer, **options)


def test_a_deal_must_be_one(trainer: Experiment) -> None:
    with pytest.raises(fp.InvalidInput, match="deal must be a Deal or an Outcome, got 'externality'"):
        train_under("externality", FEDERATION, trainer)


def test_a_deal_of_another_federation_is_refused_with_the_difference(trainer: Experiment, solved) -> None:
    stranger = fp.Deal(mechanism="x", agents=("North", "East"), contributions=np.ones(2), payments=np.zeros(2))
    with pytest.raises(fp.InvalidInput, match=r"between members of the scenario \(North, South, West\), got 'East'"):
        train_under(stranger, FEDERATION, trainer)
    dearer = FEDERATION.replace(costs=2.0 * RATES)
    with pytest.raises(
        fp.InvalidInput, match="made for another scenario: its members are the same, but not all of weights, costs"
    ):
        train_under(solved, dearer, trainer)


def test_progress_names_every_model(trainer: Experiment, solved) -> None:
    told: list[str] = []
    train_under(solved, FEDERATION, trainer, progress=told.append)
    assert told == ["everybody together", "North alone", "South alone", "West alone"]


# The picture


def test_the_picture_shows_everybody_and_the_means(run: Run) -> None:
    pytest.importorskip("matplotlib")
    figure = run.plot()
    lines = figure.axes[0].get_lines()
    for history, (*agents, mean) in zip((run.together, run.alone), (lines[:4], lines[4:]), strict=True):
        for agent, line in enumerate(agents):
            np.testing.assert_array_equal(line.get_ydata(), history.accuracies[:, agent])
            np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
        np.testing.assert_allclose(mean.get_ydata(), history.accuracies.mean(axis=1))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [*NAMES, "mean in the deal", "mean alone"]
    figure.draw_without_rendering()


def test_pictures_of_one_round_and_of_odd_names(run: Run) -> None:
    pytest.importorskip("matplotlib")
    odd = replace(FEDERATION, names=["_hidden", "$a^2", "a name that goes on and on and on and on"])
    first = replace(run.together, accuracies=run.together.accuracies[:1])
    single = replace(run, federation=odd, together=first, alone=first).plot()
    labels = [text.get_text() for text in single.legends[0].get_texts()]
    assert labels[:2] == [" _hidden", r"\$a^2"] and "…" in labels[2]
    assert single.axes[0].get_lines()[0].get_marker() == "o"
    single.draw_without_rendering()


def test_a_figure_of_ones_own(run: Run) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    mine = Figure(layout="constrained")
    assert run.plot(ax=mine.subplots()) is mine


def test_joining_costs_count_among_the_costs(trainer: Experiment) -> None:
    dear = FEDERATION.replace(joining_costs=[0.1, 0.2, 0.3])
    solved = fp.ExternalityMechanism().solve(dear)
    run = train_under(solved, dear, trainer)
    np.testing.assert_allclose(run.promised.gains, solved.ir_gaps, atol=1e-9)
    free = train_under(fp.ExternalityMechanism().solve(FEDERATION), FEDERATION, trainer)
    np.testing.assert_allclose(run.measured.gains, free.measured.gains - [0.1, 0.2, 0.3], atol=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.25, 0.5, 0.9])
def test_the_advice_is_the_fewest_images(share: float) -> None:
    for samples in (1, 2, 3, 7, 33, 100, 401, 10_000):
        enough = images_for(samples, share)
        assert enough - round(share * enough) >= samples
        fewer = enough - 1
        assert fewer - round(share * fewer) < samples


def test_following_the_advice_helps(images: Images) -> None:
    federation = FEDERATION.replace(caps=1000.0, values=1.0)

    def check(contributions: list[float], samples: int) -> None:
        experiment = Experiment(images, samples=samples, training=TRAINING, names=federation.names)
        deal = fp.Deal(
            mechanism="by hand", agents=federation.names, contributions=np.array(contributions), payments=np.zeros(3)
        )
        plan_training(deal, federation, experiment)

    alone = fp.Standalone().solve(federation).contributions
    assert alone.max() < 24
    with pytest.raises(fp.InvalidInput, match=r'member "West" agreed to 41 samples but has 24 .*\(samples=51, '):
        check([30, 0, 41], 30)
    check([30, 0, 41], 51)
    with pytest.raises(fp.InvalidInput, match=r'"North" would use, alone, 7 samples but has 5'):
        check([1, 1, 1], 6)
    with pytest.raises(fp.InvalidInput, match="of which there are 360 in all"):
        check([1000, 1, 1], 30)

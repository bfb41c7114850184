"""Folds test every record, arrangements see what they may see, scores are scikit-learn's, differences are paired."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots.arrangements import ALONE, OWN_CHOICE, Trainer
from fedpact.fitting.pilots.models import QUICK, PilotModel, ScoreFunction, kept_records, parse_estimator
from fedpact.fitting.pilots.records import CLASSIFICATION, FOLDS, PilotData, Records, deal_folds, shared_records
from fedpact.utils.errors import InvalidInput
from unit.fitting.pilots.members import federation, member

pytest.importorskip("sklearn")


def trainer(data: PilotData, score: str = "accuracy", model: str | None = None) -> Trainer:
    return Trainer(data, PilotModel.of(model, data.task, len(data.classes), 0), ScoreFunction(score, data.task), 0)


def test_every_record_is_tested_once_and_never_by_a_model_that_has_seen_it() -> None:
    data = federation(60, 40)
    for own, folds in zip(data.records, deal_folds(data, [0, 0]), strict=True):
        assert len(folds) == FOLDS
        np.testing.assert_array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(len(own)))
        for fold in folds:
            assert not set(fold.test) & set(fold.train) and len(fold.test) + len(fold.train) == len(own)


def test_records_that_belong_together_stay_together() -> None:
    rng = np.random.default_rng(0)
    own = member(rng, 60)
    grouped = Records.of(own.features, own.targets, groups=np.arange(60) // 3)
    data = PilotData(names=("A", "B"), records=(grouped, member(rng, 30)), task=CLASSIFICATION, classes=("no", "yes"))
    for fold in deal_folds(data, [0])[0]:
        assert not set(grouped.groups[fold.test]) & set(grouped.groups[fold.train])


def test_who_shares_more_shares_what_it_shared_before_and_more() -> None:
    data = federation(60, 40)
    fold = deal_folds(data, [3])[0][1]
    few, many = (shared_records(data.records[0], fold, [share]) for share in (0.2, 0.7))
    assert len(few) == round(0.2 * len(fold.train)) and set(few) < set(many)


def test_alone_knows_nothing_of_the_others() -> None:
    data, other = federation(60, 60), federation(60, 60, seed=5)
    mixed = PilotData(
        names=data.names, records=(data.records[0], other.records[1]), task=data.task, classes=data.classes
    )
    one, two = (trainer(each)((ALONE, (1.0, 1.0), 0))[0] for each in (data, mixed))
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_own_choice_keeps_away_from_labels_that_mislead_and_takes_what_helps() -> None:
    gains = []
    for seed in range(6):
        data = federation(60, 500, 300, flipped=(0.0, 0.0, 0.5), seed=seed)
        made = trainer(data, "roc_auc")
        alone, chosen = (
            [
                made.score.of(each, own.truth)
                for each, own in zip(made((kind, (1.0,) * 3, 0)), data.records, strict=True)
            ]
            for kind in (ALONE, OWN_CHOICE)
        )
        gains.append(np.subtract(chosen, alone))
    first, second, third = np.mean(gains, axis=0)
    assert first > -0.02 and abs(second) < 0.005  # what misleads is left alone
    assert third > 0.02  # whose own labels mislead, and others' do not


def test_with_nothing_shared_own_choice_is_alone() -> None:
    data = federation(40, 50)
    made = trainer(data)
    for one, other in zip(made((OWN_CHOICE, (0.0, 0.0), 1)), made((ALONE, (0.0, 0.0), 1)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_class_of_few_records_leaves_nothing_to_choose_by() -> None:
    rng = np.random.default_rng(1)
    rare = member(rng, 100, shift=4.5)
    assert 0 < (rare.truth == 0).sum() < 13
    data = PilotData(names=("A", "B"), records=(rare, member(rng, 200)), task=CLASSIFICATION, classes=("no", "yes"))
    made = trainer(data, "roc_auc")
    np.testing.assert_array_equal(made((OWN_CHOICE, (1.0, 1.0), 0))[0], made((ALONE, (1.0, 1.0), 0))[0])


@pytest.mark.parametrize("name", sorted(QUICK))
def test_quick_scores_are_those_of_scikit_learn(name: str) -> None:
    from sklearn import metrics

    rng = np.random.default_rng(3)
    probabilities = rng.random(80).round(1)  # with ties
    truth = rng.integers(0, 2, 80).astype(float)
    found = ScoreFunction(name, CLASSIFICATION).of(np.stack([1.0 - probabilities, probabilities], 1), truth)
    answers = (probabilities > 0.5).astype(int)
    expected = {
        "accuracy": metrics.accuracy_score(truth, answers),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, answers),
        "roc_auc": metrics.roc_auc_score(truth, probabilities),
    }
    assert found == pytest.approx(expected[name], abs=1e-12)


@pytest.mark.parametrize("name", ["f1", "average_precision", "neg_log_loss", "neg_brier_score"])
def test_any_score_of_scikit_learn_is_taken(name: str) -> None:
    rng = np.random.default_rng(3)
    probabilities = np.clip(rng.random(80), 0.01, 0.99)
    truth = (rng.random(80) < probabilities).astype(float)
    found = ScoreFunction(name, CLASSIFICATION).of(np.stack([1.0 - probabilities, probabilities], 1), truth)
    assert np.isfinite(found)


def test_scores_of_regressions() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert ScoreFunction("r2", "regression").of(truth, truth) == 1.0
    assert ScoreFunction("neg_mean_absolute_error", "regression").of(truth + 0.5, truth) == -0.5


def test_a_score_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"score must be one of accuracy, balanced_accuracy, roc_auc.*got 'auc'"):
        ScoreFunction("auc", CLASSIFICATION)


def test_the_variance_of_a_paired_difference_is_that_of_drawing_records_anew() -> None:
    """Two models that agree on most records: the difference is known far better than either score."""
    rng = np.random.default_rng(7)
    score, differences, stated = ScoreFunction("accuracy", CLASSIFICATION), [], []
    for _ in range(60):
        truth = rng.integers(0, 2, 200).astype(float)
        one = np.where(rng.random(200) < 0.8, truth, 1.0 - truth)
        other = np.where(rng.random(200) < 0.1, 1.0 - one, one)

        kept = kept_records(truth, np.arange(200))
        found = [score.measure(np.eye(2)[each.astype(int)], truth, kept)[None] for each in (one, other)]
        mean, variance = score.difference(*found)
        differences.append(mean)
        stated.append(variance)
    assert np.mean(stated) == pytest.approx(np.var(differences), rel=0.4)
    assert np.mean(stated) < 0.5 * 0.8 * 0.2 / 200 * 2.0


class Brier(ScoreFunction):
    """Minus the mean squared error of probabilities: a mean over records, whose variance is theirs."""

    def __init__(self) -> None:
        self.name = "brier"

    def measure(self, predictions: np.ndarray, truth: np.ndarray, kept: np.ndarray) -> np.ndarray:
        each = -((predictions - np.eye(predictions.shape[1])[truth.astype(int)]) ** 2).sum(axis=1)
        return np.append(each.mean(), each)

    def difference(self, one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
        each = (one - other)[:, 1:].mean(axis=0)
        return float(each.mean()), float(each.var(ddof=1)) / each.size


def test_a_score_brings_a_variance_of_its_own() -> None:
    found = fp.pilot("wine", models=6, splits=2, score=Brier())
    gains, errors = found.gain("own choice")
    jackknifed = fp.pilot("wine", models=6, splits=2, score="neg_brier_score")
    also, doubts = jackknifed.gain("own choice")
    np.testing.assert_allclose(gains, also, atol=1e-12)
    np.testing.assert_allclose(errors, doubts, rtol=0.5)
    assert (errors != doubts).any()
    assert found.score.words == "brier"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("os:system('ls')", "model must be written like sklearn"),
        ("sklearn.linear_model:Nothing()", "has no estimator Nothing"),
        ("sklearn.linear_model:Ridge(alpha=open('x'))", "must be plain values"),
        ("sklearn.linear_model:Ridge(nothing=1)", "does not take these arguments"),
        ("sklearn.nowhere:Ridge()", "scikit-learn has no module"),
    ],
)
def test_models_are_parsed_never_run(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_estimator(text)


def test_a_model_for_another_task_is_refused() -> None:
    with pytest.raises(InvalidInput, match="model must be for classification, which Ridge is not"):
        PilotModel.of("sklearn.linear_model:Ridge()", CLASSIFICATION, 2, 0)


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("r2", CLASSIFICATION, "score r2 is for numbers, and the target makes a classification"),
        ("accuracy", "regression", "score accuracy is for classes, and the target makes a regression"),
        ("roc_auc", "regression", "score roc_auc is for classes"),
        ("auc", CLASSIFICATION, r"did you mean roc_auc\?"),
    ],
)
def test_a_score_suits_the_task(name: str, task: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ScoreFunction(name, task)

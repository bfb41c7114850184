"""Models by name, from a parser that runs nothing; scores as they are stated."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots.coalitions import CoalitionRecords, first_runs
from fedpact.fitting.pilots.estimators import CoalitionModel, parse_estimator
from fedpact.fitting.pilots.records import Records

pytest.importorskip("sklearn")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('true')", "must be written like"),
        ("os:system('true')", "must be written like"),
        ("sklearn.linear_model:Ridge(alpha=__import__('os').getpid())", "must be plain values"),
        ("sklearn.linear_model:Ridge(**{'alpha': 1})", "must be plain values"),
        ("sklearn.linear_model:Ridge(alpha=1).fit", "must be written like"),
        ("sklearn.linear_model:Ridge(1)(2)", "must be plain values"),
        ("sklearn.linear_model:Ridge(alpha=1", "must be written like"),
        ("sklearn.linear_model._ridge:Ridge()", "must be written like"),
        ("sklearn.linear_model:ridge_regression()", "has no estimator ridge_regression that predicts"),
        ("sklearn.preprocessing:StandardScaler()", "has no estimator StandardScaler that predicts"),
        ("sklearn.nothing:Ridge()", "has no module sklearn.nothing"),
        ("sklearn.linear_model:Ridge(beta=1)", "does not take these arguments"),
        ("sklearn.linear_model:Ridge(" + "[" * 2000, "must be written like"),
    ],
)
def test_texts_that_are_no_estimator_are_refused_and_nothing_runs(text: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        parse_estimator(text)


def test_an_estimator_must_suit_the_task_and_gets_the_seed() -> None:
    with pytest.raises(fp.InvalidInput, match="must be for classification, which Ridge is not"):
        CoalitionModel.of("sklearn.linear_model:Ridge()", "classification", 0)
    model = CoalitionModel.of("sklearn.ensemble:RandomForestClassifier(n_estimators=3)", "classification", 7)
    assert model.estimator.random_state == 7


def coalition(targets: list[float], tests: list[list[float]]) -> CoalitionRecords:
    train = Records(np.arange(len(targets), dtype=float)[:, None], np.array(targets))
    tested = tuple(Records(np.arange(len(own), dtype=float)[:, None], np.array(own)) for own in tests)
    return CoalitionRecords(train, np.zeros(len(targets), dtype=np.intp), tested, (len(targets),), 2.0, 0)


def test_one_class_in_training_is_the_answer_to_everything() -> None:
    model = CoalitionModel.of(None, "classification", 0)
    assert model.scores(coalition([1.0, 1.0], [[1.0, 0.0, 1.0, 1.0], [0.0]])) == [0.75, 0.0]


def test_a_regression_scores_the_share_of_squared_error_it_removes() -> None:
    model = CoalitionModel.of("sklearn.dummy:DummyRegressor(strategy='constant', constant=3.0)", "regression", 0)
    found = model.scores(coalition([1.0, 2.0], [[3.0, 4.0], [0.0, 0.0]]))
    assert found == pytest.approx([1 - 0.5 / 2.5, 0.0])  # guessing 2: (1 + 4) / 2; answering 3: (0 + 1) / 2


def test_missing_features_are_the_medians_of_the_coalition() -> None:
    train = Records(np.array([[0.0], [np.nan], [1.0], [0.0]]), np.array([0.0, 0.0, 1.0, 0.0]))
    tests = (Records(np.array([[np.nan], [1.0]]), np.array([0.0, 1.0])),)
    given = CoalitionRecords(train, np.zeros(4, dtype=np.intp), tests, (4,), 0.25, 0)
    assert CoalitionModel.of("sklearn.tree:DecisionTreeClassifier()", "classification", 0).scores(given) == [1.0]


@pytest.mark.parametrize("answer", [[0.5], [0.5, 1.5], "no", None])
def test_a_function_must_return_a_score_per_member(answer: object) -> None:
    model = CoalitionModel.of(lambda given: answer, "classification", 0)
    with pytest.raises(fp.InvalidInput, match="must return"):
        model.scores(coalition([0.0], [[0.0], [1.0]]))


def test_the_first_runs_are_a_spread_without_repeats() -> None:
    runs = first_runs(np.array([100, 50, 7]), ["a", "b", "c"], 30)
    assert runs[:4] == [(100, 50, 7), (100, 0, 0), (0, 50, 0), (0, 0, 7)]
    assert (10, 5, 1) in runs and (0, 50, 7) in runs
    assert len(set(runs)) == len(runs) <= 18
    assert first_runs(np.array([100, 50, 7]), ["a", "b", "c"], 4) == runs[:4]

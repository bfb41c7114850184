"""A pilot from data to a deal: what is planted is found, an interrupted one goes on, nothing is trained twice."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots import CoalitionRecords, PilotData, Records
from fedpact.fitting.pilots.estimators import CoalitionModel
from fedpact.fitting.pilots.search import PilotState
from fedpact.fitting.pilots.terms import pilot_terms

NAMES = ("A", "B", "C")
WEIGHTS = np.array([[0.05, 0.03, 0.0], [0.02, 0.05, 0.01], [0.01, 0.04, 0.05]])
HARM = np.array([[0.05, 0.03, -0.01], [0.02, 0.05, -0.01], [-0.01, -0.01, 0.05]])  # C and the others harm each other
MONEY = {"cost": "0.05 EUR/record", "value": "20 EUR/point"}


def data() -> PilotData:
    rng = np.random.default_rng(0)

    def records(count: int) -> Records:
        return Records(rng.normal(size=(count, 2)), rng.integers(0, 2, count).astype(float))

    train = tuple(records(count) for count in (120, 80, 60))
    return PilotData(names=NAMES, train=train, test=tuple(records(5000) for _ in NAMES), task="classification")


class Planted:
    """Scores that a known federation would have, and the runs that were asked for."""

    def __init__(self, weights: np.ndarray = WEIGHTS) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.weights = weights

    def __call__(self, given: CoalitionRecords) -> np.ndarray:
        self.asked.append(given.contributions)
        counted = np.bincount(given.owners, minlength=3)
        assert counted.tolist() == list(given.contributions)
        reached = np.maximum(self.weights @ counted, 0.0)
        return 0.3 + 0.6 * (1.0 - (1.0 + reached) ** -0.7)


def test_what_was_planted_is_found_and_settled() -> None:
    found = fp.pilot(data(), model=Planted(), models=40, **MONEY)
    assert found.is_settled
    np.testing.assert_allclose(found.fit.predict([[120, 80, 60]])[0], Planted()(_everybody()), atol=0.01)
    truth = fp.Federation(
        WEIGHTS, costs=0.05, caps=[120.0, 80.0, 60.0], payoff=fp.PowerLaw(0.7), values=2000.0 * 0.6, names=NAMES
    )
    best = fp.ExternalityMechanism().solve(truth)
    deal = fp.ExternalityMechanism().solve(found.scenario.federation)
    assert truth.welfare(deal.contributions) > 0.98 * best.welfare
    assert found.scenario.money == fp.Money("EUR", 1.0)


def test_measured_harm_is_fitted_as_harm_and_said() -> None:
    found = fp.pilot(data(), model=Planted(weights=HARM), models=10, **MONEY)
    assert found.fit.signs == "any"
    assert (found.fit.weights[2, :2] < 0).all()
    alone, together = (0.3 + 0.6 * (1.0 - (1.0 + reached) ** -0.7) for reached in (3.0, 1.0))
    assert found.warnings[0].startswith(f"together is worse than alone for C ({together:.3f} against {alone:.3f})")
    assert found.warnings[0] in found.scenario.description
    np.testing.assert_allclose(found.fit.predict([[120, 80, 60]])[0, 2], together, atol=0.05)


@pytest.mark.slow
def test_harm_that_signs_forbid_is_said_with_the_way_out() -> None:
    found = fp.pilot(data(), model=Planted(weights=HARM), models=10, signs="positive", **MONEY)
    assert (found.fit.weights >= 0).all()
    assert "for C" in found.warnings[0] and "signs any" in found.warnings[0]
    assert not any(option in words for words in found.warnings for option in ("(auto", "shared none"))


def test_scores_within_the_error_of_the_tests_are_no_harm() -> None:
    found = fp.pilot(data(), model=lambda given: np.array([0.7, 0.7, 0.7]) - 1e-5 * sum(given.contributions), models=4)
    assert (found.fit.signs, found.warnings) == ("positive", ())


@pytest.mark.slow
def test_harm_to_a_regression_is_measured_too() -> None:
    given = replace(data(), task="regression", test=tuple(own.take(np.arange(500)) for own in data().test))
    found = fp.pilot(given, model=Planted(weights=HARM * [[1], [1], [3]]), models=6)
    assert found.fit.signs == "any"


@pytest.mark.slow
def test_who_may_leave_is_the_same_number_in_pilot_and_report() -> None:
    given = replace(data(), test=tuple(own.take(np.arange(60)) for own in data().test))
    found = fp.pilot(given, model=Planted(), models=6, **MONEY)
    told = dict(zip(found.doubts.labels, found.doubts.leave_probabilities.tolist(), strict=True))
    reported = {
        (outlook.title, agent): share
        for outlook in found.compare().uncertainty.values()
        for agent, share in zip(outlook.agents, outlook.leave_probabilities.tolist(), strict=True)
    }
    assert told == {label: reported[label] for label in told}


def _everybody() -> CoalitionRecords:
    given = data()
    train, owners = given.gather([120, 80, 60])
    return CoalitionRecords(train, owners, given.test, (120, 80, 60), 0.5, 0)


@pytest.fixture
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports take longer than pilots, and one test writes one."""
    monkeypatch.setattr("fedpact.report.write_report", lambda *words, **options: None)
    monkeypatch.setattr("fedpact.fitting.pilots.PilotStudy.compare", lambda self: None)
    monkeypatch.setattr("fedpact.fitting.pilots.folder._picture", lambda found: None)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_report")
def test_an_interrupted_pilot_goes_on_and_trains_nothing_twice(tmp_path: Path) -> None:
    whole = Planted()
    fp.pilot(data(), model=whole, models=10, output=tmp_path / "whole", **MONEY)
    first, rest = Planted(), Planted()

    def stop(state: PilotState) -> None:
        if state.trained == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fp.pilot(data(), model=first, models=10, output=tmp_path / "cut", progress=stop, **MONEY)
    spoiled = (tmp_path / "cut" / "models.jsonl").read_text() + '{"key": "[1'
    (tmp_path / "cut" / "models.jsonl").write_text(spoiled)  # cut in the middle of a line
    fp.pilot(data(), model=rest, models=10, output=tmp_path / "cut", **MONEY)
    assert first.asked + rest.asked == whole.asked
    assert len(set(whole.asked)) == len(whole.asked) == 10
    for name in ("log.csv", "scenario.toml", "curves.csv", "models.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = Planted()
    fp.pilot(data(), model=again, models=10, output=tmp_path / "cut", **MONEY)
    assert again.asked == []


@pytest.mark.slow
def test_the_folder_holds_what_fit_and_compare_read(tmp_path: Path) -> None:
    found = fp.pilot(data(), model=Planted(), models=10, output=tmp_path / "out", **MONEY)
    log = fp.Observations.from_csv(tmp_path / "out" / "log.csv")
    np.testing.assert_array_equal(log.accuracies, found.observations.accuracies)
    np.testing.assert_array_equal(log.contributions, found.observations.contributions)
    scenario = fp.load_scenario(tmp_path / "out" / "scenario.toml")
    assert scenario == found.scenario
    assert scenario.uncertainty is not None
    assert "EUR" in (tmp_path / "out" / "report.html").read_text()
    record = json.loads((tmp_path / "out" / "pilot.json").read_text())
    assert (record["agents"], record["models"], record["currency"]) == (list(NAMES), 10, "EUR")
    curves = (tmp_path / "out" / "curves.csv").read_text().splitlines()
    assert "A,everybody,1.0,260" in "".join(curves) and "A,alone,1.0,120" in "".join(curves)


@pytest.mark.usefixtures("_no_report")
def test_another_pilot_does_not_go_on_in_the_folder(tmp_path: Path) -> None:
    fp.pilot(data(), model=Planted(), models=4, output=tmp_path / "out")
    with pytest.raises(fp.InvalidInput, match="another experiment"):
        fp.pilot(data(), model=Planted(), models=4, seed=1, output=tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(fp.InvalidInput, match="holds other files"):
        fp.pilot(data(), model=Planted(), models=4, output=tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": 3}, "models must be at least 4: everybody together, and each of 3 members alone; got 3"),
        ({"models": 0}, "models must be a whole number"),
        ({"signs": "both"}, "signs must be one of auto, positive, any, got 'both'"),
        ({"target": "x"}, "target is for tables"),
        ({"cost": "0.05 EUR/record"}, "cost is in money: say what accuracy is worth too"),
        ({"value": "5 EUR/point", "cost": 0.1}, "value is in money: say the cost in money too"),
        ({"value": "5 EUR/point", "cost": "1 USD/record"}, "must be in one currency, got USD and EUR"),
        ({"value": "5 EUR/point", "cost": "1 EUR/image"}, "cost is money per image, but data is counted in records"),
        ({"value": "5 EUR/record", "cost": "1 EUR/record"}, "value must be money per point"),
        ({"value": -1}, "value must be a positive number"),
        ({"cost": {"A": 1, "D": 2}}, "there is no member 'D'"),
        ({"cost": {"A": 1}}, 'cost must be said for "B" too'),
        ({"predictions": 5}, "predictions count answers"),
        ({"value": "2 EUR/correct", "predictions": -5}, "predictions must be a positive number, got -5"),
        ({"value": "1e400 EUR/point"}, "value must be below 1.8e308, got '1e400'"),
        ({"value": "1e308 EUR/point"}, "value must be below 1.8e308"),
        ({"seed": 10**20}, "seed must be a whole number from 0 to 4294967295, got an integer of 67 bits"),
        ({"model": lambda given: [np.nan, 0.5, 0.5]}, 'of member "A", got NaN from all .* models .*lambda'),
    ],
)
def test_terms_that_do_not_add_up_are_refused(options: dict, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        fp.pilot(data(), **({"model": Planted()} | options))


def test_money_per_correct_answer_counts_the_answers() -> None:
    terms = pilot_terms(
        data(), "20 EUR/thousand records", {"": "2 EUR/correct", "B": "300 EUR/point"}, {"": 50, "A": 10}
    )
    assert terms.costs is not None
    assert terms.costs.tolist() == pytest.approx([0.02] * 3)
    assert terms.worth.tolist() == [20.0, 30000.0, 100.0]
    held = pilot_terms(data(), None, "2 EUR/correct", None)
    assert held.worth.tolist() == [2.0 * (len(train) + 5000) for train in data().train]
    assert "as many answers" in held.words[0]


def closure(share: float) -> Callable[[CoalitionRecords], list[float]]:
    return lambda given: [share] * 3


def with_share(given: CoalitionRecords, share: float = 0.5) -> list[float]:
    return [share] * 3


class Sharing:
    """A model with a setting."""

    def __init__(self, share: object) -> None:
        self.share = share

    def __call__(self, given: CoalitionRecords) -> list[float]:
        return [self.share] * 3  # type: ignore[list-item]

    def method(self, given: CoalitionRecords) -> list[float]:
        return self(given)


def identity(model: object) -> str | None:
    return CoalitionModel.of(model, "classification", 0).identity


@pytest.mark.parametrize(
    "make",
    [
        closure,
        lambda share: functools.partial(with_share, share=share),
        lambda share: lambda given, own=share: [own] * 3,
        lambda share: functools.partial(closure(share)),
        lambda share: functools.partial(lambda given, share: [share.share] * 3, share=Sharing(share)),
        Sharing,
        lambda share: Sharing(share).method,
        lambda share: closure([np.full(5000, 0.1), share]),  # type: ignore[arg-type]
    ],
)
def test_models_are_told_apart_by_all_they_are_made_with(make: Callable[[float], object]) -> None:
    assert identity(make(0.2)) == identity(make(0.2)) != identity(make(0.8))


def test_functions_on_one_line_and_changed_numbers_beside_them_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (lambda given: [0.2] * 3), (lambda given: [0.8] * 3)
    assert identity(one) != identity(other)
    models = [functools.partial(lambda given: [WEIGHTS.max()] * 3), lambda given: [WEIGHTS.min() for _ in range(3)]]
    before = [identity(model) for model in models]
    monkeypatch.setattr(f"{__name__}.WEIGHTS", 2 * WEIGHTS)
    assert all(identity(model) != planted for model, planted in zip(models, before, strict=True))


@pytest.mark.usefixtures("_no_report")
def test_another_closure_does_not_get_the_scores_of_the_first(tmp_path: Path) -> None:
    fp.pilot(data(), model=closure(0.2), models=4, output=tmp_path / "out")
    with pytest.raises(fp.InvalidInput, match="another experiment"):
        fp.pilot(data(), model=closure(0.8), models=4, output=tmp_path / "out")
    found = fp.pilot(data(), model=closure(0.2), models=4, output=tmp_path / "out")
    assert found.observations.accuracies.max() == 0.2


@pytest.mark.usefixtures("_no_report")
def test_a_model_that_cannot_be_told_from_others_does_not_go_on(tmp_path: Path) -> None:
    lock = threading.Lock()

    def model(given: CoalitionRecords) -> list[float]:
        with lock:
            return [0.5] * 3

    fp.pilot(data(), model=model, models=4, output=tmp_path / "out")
    with pytest.raises(fp.InvalidInput, match=r"whether .*model is the model .* cannot be told .*lock.*; name a new"):
        fp.pilot(data(), model=model, models=4, output=tmp_path / "out")


def test_printing_shows_no_records() -> None:
    found = fp.pilot(data(), model=closure(0.5), models=4)
    assert repr(found.data) == ("PilotData(classification, A, B and C: 260 records to train on, 15,000 to test with)")
    assert repr(found).startswith(f"PilotStudy({found.data!r}, 4 models, ") and len(repr(found)) < 300
    assert repr(found.data.train[0]) == "Records(120 of 2 features)"
    assert len(repr(_everybody())) < 300


@pytest.mark.usefixtures("_no_report")
def test_a_spoiled_result_is_named_with_its_file(tmp_path: Path) -> None:
    fp.pilot(data(), model=closure(0.5), models=4, output=tmp_path / "out")
    file = tmp_path / "out" / "models.jsonl"
    file.write_text(file.read_text().replace("[0.5,", "[7.8,", 1))
    with pytest.raises(fp.InvalidInput, match=r"models\.jsonl: the result of \[120, 80, 60\] must be 3 scores .*7\.8"):
        fp.pilot(data(), model=closure(0.5), models=4, output=tmp_path / "out")

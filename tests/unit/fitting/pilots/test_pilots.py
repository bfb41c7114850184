"""A pilot from data to a deal: what is planted is found, an interrupted one goes on, nothing is trained twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots import CoalitionRecords, PilotData, Records
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

    def __init__(self, stop_after: int = 1000, weights: np.ndarray = WEIGHTS) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.stop_after = stop_after
        self.weights = weights

    def __call__(self, given: CoalitionRecords) -> np.ndarray:
        if len(self.asked) == self.stop_after:
            raise KeyboardInterrupt
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


def test_harm_that_signs_forbid_is_said_with_the_way_out() -> None:
    found = fp.pilot(data(), model=Planted(weights=HARM), models=10, signs="positive", **MONEY)
    assert (found.fit.weights >= 0).all()
    assert "for C" in found.warnings[0] and "signs any" in found.warnings[0]
    assert not any(option in words for words in found.warnings for option in ("(auto", "shared none"))


def test_scores_within_the_error_of_the_tests_are_no_harm() -> None:
    found = fp.pilot(data(), model=lambda given: np.array([0.7, 0.7, 0.7]) - 1e-5 * sum(given.contributions), models=4)
    assert (found.fit.signs, found.warnings) == ("positive", ())


def test_harm_to_a_regression_is_measured_too() -> None:
    given = replace(data(), task="regression", test=tuple(own.take(np.arange(500)) for own in data().test))
    found = fp.pilot(given, model=Planted(weights=HARM * [[1], [1], [3]]), models=6)
    assert found.fit.signs == "any"


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
    first, rest = Planted(stop_after=5), Planted()
    with pytest.raises(KeyboardInterrupt):
        fp.pilot(data(), model=first, models=10, output=tmp_path / "cut", **MONEY)
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

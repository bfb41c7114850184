"""Curves of gains, verdicts, tables, and pilots from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots.built_in import built_in_pilot
from fedpact.fitting.pilots.gain_curves import fit_gains, shapes_of
from fedpact.fitting.pilots.records import pilot_data
from fedpact.fitting.pilots.study import Confirmation
from fedpact.report.records import pilot_record
from fedpact.scenario.measured import DO_NOT, FEDERATE, NOT_ENOUGH
from unit.fitting.pilots.members import federation

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
NOT_OWN = ~np.eye(3, dtype=bool)


def planted(rng: np.random.Generator, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Amounts, gains with noise, their variances, and the gains without."""
    weights = np.array([[0.0, 0.05, 0.01], [0.02, 0.0, 0.0], [0.0, 0.0, 0.0]])
    values = np.array([0.08, 0.04, 0.0])
    amounts = np.vstack([np.full(3, 100.0), 100.0 * np.eye(3), rng.choice([0.0, 10.0, 30.0, 60.0, 100.0], (10, 3))])
    truth = values * fp.PowerLaw(beta=1.0).value(amounts @ weights.T)
    return amounts, truth + noise * rng.normal(size=truth.shape), np.full(truth.shape, noise**2), truth


def test_planted_gains_are_found() -> None:
    amounts, gains, variances, truth = planted(np.random.default_rng(0), 1e-4)
    found = fit_gains(amounts, gains, variances, NOT_OWN)
    np.testing.assert_allclose(found.gains(amounts), truth, atol=2e-3)
    assert found.predicts and found.shape.parameters["beta"] == 1.0
    assert not found.weights[np.eye(3, dtype=bool)].any()


def test_gains_that_do_not_stand_out_of_their_noise_count_for_nothing() -> None:
    rng = np.random.default_rng(1)
    amounts, _, variances, _ = planted(rng, 0.02)
    found = fit_gains(amounts, 0.005 * rng.normal(size=variances.shape), variances, NOT_OWN)
    assert not found.values.any()


@pytest.mark.slow
def test_promises_are_not_above_the_truth_on_average() -> None:
    """The best of noisy measurements is the luckiest: shrinking takes that back."""
    promised, true = [], []
    for seed in range(10):
        amounts, gains, variances, truth = planted(np.random.default_rng(seed), 0.03)
        promised.append(
            fit_gains(amounts, gains, variances, NOT_OWN, shapes=shapes_of("exponential")).gains(amounts[0]).sum()
        )
        true.append(truth[0].sum())
    assert np.mean(promised) < 1.1 * np.mean(true)


def test_harm_is_fitted_where_signs_are_open() -> None:
    amounts, gains, variances, _ = planted(np.random.default_rng(2), 1e-4)
    harmed = gains - 0.0004 * amounts[:, [2]]
    found = fit_gains(amounts, harmed, variances, None)
    assert np.isfinite(found.gains(amounts)).all() and (found.weights[:, 2] < 0.0).any()


def confirmation(measured: list[float], errors: list[float], **changes: object) -> Confirmation:
    n = len(measured)
    given = {
        "names": tuple("ABC"[:n]),
        "mechanism": "Externality",
        "shared": np.full(n, 10.0),
        "payments": np.zeros(n),
        "promised": np.full(n, 5.0),
        "measured": np.array(measured),
        "errors": np.array(errors),
        "costs": np.full(n, 10.0),
        "currency": "EUR",
        "slack": 0.1,
    }
    return Confirmation(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("measured", "errors", "verdict"),
    [
        ([100.0, 50.0], [10.0, 10.0], FEDERATE),
        ([100.0, -1e-9], [10.0, 0.0], FEDERATE),  # rounding is no loss
        ([100.0, -30.0], [10.0, 10.0], DO_NOT),  # all gain, and one member loses beyond doubt
        ([100.0, -10.0], [10.0, 10.0], FEDERATE),  # it may lose, but not beyond doubt
        ([-100.0, 10.0], [10.0, 10.0], DO_NOT),
        ([20.0, 0.0], [30.0, 10.0], NOT_ENOUGH),
    ],
)
def test_the_verdict_is_what_was_measured(measured: list[float], errors: list[float], verdict: str) -> None:
    assert confirmation(measured, errors).verdict == verdict


def test_remedies_name_the_price_at_which_it_pays_and_how_many_records_would_tell() -> None:
    found = confirmation([20.0, 0.0], [20.0, 0.0], costs=np.array([30.0, 10.0]))
    price, records = found.remedies()
    assert price == "At a cost of sharing below 1.36 EUR a record it pays beyond doubt."  # (60 - 1.645 * 20) / 20
    assert records.startswith("To find out: 2.7 times as many records")
    assert confirmation([100.0, -60.0], [10.0, 10.0]).remedies()[-1].startswith("B would have to pay less")


def tables(seed: int = 0) -> dict[str, object]:
    data = federation(80, 60, 50, seed=seed)
    columns = ["a", "b", "c", "d"]
    return {
        name: pd.DataFrame(own.features, columns=columns).assign(ill=np.where(own.truth > 0, "yes", "no"))
        for name, own in zip(("North", "South", "West"), data.records, strict=True)
    }


@pytest.mark.slow
def test_a_pilot_answers_with_what_it_measured() -> None:
    found = fp.pilot(tables(), "ill", models=6, splits=2, cost="0.01 EUR/record", value="20 EUR/point")
    record = json.loads(json.dumps(pilot_record(found)))
    assert record["verdict"] in (FEDERATE, DO_NOT, NOT_ENOUGH) and record["arrangement"] in ("own choice", "one model")
    assert set(record["scores"]) == {"guess", "alone", "one_model", "own_choice"}
    assert all(len(own) == 3 for own in record["scores"].values())
    if record["measured_gains"] is not None:
        assert sum(record["measured_gains"]["members"]) == pytest.approx(record["measured_gains"]["total"])
        low, high = record["measured_interval"]["total"]
        assert low <= record["measured_gains"]["total"] <= high
    assert found.scenario.federation.names == ("North", "South", "West")
    assert abs(sum(record["payments"])) < 1e-9


@pytest.mark.slow
def test_a_pilot_is_the_same_again_and_goes_on_where_it_was(tmp_path: Path) -> None:
    options = {"models": 5, "splits": 2, "cost": 0.001, "value": 1.0}
    first = fp.pilot(tables(), "ill", output=tmp_path / "out", **options)
    assert {path.name for path in (tmp_path / "out").glob("*.*")} >= {
        "pilot.json",
        "report.html",
        "scenario.toml",
        "gains.csv",
    }
    seen: list[str] = []
    again = fp.pilot(tables(), "ill", output=tmp_path / "out", progress=lambda doing, *_: seen.append(doing), **options)
    np.testing.assert_array_equal(first.gains, again.gains)
    assert seen == ["writing the report"]  # nothing was trained anew
    assert fp.load_scenario(tmp_path / "out" / "scenario.toml").federation == first.federation
    dearer = options | {"cost": 0.002}
    with pytest.raises(fp.InvalidInput, match=r"out holds another pilot: .* say --force"):
        fp.pilot(tables(), "ill", output=tmp_path / "out", **dearer)
    assert json.loads((tmp_path / "out" / "pilot.json").read_text())["costs"] == [0.001] * 3
    fp.pilot(tables(), "ill", output=tmp_path / "out", force=True, **dearer)
    assert json.loads((tmp_path / "out" / "pilot.json").read_text())["costs"] == [0.002] * 3


@pytest.mark.slow
def test_a_deal_that_was_not_measured_to_pay_is_not_recommended_by_compare_either() -> None:
    found = fp.pilot(tables(), "ill", models=5, splits=2, cost="5 EUR/record", value="1 EUR/point")
    assert found.verdict != FEDERATE
    assert fp.compare(found.scenario).recommendation.mechanism == "standalone"


@pytest.mark.slow
def test_one_model_can_be_asked_for() -> None:
    found = fp.pilot(tables(), "ill", models=6, splits=2, arrangement="one model", cost=0.001, value=1.0)
    assert found.arrangement == "one model"
    assert found.scenario.measured is not None and found.scenario.measured.arrangement == "one model"


@pytest.mark.slow
def test_regressions_lots_and_groups() -> None:
    rng = np.random.default_rng(0)
    members = {}
    for name, size in (("A", 60), ("B", 50)):
        x = rng.normal(size=(size, 2))
        frame = pd.DataFrame(x).assign(y=x[:, 0] + 0.3 * rng.normal(size=size))
        members[name] = frame.assign(kind=np.where(np.arange(size) % 2, "new", "old"), person=np.arange(size) // 2)
    found = fp.pilot(members, "y", lots="kind", groups="person", models=6, splits=2, cost=0.001, value=1.0)
    assert found.data.lot_labels == ["A.new", "A.old", "B.new", "B.old"] and found.score.name == "r2"
    assert found.federation.n_lots == 4 and found.profiles.shape[1] == 4
    assert found.data.feature_names == ("0", "1")


def test_oddities_are_listed_by_member_and_column() -> None:
    given = tables()
    given["West"] = given["West"].assign(a=0.0, b=np.nan, c=3.0)
    for name in ("North", "South"):
        given[name] = given[name].assign(a=given[name]["a"].abs() + 1.0)
    notes = pilot_data(given, "ill").notes
    assert "West: missing in b (100 %)" in notes
    assert "West: a 0 throughout, mostly above 0 elsewhere: not measured? leave it empty" in notes
    assert "West: the same value throughout in c" in notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nothing"}, r"there is no column 'nothing'; columns are a, b, c, d, ill"),
        ({"models": 2}, "models must be a whole number of at least 4"),
        ({"splits": 1}, "splits must be a whole number of at least 2"),
        ({"score": "auc"}, "score must be one of accuracy"),
        ({"family": "log"}, "family must be one of exponential, power-law"),
        ({"arrangement": "all"}, "arrangement must be one of own choice, one model"),
        ({"groups": "ill"}, "groups must be another column than target"),
        ({"cost": "5 EUR/record"}, "cost is in money: say what accuracy is worth too"),
        ({"cost": "5%"}, "cost must be a positive number, or money such as"),
    ],
)
def test_what_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        fp.pilot(tables(), **({"target": "ill"} | options))  # type: ignore[arg-type]


@pytest.mark.slow
def test_penguins_of_three_islands() -> None:
    pytest.importorskip("palmerpenguins")
    found = fp.pilot("penguins", models=4, splits=2, cost=0.0001, value=1.0)
    assert found.data.names == ("Biscoe", "Dream", "Torgersen")
    assert found.measurements["alone"].means.min() > found.guesses.max()


def test_the_heart_pilot_says_where_its_files_come_from(tmp_path: Path) -> None:
    with pytest.raises(fp.InvalidInput, match=r"has no processed.cleveland.data and no Cleveland.csv"):
        fp.pilot("heart", source=tmp_path)
    rows = [
        "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,?,6.0,0",
        "67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2",
    ]
    for called in ("cleveland", "hungarian", "va", "switzerland"):
        (tmp_path / f"processed.{called}.data").write_text("\n".join(rows * 20), encoding="utf-8")
    found = built_in_pilot("heart", source=tmp_path)
    assert found.names == ("Cleveland", "Hungary", "Long Beach", "Switzerland") and found.classes == ("no", "yes")


def test_an_infinite_cell_is_refused_by_member_record_and_column() -> None:
    given = tables()
    given["West"] = given["West"].assign(a=given["West"]["a"].where(np.arange(len(given["West"])) != 3, np.inf))
    with pytest.raises(fp.InvalidInput, match=r"West.*, record 4, column 'a' must be a number or empty, got inf"):
        pilot_data(given, "ill")

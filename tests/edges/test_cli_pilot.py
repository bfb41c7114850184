"""`fedpact pilot` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edges.command_line import run_main
from fedpact.fitting.pilots.built_in import built_in_pilot
from fedpact.utils import threads

pytest.importorskip("sklearn")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting workers would take longer than these pilots do."""
    monkeypatch.setattr(threads, "_count", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for name, count in (("City", 90), ("North", 60), ("South", 40)):
        rows = rng.normal(size=(count, 2))
        ill = np.where(rows @ [1.0, -1.0] + 0.3 * rng.normal(size=count) > 0, "ja", "nein")
        text = "\n".join(f"{a:.4f};{b:.4f};{c};".replace(".", ",") for (a, b), c in zip(rows, ill, strict=True))
        (tmp_path / "data" / f"{name}.csv").write_text(f"\ufeffAlter;Größe;krank;\n{text}\n", encoding="utf-8")
    return tmp_path / "data"


def flip_north(folder: Path) -> None:
    """North writes ja where the others write nein."""
    north = (folder / "North.csv").read_text(encoding="utf-8").replace("ja", "?").replace("nein", "ja")
    (folder / "North.csv").write_text(north.replace("?", "nein"), encoding="utf-8")


QUICK = ["--target", "krank", "--models", "5", "--splits", "2"]
MONEY = ["--cost", "0.5 EUR/record", "--value", "20 EUR/point"]


@pytest.mark.slow
def test_a_deal_that_does_not_pay_is_recommended_nowhere(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """North means ja by nein: one model harms, and own choice leaves North's records alone."""
    flip_north(folder)
    out = tmp_path / "out"
    words = ["pilot", str(folder), *QUICK, "--arrangement", "one model", *MONEY, "-o", str(out)]
    assert run_main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Next: fedpact compare" not in shown and "own choice" in shown
    assert run_main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"] in ("do not federate", "not enough evidence") and record["arrangement"] == "one model"
    assert record["scores"]["one_model"][1] < record["scores"]["alone"][1] - 0.2
    assert record["differences"]["own_choice"]["points"][1] > -10.0
    assert json.loads((out / "pilot.json").read_text(encoding="utf-8"))["advice"] == record["advice"]
    assert run_main(["compare", str(out / "scenario.toml"), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    recommended = compared["recommendation"]
    assert (recommended["mechanism"], recommended["reason"]) == ("standalone", record["advice"])
    assert record["advice"] in (out / "report.html").read_text(encoding="utf-8")
    for command in (["solve"], ["settle"], ["check"], ["shapley", "-m", "externality"]):
        assert run_main([command[0], str(out / "scenario.toml"), *command[1:]]) == 0
        assert f"warning: {record['advice']}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("signs", ["positive", "any"])
def test_probabilities_to_leave_that_were_assumed_are_not_shown(
    signs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With weights of at least zero nobody can lose under Externality: a theorem, not a finding."""
    rows = ["contributions.A,contributions.B,accuracy.A,accuracy.B"]
    rows += ["50,0,.70,.60", "0,50,.62,.72", "50,50,.75,.76", "20,20,.68,.69", "90,10,.76,.66", "10,90,.70,.77"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    scenario = tmp_path / "scenario.toml"
    assert run_main(["fit", str(tmp_path / "log.csv"), "--signs", signs, "--cost", "0.001", "-o", str(scenario)]) == 0
    capsys.readouterr()
    page = tmp_path / "page.html"
    arguments = ["compare", str(scenario), "-m", "externality", "-m", "voluntary"]
    assert run_main([*arguments, "--html", str(page)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert run_main([*arguments, "--json"]) == 0
    outlooks = json.loads(capsys.readouterr().out)["uncertainty"]
    html = page.read_text(encoding="utf-8")
    assert "Who stays is settled" not in html
    for text in (shown, html):
        assert ("data that is shared never harms" in text) == (signs == "positive")
    assert ("keeps with 95 %" in shown) == ("keeps with 95" in html) == (signs == "any")
    for outlook in outlooks.values():
        assert (outlook["leave_probabilities"] is None) == (signs == "positive")


@pytest.mark.slow
def test_from_german_tables_to_an_answer(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["pilot", str(folder), *QUICK, "-o", str(out), "--cost", "0,05 EUR/record", "--score", "roc_auc"]
    words += ["--value", "20 EUR/point", "--value", "North=30 EUR/point"]
    assert run_main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 members" in shown and "area under the ROC curve, 2 splits" in shown and "scenario.toml" in shown
    for head in ("guess", "alone", "one model", "own choice"):
        assert head in shown
    assert run_main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["worth"] == [2000.0, 3000.0, 2000.0] and record["score"] == "roc_auc"
    assert {"verdict", "arrangement", "promised_gains", "measured_gains", "measured_interval", "scores"} <= set(record)
    assert run_main(["solve", str(out / "scenario.toml")]) == 0
    assert "EUR" in capsys.readouterr().out
    assert run_main(["compare", str(out / "scenario.toml"), "--html", str(tmp_path / "page.html")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (shown, (tmp_path / "page.html").read_text(encoding="utf-8")):
        assert "own choice against alone in points" in text and "under uncertainty" not in text
        assert (": records, and amounts in EUR" in text) == (record["measured_gains"] is not None)
    rows = (out / "gains.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("shared.City,shared.North,shared.South,gain.City") and len(rows) > 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no folder 'nothing' and no built-in pilot of that name"),
        (["DATA"], "--target must name the column to predict, one of Alter, Größe, krank"),
        (["DATA/City.csv", "--target", "krank", "--member", "krank"], "--member must be another column than --target"),
        (["DATA", "--target", "krank", "--lots", "krank"], "--lots must be another column than --target"),
        (["DATA", "--target", "krank", "--models", "3"], "--models must be a whole number of at least 4"),
        (["DATA", "--target", "krank", "--score", "best"], "--score must be one of accuracy"),
        (["DATA", "--target", "krank", "--seed", "99999999999999999999"], "--seed must be a whole number from 0 to"),
        (["DATA", "--target", "krank", "--value", "2 EUR/correct"], "--value must be money per point"),
        (["DATA", "--target", "krank", "--value", "1e400 EUR/point"], "--value must be below 1.8e308"),
        (["DATA", "--target", "ill"], "there is no column 'ill'; columns are Alter, Größe, krank"),
        (["DATA", "--target", "krank", "--model", "os:getcwd()"], "model must be written like"),
        (["DATA", "--target", "krank", "--cost", "1", "--cost", "2"], "--cost says two things of everybody"),
        (["DATA", "--target", "krank", "--ignore", "krank"], "--ignore must be another column than --target"),
        (["DATA", "--target", "krank", "--floor", "nan"], "--floor must be finite"),
        (["wine", "--lots", "x"], "lots is for tables"),
        (["heart", "--from", "DATA"], "has no processed.cleveland.data"),
    ],
)
def test_mistakes_end_with_a_line_and_exit_code_2(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(["pilot", *(word.replace("DATA", str(folder)) for word in words)]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert message in shown and "Traceback" not in shown


def test_a_column_that_one_member_lacks_names_the_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "North.csv").write_text((folder / "North.csv").read_text().replace("Alter", "Jahre"))
    assert run_main(["pilot", str(folder), "--target", "krank"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert 'member "North" has no column' in shown and "--member" not in shown and "(--ignore Alter)" in shown


def test_a_row_with_more_fields_than_the_header_is_refused_by_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decimal comma between commas; pandas would move the fields of the row."""
    text = (folder / "North.csv").read_text(encoding="utf-8-sig").replace(",", ".").replace(";", ",")
    head, first, *others = text.splitlines()
    (folder / "North.csv").write_text("\n".join([head, first.replace(".", ",", 1), *others]), encoding="utf-8")
    assert run_main(["pilot", str(folder), "--target", "krank"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "North.csv: line 2: 4 fields, the header has 3; is it a decimal comma? write a point" in shown


@pytest.mark.slow
def test_the_first_screen_says_what_was_assumed_and_how_to_repeat_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(["pilot", str(folder), "--target", "krank", "--models", "4"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.index("Costs are a placeholder, ") < shown.index("With everything shared")
    assert "splits (repeat with --splits " in shown and "summed over members" in shown
    assert "One model is taken: one model is measured to be better" in shown or "Own choice is taken:" in shown
    assert run_main(["pilot", str(folder), *QUICK, "--cost", "0,5", "--arrangement", "one model"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Sharing a record costs 0.5 points, as said without money." in shown
    for unsaid in ("repeat with", "is taken:", "What the others gain"):
        assert unsaid not in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["breast-cancer", "wine", "diabetes"])  # a pilot of digits takes minutes
def test_built_in_pilots_end_in_an_answer(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["pilot", name, "-o", str(tmp_path / "out"), "--models", "7", "--splits", "2"]) == 0
    assert "Mislabelled" in capsys.readouterr().out
    assert run_main(["compare", str(tmp_path / "out" / "scenario.toml")]) == 0


def test_the_digits_are_dealt_to_members() -> None:
    data = built_in_pilot("digits", seed=0)
    assert len(data.names) == 5 and len(data.classes) == 10 and sum(map(len, data.records)) > 1790

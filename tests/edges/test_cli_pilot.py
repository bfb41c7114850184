"""`fedpact pilot` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import run_main

pytest.importorskip("sklearn")


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


@pytest.mark.slow
def test_a_deal_that_loses_when_it_is_trained_is_not_recommended(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_north(folder)
    out = tmp_path / "out"
    words = ["pilot", str(folder), "--target", "krank", "--models", "4", "--signs", "positive", "-o", str(out)]
    words += ["--cost", "0.5 EUR/record", "--value", "20 EUR/point"]
    assert run_main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "random_state=0)) Not recommended: measured at " in shown and " EUR less than alone" in shown
    assert "The deal, trained" in shown and "promised measured" in shown and "Next: fedpact compare" not in shown
    models = (out / "models.jsonl").read_bytes()
    assert run_main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (out / "models.jsonl").read_bytes() == models  # nothing is trained twice
    found = record["confirmation"]
    assert not found["recommended"] and found["promised_total"] > 0.0 > found["measured_total"]
    np.testing.assert_allclose(sum(found["measured_gains"]), found["measured_total"])
    assert "North" in found["measured_to_lose"] and record["advice"] == found["advice"]
    costs = 0.5 * (np.array(found["records_in_deal"]) - found["records_alone"])
    scores = 2000.0 * (np.array(found["score_in_deal"]) - found["score_alone"])
    np.testing.assert_allclose(found["measured_gains"], scores - costs + found["payments"], atol=1e-9)
    assert json.loads((out / "pilot.json").read_text())["confirmation"] == found
    assert all(each["leave_probability"] is None for each in record["open"] if each["mechanism"] == "Externality")
    report = (out / "report.html").read_text(encoding="utf-8")
    assert found["advice"] in report and "Gain promised" in report and "Gain measured" in report
    assert "Who stays is settled" not in report and "data that is shared never harms" in report
    assert run_main(["compare", str(out / "scenario.toml"), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["recommendation"] == {"mechanism": "standalone", "reason": found["advice"]}
    for command in (["solve"], ["settle"], ["check"], ["negotiate"], ["shapley", "-m", "externality"]):
        assert run_main([command[0], str(out / "scenario.toml"), *command[1:]]) == 0
        assert f"warning: {found['advice']}" in capsys.readouterr().err
    sheet = tmp_path / "north.html"
    assert run_main(["compare", str(out / "scenario.toml"), "--member", "North", "--html", str(sheet)]) == 0
    assert found["advice"] in sheet.read_text(encoding="utf-8")
    assert fp.load_scenario(out / "scenario.toml").not_recommended == found["advice"]


@pytest.mark.parametrize("cleo", [0.55, 0.3, 0.05])
def test_a_deal_is_recommended_by_what_was_measured_and_losers_are_named(cleo: float) -> None:
    """Scores that follow no curve: together is better for two members and worse for the third, or worse for all."""

    def score(coalition: fp.CoalitionRecords) -> list[float]:
        given = np.array(coalition.contributions)
        return [0.85, 0.85, cleo] if (given > 0).sum() > 1 else [0.6 + 0.001 * given.sum()] * 3

    rng = np.random.default_rng(0)
    members = {name: (rng.normal(size=(60, 2)), rng.integers(0, 2, 60)) for name in ("Ada", "Ben", "Cleo")}
    found = fp.pilot(members, model=score, models=4, cost=0.0005, value=1.0, signs="positive")
    confirmed, chosen = found.confirmation, found.compare(mechanisms=["externality"], draws=5).recommendation
    assert confirmed is not None and confirmed.losers == ["Cleo"] and chosen is not None
    assert confirmed.promised.min() > -1e-9  # which weights of at least zero cannot but promise
    assert found.advice.endswith("Measured to lose by it: Cleo.")
    if cleo > 0.5:
        assert found.advice.startswith("Recommended: measured at ")
        assert found.scenario.not_recommended == "" and chosen.mechanism != "standalone"
    else:
        within = "standard error 0.26 units of payoff, and a deal is recommended that gains more than that"
        why = f" more than alone ({within})" if cleo > 0.1 else " less than alone"
        assert found.advice.startswith("Not recommended: measured at ") and why in found.advice
        assert found.scenario.not_recommended == chosen.reason == found.advice and chosen.mechanism == "standalone"
    assert (found.advice in found.scenario.description) is (cleo > 0.5)  # else the scenario says it by itself


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
    arguments = ["compare", str(scenario), "-m", "externality", "-m", "voluntary", "--draws", "50"]
    assert run_main([*arguments, "--html", str(page)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert run_main([*arguments, "--json"]) == 0
    outlooks = json.loads(capsys.readouterr().out)["uncertainty"]
    html = page.read_text(encoding="utf-8")
    assert "Who stays is settled" not in html
    for text in (shown, html):
        assert ("data that is shared never harms" in text) == (signs == "positive")
    assert ("keeps with 95 %" in shown) == ("leaves: " in html) == (signs == "any")
    for outlook in outlooks.values():
        assert (outlook["leave_probabilities"] is None) == (signs == "positive")


@pytest.mark.slow
def test_from_german_tables_to_a_deal(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["pilot", str(folder), "--target", "krank", "-o", str(out), "--models", "8", "--cost", "0,05 EUR/record"]
    words += ["--value", "20 EUR/point", "--value", "North=30 EUR/point"]
    assert run_main(words) == 0
    shown = capsys.readouterr().out
    assert "3 members, 8 models" in shown and "North" in shown and "scenario.toml" in shown
    models = (out / "models.jsonl").read_bytes()
    assert run_main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["worth"] == [2000.0, 3000.0, 2000.0]
    assert (out / "models.jsonl").read_bytes() == models
    assert run_main(["solve", str(out / "scenario.toml")]) == 0
    assert "EUR" in capsys.readouterr().out
    assert run_main(["fit", str(out / "log.csv")]) == 0


@pytest.mark.slow
def test_harm_and_what_the_prior_decides_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip_north(folder)
    words = ["pilot", str(folder), "--target", "krank", "--models", "6"]
    assert run_main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Warning: together is worse than alone for " in shown and "North (0.389 against 0.889)" in shown
    assert "rest on the prior" in shown
    assert run_main([*words, "--signs", "positive", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["signs"] == "positive" and any("signs any" in note for note in record["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no folder 'nothing' and no built-in pilot of that name"),
        (["DATA"], "--target must name the column to predict, one of Alter, Größe, krank"),
        (["DATA", "--target", "krank", "--ignore", "krank"], "--ignore must be another column than --target"),
        (["DATA/City.csv", "--target", "krank", "--member", "krank"], "--member must be another column than --target"),
        (["DATA", "--target", "krank", "--lots", "krank"], "--lots must be another column than --target"),
        (["DATA", "--target", "krank", "--test-share", "1.5"], "--test-share must lie between 0 and 1, got 1.5"),
        (["DATA", "--target", "krank", "--models", "3"], "--models must be at least 4"),
        (["DATA", "--target", "krank", "--seed", "99999999999999999999"], "--seed must be a whole number from 0 to"),
        (["DATA", "--target", "krank", "--value", "2 EUR/correct", "--predictions", "-5"], "--predictions must be a"),
        (["DATA", "--target", "krank", "--value", "1e400 EUR/point"], "--value must be below 1.8e308"),
        (["DATA", "--target", "ill"], "there is no column 'ill'; columns are Alter, Größe, krank"),
        (["DATA", "--target", "krank", "--model", "os:getcwd()"], "model must be written like"),
        (["DATA", "--target", "krank", "--cluster", "here"], 'cluster must be "dask://host:port", "ray"'),
        (["DATA", "--target", "krank", "--cluster", "dask://127.0.0.1:1"], "no Dask scheduler answers"),
        (["DATA", "--target", "krank", "--cost", "1", "--cost", "2"], "--cost says two things of everybody"),
        (["DATA", "--target", "krank", "--signs", "no"], "signs must be one of auto, positive, any, got 'no'"),
        (["wine", "--lots", "x"], "a column of lots is for tables"),
    ],
)
def test_mistakes_end_with_a_line_and_exit_code_2(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(["pilot", *(word.replace("DATA", str(folder)) for word in words)]) == 2
    shown = capsys.readouterr().err
    assert message in shown and "Traceback" not in shown


def test_a_column_that_one_member_lacks_names_the_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "North.csv").write_text((folder / "North.csv").read_text().replace("Alter", "Jahre"))
    assert run_main(["pilot", str(folder), "--target", "krank"]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert 'member "North" has no column' in shown and "--member" not in shown and "(--ignore Alter)" in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "breast-cancer", "wine", "diabetes"])
def test_built_in_pilots_end_in_a_deal(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["pilot", name, "-o", str(tmp_path / "out"), "--models", "8"]) == 0
    assert "Mislabelled" in capsys.readouterr().out
    assert run_main(["compare", str(tmp_path / "out" / "scenario.toml")]) == 0


@pytest.mark.slow
def test_lots_are_found_in_a_built_in_pilot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "auto"
    assert run_main(["pilot", "breast-cancer", "--models", "8", "--lots", "auto", "-o", str(out)]) == 0
    assert 'make up its lot "poor"' in " ".join(capsys.readouterr().out.split())
    assert "lot_owners" in (out / "scenario.toml").read_text()
    assert "poor" in (out / "report.html").read_text()

"""`fedpact pilot` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

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
    north = (folder / "North.csv").read_text(encoding="utf-8").replace("ja", "?").replace("nein", "ja")
    (folder / "North.csv").write_text(north.replace("?", "nein"), encoding="utf-8")
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

"""`fedpact study`: files, tables, JSON and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

SMALL = ("study", "-m", "externality", "-m", "voluntary", "--count", "1")


def test_numbers_picture_and_table(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run(*SMALL, "--splits", "1")
    assert (result.code, result.err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"study.csv", "study.png"}
    assert "dense: 1 federations of 5, per cent in which each property holds" in result.words
    assert "Externality 100 100 100 100" in result.words
    with (tmp_path / "study.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["mechanism"] for row in rows] == ["externality", "voluntary"] * 6
    assert rows[0]["core"] == "true" and rows[1]["core"] == "false"


def test_json(run) -> None:
    record = run(*SMALL, "--splits", "0", "--json").record
    assert (record["count"], record["n_agents"], record["seed"]) == (1, 5, 0)
    first = record["summary"][0]
    expected = ("homogeneous", "externality", 1.0, None)
    assert (first["kind"], first["mechanism"], first["core"], first["split-proof"]) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-m", "odd"), "mechanism must be one of"),
        (("-o", "study.txt"), "study.txt"),
    ],
)
def test_what_it_refuses(run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("study", *arguments)
    assert result.code == 2
    assert message in result.err
    assert not list(tmp_path.iterdir())

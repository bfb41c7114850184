"""`fedpact study`: files, tables, JSON and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

SMALL = ("study", "-k", "dense", "-m", "externality", "-m", "voluntary", "--count", "3", "--members", "3")


def test_numbers_picture_and_table(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run(*SMALL, "--splits", "1")
    assert (result.code, result.err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"study.csv", "study.png"}
    assert "dense: 3 federations of 3, per cent in which each property holds" in result.words
    assert "Externality 100 100 100 100" in result.words
    with (tmp_path / "study.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["mechanism"] for row in rows] == ["externality"] * 3 + ["voluntary"] * 3
    assert rows[0]["core"] == "true" and rows[3]["core"] == "false" and rows[1]["split-proof"] == ""


def test_json(run) -> None:
    record = run(*SMALL, "--splits", "0", "--json").record
    assert (record["count"], record["n_agents"], record["seed"]) == (3, 3, 0)
    first = record["summary"][0]
    assert (first["kind"], first["mechanism"], first["core"], first["split-proof"]) == (
        "dense",
        "externality",
        1.0,
        None,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-k", "odd"), "kinds must be among homogeneous, dense, sparse, tight-caps, unequal-values, harmful"),
        (("-k", "dense", "-k", "dense"), "each once"),
        (("--members", "40"), "n_agents must be from 1 to 10"),
        (("-m", "odd"), "mechanism must be one of"),
        (("-o", "study.txt"), "study.txt"),
    ],
)
def test_what_it_refuses(run, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("study", *arguments)
    assert result.code == 2
    assert message in result.err
    assert not list(tmp_path.iterdir())

"""`fedpact lots`: samples of a file cut into lots; and `fedpact fit` on a log with lots."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import fedpact as fp
from fedpact.negotiation.agent_file import load_agent


def blobs(seed: int, count: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.random.default_rng(9).standard_normal((3, 6)) * 1.2
    return centres[labels] + rng.standard_normal((count, 6)), labels


def test_lots_of_a_file(run, tmp_path: Path) -> None:
    features, labels = blobs(0)
    wrong = np.arange(len(labels)) < 70
    samples = (features, np.where(wrong, (labels + 1) % 3, labels), *blobs(1))
    for name, features, labels in (("data", *samples[:2]), ("test", *samples[2:4])):
        head = ",".join([*(f"f{column}" for column in range(6)), "label"])
        rows = [",".join([*map(str, row), f"kind {label}"]) for row, label in zip(features, labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    head = ",".join([*(f"f{column}" for column in range(6)), "label"])
    (tmp_path / "other.csv").write_text(f"{head}\n1,2,3,4,5,6,none of them\n", encoding="utf-8")
    given = ("lots", str(tmp_path / "data.csv"), "--test", str(tmp_path / "test.csv"))
    done = run(*given, "--json", "-o", str(tmp_path / "lots.csv"))
    assert done.code == 0
    found = json.loads(done.out)
    assert found["lots"] == ["good", "fair", "poor"] and sum(found["sizes"]) == 240
    lines = (tmp_path / "lots.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "sample,label,value,lot" and len(lines) == 241
    poor = np.array([line.endswith(",poor") for line in lines[1:]])
    assert wrong[poor].mean() > 0.8
    checked = run(*given, "--json", "--check").record
    assert (
        checked["order_agrees"]
        and checked["accuracy_without"][2] > checked["accuracy"] > checked["accuracy_without"][0]
    )
    shown = run(*given, "--check")
    assert shown.code == 0 and "The order of the lots agrees with what leaving them out does." in shown.words
    refused = run(*given[:3], str(tmp_path / "other.csv"))
    assert refused.code == 2 and "none of its labels is one of" in refused.err


def write_log(path: Path, runs: int) -> None:
    rng = np.random.default_rng(3)
    weights = np.array([[0.03, 0.01, 0.02], [0.008, 0.02, 0.015], [0.02, 0.006, 0.03]])
    given = np.round(rng.uniform(0.0, 400.0, (runs, 3)) * (rng.random((runs, 3)) < 0.6))
    scores = rng.binomial(600, 0.1 + 0.85 * (1.0 - (1.0 + given @ weights.T) ** -0.6)) / 600
    head = "contributions.North.X-rays,contributions.North.scans,contributions.South"
    head += ",accuracy.North.common,accuracy.North.rare,accuracy.South"
    rows = [",".join(map(str, [*one, *other])) for one, other in zip(given, scores, strict=True)]
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def test_a_log_with_lots_becomes_a_scenario(run, tmp_path: Path) -> None:
    write_log(tmp_path / "runs.csv", 14)
    done = run(
        "fit", "runs.csv", "-o", "lots.toml", "--cost", "0.001", "--cost", "North.scans=0.002", "--cap", "North=90"
    )
    assert done.code == 0
    assert "2 members, 3 lots, 3 tasks" in done.out and "North: scans" in done.out
    federation = fp.load_scenario(tmp_path / "lots.toml").federation
    assert federation.lot_names == ("X-rays", "scans", "South") and federation.task_names == ("common", "rare", "South")
    np.testing.assert_array_equal(federation.costs.linear, [0.001, 0.002, 0.001])
    np.testing.assert_array_equal(federation.caps[:2], [90.0, 90.0])
    again = run("fit", "runs.csv", "--like", "lots.toml", "--json")
    assert again.code == 0
    found = json.loads(again.out)
    assert found["lot_owners"] == ["North", "North", "South"] and np.shape(found["weights"]) == (3, 3)
    refused = run("fit", "runs.csv", "--cost", "0.001", "--cost", "North.scan=1")
    assert (
        refused.code == 2
        and "there is no lot 'North.scan'; lots are numbered 0 to 2, or called by name: North.X-rays" in refused.err
    )


def test_a_member_with_several_lots_prepares_itself(run, tmp_path: Path) -> None:
    """From its own accuracies alone: the others' columns may be missing, and are not looked at where they are there."""
    write_log(tmp_path / "runs.csv", 14)
    lines = [line.split(",") for line in (tmp_path / "runs.csv").read_text(encoding="utf-8").splitlines()]
    (tmp_path / "own.csv").write_text("\n".join(",".join(line[:5]) for line in lines) + "\n", encoding="utf-8")
    wanted = ("--lots", "--member", "North", "--cost", "0.001", "--cap", "North=90", "-o")
    done = run("fit", "runs.csv", *wanted, "all.json")
    assert done.code == 0 and "2 lots of data and 2 tasks" in done.out and "Task rare" in done.out
    assert run("fit", "own.csv", *wanted, "own.json").code == 0
    one, two = (load_agent(tmp_path / name) for name in ("all.json", "own.json"))
    assert one.has_lots and two.has_lots
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.weights.shape == (2, 3) and one.n_agents == 2 and one.caps.tolist() == [90.0, 90.0]
    refused = run("fit", "runs.csv", "--lots", "--member", "West", "--cost", "0.001")
    assert refused.code == 2 and "must be one of those of the log, North, South" in refused.err


def test_errors_speak_of_lots(run) -> None:
    refused = run("settle", "hospitals-lots", "--delivered", "City: labelled=nan")
    assert refused.code == 2 and "--delivered must be a finite number, got 'City: labelled=nan'" in refused.err
    refused = run("settle", "hospitals-lots", "--delivered", "City: labelled=-1")
    assert refused.code == 2 and 'must be at least zero, got -1 (lot "City: labelled")' in refused.err
    refused = run("train", "hospitals-lots", "--samples", "1,2")
    assert refused.code == 2 and "a number for all or one per lot: 10 lots, 2 numbers given" in refused.err


def test_nobody_is_named_twice(run) -> None:
    for scenario, name in (("hospitals", "City"), ("hospitals-lots", "City: labelled")):
        refused = run("settle", scenario, "--delivered", f"{name}=1", "--delivered", f"{name}=2")
        assert refused.code == 2
        assert f"--delivered says two things of {name}; keep one of them" in refused.err
    refused = run("train", "hospitals", "--samples", "City=100", "--samples", "1=200")
    assert refused.code == 2 and "--samples says two things of City" in refused.err


def test_new_lots_have_names(run, tmp_path: Path) -> None:
    for option in ("--lots", "--tasks", "--names"):
        for given in ("", " ", "a,,b"):
            refused = run("new", "x.toml", option, given)
            assert refused.code == 2
            assert f"{option} must be names with commas between them, none of them blank, got '{given}'" in refused.err
    refused = run("new", "x.toml", "--lots", "raw,raw")
    assert refused.code == 2 and "--lots must name each once, got 'raw' twice" in refused.err
    assert not (tmp_path / "x.toml").exists()

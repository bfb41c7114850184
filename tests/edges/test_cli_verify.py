"""`fedpact verify`: tables, JSON and pictures of what was delivered, exit codes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.logs import read_verified
from fedpact.utils.tables import csv_rows
from signed_ledgers import write_signed_ledger

NAMES = ["North", "South", "East"]
ENDS = ["--floor", "0.1", "--ceiling", "0.95"]
PNG = b"\x89PNG"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    federation = fp.Federation(
        weights=[[0.02, 0.01, 0.01], [0.01, 0.02, 0.015], [0.008, 0.012, 0.02]],
        costs=2e-4,
        caps=200.0,
        payoff=fp.PowerLaw(beta=0.7),
        names=NAMES,
    )
    fp.save_scenario(fp.Scenario(federation=federation, title="Three"), tmp_path / "three.toml")
    return tmp_path / "three.toml"


def write_measured(
    path: Path, scenario: Path, shares: Any, *, names: list[str] = NAMES, subset: str = "subset"
) -> Path:
    """What members measure of models made of subsets of updates, under the deal of the externality mechanism."""
    federation = fp.load_scenario(scenario).federation
    agreed = fp.ExternalityMechanism().solve(federation).contributions
    rng = np.random.default_rng(0)
    subsets = rng.random((60, 3)) < 0.5
    reached = (subsets * agreed * np.array(shares)) @ federation.weights.T
    trained = 0.1 + 0.85 * federation.payoff.value(reached) + 0.01 * rng.standard_normal((60, 1))
    seen = rng.binomial(300, np.clip(trained, 0.0, 1.0)) / 300
    kinds = [subset, "accuracy", "test_size"]
    heads = [f"{kind}.{name}" for kind in kinds for name in names]
    rows = [[*map(int, chosen), *scores, 300, 300, 300] for chosen, scores in zip(subsets, seen.tolist(), strict=True)]
    path.write_text(csv_rows([heads, *rows]))
    return path


@pytest.fixture
def short(tmp_path: Path, scenario: Path) -> Path:
    """Measured when North delivers half."""
    return write_measured(tmp_path / "short.csv", scenario, [0.5, 1.0, 1.0])


def test_whoever_delivers_less_is_flagged(run, scenario: Path, short: Path) -> None:
    result = run("verify", short, scenario, *ENDS)
    assert (result.code, result.err) == (1, "")
    for words in ("Three, 60 models, 180 accuracies", "flagged", "Delivered less than agreed, or data", ": North."):
        assert words in result.words
    assert max(map(len, result.out.splitlines())) <= 80


def test_nobody_is_flagged_if_all_deliver(run, scenario: Path, tmp_path: Path) -> None:
    result = run("verify", write_measured(tmp_path / "all.csv", scenario, [1.0, 1.0, 1.0]), scenario, *ENDS)
    assert result.code == 0
    assert "Nobody is flagged." in result.words


def test_json_is_what_the_function_finds(run, scenario: Path, short: Path) -> None:
    result = run("verify", short, scenario, *ENDS, "--json")
    record = result.record
    assert result.code == 1
    assert record["mechanism"] == "externality"
    assert record["agents"] == NAMES
    assert record["flagged"] == ["North"]
    assert record["lower"][0] < 0.5 < record["upper"][0] < 1.0
    table = np.genfromtxt(short, delimiter=",", skip_header=1)
    federation = fp.load_scenario(scenario).federation
    found = fp.estimate_delivery(
        federation, record["contributions"], table[:, :3], table[:, 3:6], table[:, 6:], floor=0.1, ceiling=0.95
    )
    np.testing.assert_allclose(record["shares"], found.shares)
    np.testing.assert_allclose(record["p_values"], found.p_values)


@pytest.mark.slow
def test_a_deal_of_a_file_and_a_picture(run, scenario: Path, short: Path, tmp_path: Path) -> None:
    fp.ExternalityMechanism().solve(fp.load_scenario(scenario).federation).deal.save(tmp_path / "deal.json")
    result = run("verify", short, scenario, tmp_path / "deal.json", *ENDS, "--plot", "shares.png")
    assert result.code == 1
    assert (tmp_path / "shares.png").read_bytes().startswith(PNG)


def test_a_ledger_holds_the_deal_and_the_models(run, scenario: Path, tmp_path: Path) -> None:
    """The same as a table of what it holds."""
    deal, rng = fp.ExternalityMechanism().solve(fp.load_scenario(scenario).federation).deal, np.random.default_rng(0)
    write_signed_ledger(tmp_path / "early.jsonl", deal, until="trained")
    nothing = run("verify", "early.jsonl", scenario)
    assert nothing.code == 2
    assert "early.jsonl: this ledger records no models made of subsets" in nothing.err
    write_signed_ledger(tmp_path / "odd.jsonl", deal, until="agreed", changed={"agreed": {"verification": 1}})
    odd = run("verify", "odd.jsonl")
    assert run("check", "odd.jsonl").code == 1
    assert odd.code == 2 and "odd.jsonl: a deal's verification must say its terms, got 1" in odd.err
    path, seen = tmp_path / "ledger.jsonl", {name: rng.uniform(0.3, 0.6, 7).tolist() for name in NAMES}
    write_signed_ledger(
        path, deal, until="verified", subsets=7, measure=lambda subsets, name: (seen[name][: len(subsets)], 300)
    )
    subsets, scores, sizes = read_verified(path).tests(NAMES)
    heads = [f"{kind}.{name}" for kind in ("subset", "accuracy", "test_size") for name in NAMES]
    rows = [[*map(int, row[:3]), *row[3:6], *map(int, row[6:])] for row in np.hstack([subsets, scores, sizes]).tolist()]
    (tmp_path / "table.csv").write_text(csv_rows([heads, *rows]))
    found, other = (run("verify", name, scenario, *ENDS, "--json") for name in ("ledger.jsonl", "table.csv"))
    assert found.code == other.code and found.record == other.record


@pytest.mark.slow
def test_doubt_in_the_scenario_widens_the_intervals(run, scenario: Path, short: Path, tmp_path: Path) -> None:
    known = fp.load_scenario(scenario)
    weights = known.federation.weights
    fp.save_scenario(
        fp.Scenario(federation=known.federation, uncertainty=fp.Uncertainty(weights=0.1 * weights)),
        tmp_path / "doubtful.toml",
    )
    sure = run("verify", short, scenario, *ENDS, "--json").record
    doubtful = run("verify", short, "doubtful.toml", *ENDS, "--json").record
    widths = [np.subtract(record["upper"], record["lower"]) for record in (sure, doubtful)]
    assert (widths[1] > widths[0]).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"names": ["North", "South", "West"]},
            'subset.West: there is no member "West"; members are North, South, East',
        ),
        ({"subset": "contributions"}, "row 1, column 'contributions.North': the column is unknown"),
    ],
)
def test_other_files_are_refused(run, scenario: Path, tmp_path: Path, how: dict[str, Any], message: str) -> None:
    path = write_measured(tmp_path / "other.csv", scenario, [1.0, 1.0, 1.0], **how)
    result = run("verify", path, scenario)
    assert result.code == 2
    assert f"{path}: {message}" in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "subset.North,accuracy.North\n1,0.5\n",
            "there is no column subset.South, and South contributes under the deal",
        ),
        ("subset.North,accuracy.North\n0.5,0.5\n", "row 2, column 'subset.North' must be 1 or 0, got '0.5'"),
        ("subset.North,accuracy.North\n,0.5\n", "row 2, column 'subset.North' must be 1 or 0, the cell is empty"),
        (
            "accuracy.North\n0.5\n",
            "there is no column subset.NAME; a head has the columns subset.NAME, accuracy.NAME and",
        ),
    ],
)
def test_malformed_files_name_row_and_column(run, scenario: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    result = run("verify", "bad.csv", scenario)
    assert result.code == 2
    assert f"bad.csv: {message}" in result.err.replace("row 1: ", "")


def test_calibrated_on_an_earlier_run(run, scenario: Path, short: Path, tmp_path: Path) -> None:
    earlier = write_measured(tmp_path / "earlier.csv", scenario, [1.0, 1.0, 1.0])
    result = run("verify", short, scenario, "--calibrate", earlier, *ENDS, "--json")
    assert result.code == 1
    assert result.record["calibrated"] is True
    assert result.record["flagged"] == ["North"]


def test_weights_of_another_procedure_cannot_judge(run, scenario: Path, short: Path, tmp_path: Path) -> None:
    known = fp.load_scenario(scenario).federation
    deal = fp.ExternalityMechanism().solve(known).deal
    deal.save(tmp_path / "deal.json")
    other = known.replace(weights=known.weights * [[0.1, 4.0, 2.0], [5.0, 0.2, 0.1], [0.1, 0.3, 6.0]])
    fp.save_scenario(fp.Scenario(federation=other), tmp_path / "other.toml")
    result = run("verify", short, "other.toml", "deal.json", *ENDS, "--unchecked")
    assert result.code == 0
    assert "Cannot judge: the weights and curves do not fit" in result.words
    assert "1000 %" not in result.words
    assert "flagged:" not in result.words


def test_rounds_of_other_tools(tmp_path: Path, run) -> None:
    """Three members, the last of whom delivers half."""
    rng = np.random.default_rng(0)
    weights = np.full((3, 3), 0.02)
    federation = fp.Federation(weights, costs=1e-3, caps=200.0, payoff=fp.PowerLaw(0.7), names=["A", "B", "C"])
    scenario = fp.Scenario(federation=federation)
    fp.save_scenario(scenario, tmp_path / "three.toml")
    agreed = fp.ExternalityMechanism().solve(federation).contributions
    lines = ["round,member,samples,score,subset,test_size"]
    for subset in [("A", "B", "C"), ("A",), ("B",), ("C",), ("A", "B"), ("A", "C"), ("B", "C")]:
        inside = np.array([name in subset for name in federation.names])
        data = weights @ (inside * agreed * [1.0, 1.0, 0.5])
        for member, score in zip(
            federation.names, rng.binomial(4000, federation.payoff.value(data)) / 4000, strict=True
        ):
            lines.append(f"1,{member},200,{score},{'+'.join(subset)},4000")
    (tmp_path / "rounds.csv").write_text("\n".join(lines) + "\n")
    found = run("verify", "rounds.csv", "three.toml", "--json")
    shares = found.record["shares"]
    assert shares[2] < 0.75 < min(shares[:2])

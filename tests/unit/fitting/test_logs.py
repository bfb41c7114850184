"""Logs of every kind: what `fedpact train` and ledgers leave, several together, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Ledger
from fedpact.deals.ledger import MEASURED, TRAINED, VERIFIED
from fedpact.fitting.logs import read_verified
from signed_ledgers import write_signed_ledger

NAN = float("nan")
HEAD = "round,member,alone,samples,score,loss,test_size"
DEAL = fp.Deal(
    mechanism="externality",
    agents=("North", "South", "East"),
    contributions=np.array([100.0, 40.0, 0.0]),
    payments=np.array([0.2, -0.1, -0.1]),
)
ACCURACIES = {
    "North": {"accuracy": 0.8, "samples": 50},
    "South": {"accuracy": None, "reason": "no reply in time"},
    "East": {"accuracy": 0.7, "samples": 30},
}


USED = {"North": [100, 80], "South": [40, 40], "East": []}
HALF = {"North": [50, 40], "South": [20, 20], "East": []}


def write_ledger(path: Path, accuracies: Any = None, **more: Any) -> Path:
    until = MEASURED if accuracies else TRAINED
    write_signed_ledger(path, DEAL, accuracies=accuracies, **{"until": until, "used": USED} | more)
    return path


def test_a_run_of_train_is_the_model_it_ended_in_and_those_trained_alone(tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text(
        f"{HEAD}\n1,North,0,100,0.3,2.1,50\n1,South,0,40,0.2,2.2,60\n1,East,1,10,0.1,2.3,70\n"
        "2,North,0,100,0.8,0.5,50\n2,South,0,40,0.7,0.6,60\n2,East,1,10,0.4,1.1,70\n"
    )
    seen = fp.Observations.from_files([tmp_path / "rounds.csv"])
    assert seen.names == ("North", "South", "East")
    np.testing.assert_array_equal(seen.contributions, [[100, 40, 0], [0, 0, 10]])
    np.testing.assert_array_equal(seen.accuracies, [[0.8, 0.7, NAN], [NAN, NAN, 0.4]])
    np.testing.assert_array_equal(seen.test_sizes, [[50, 60, NAN], [NAN, NAN, 70]])
    assert seen.rows == (5, 7)
    (tmp_path / "alone.csv").write_text(
        f"{HEAD}\n2,North,1,90,0.6,1.0,50\n2,South,1,30,0.5,1.0,60\n2,East,1,10,0.4,1.1,70\n"
    )
    both = fp.Observations.from_files([tmp_path])
    assert both.n_runs == 5
    np.testing.assert_array_equal(both.contributions[2:], np.diag([90, 30, 10]))
    assert both.sources == ("rounds.csv",) * 2 + ("alone.csv",) * 3


def test_a_ledger_is_what_its_members_measured(tmp_path: Path) -> None:
    path = write_ledger(tmp_path / "ledger.jsonl", ACCURACIES, per_unit=0.5, used=HALF)
    with pytest.raises(fp.InvalidInput, match='no accuracy of member "South" was measured'):
        fp.Observations.from_files([path])
    said = ACCURACIES | {"South": {"accuracy": 0.6, "samples": 20}}
    path = write_ledger(tmp_path / "next.jsonl", said, per_unit=0.5, used=HALF)
    seen = fp.Observations.from_files([path])
    np.testing.assert_array_equal(seen.contributions, [[100.0, 40.0, 0.0]])  # samples over samples per unit
    np.testing.assert_array_equal(seen.accuracies, [[0.8, 0.6, 0.7]])
    np.testing.assert_array_equal(seen.test_sizes, [[50, 20, 30]])


def test_models_made_of_subsets_are_runs_too(tmp_path: Path) -> None:
    def measure(subsets: list[list[str]], name: str) -> tuple[list[float], int]:
        return [(len(name) + len(subset)) / 10.0 for subset in subsets], 50

    path = write_ledger(tmp_path / "ledger.jsonl", subsets=7, measure=measure)
    subsets, accuracies, sizes = read_verified(path).tests(DEAL.agents)
    assert sorted(map(tuple, subsets.tolist())) == [(0, 1, 0), (1, 0, 0), (1, 1, 0)]
    np.testing.assert_array_equal(accuracies, (subsets.sum(axis=1)[:, None] + [5, 5, 4]) / 10.0)
    assert (sizes == 50).all()
    seen = fp.Observations.from_files([path])
    np.testing.assert_array_equal(seen.contributions, subsets * [100, 40, 0])


def test_whoever_a_log_does_not_know_was_not_there(tmp_path: Path) -> None:
    said = ACCURACIES | {"South": {"accuracy": 0.6, "samples": 20}}
    ledger = write_ledger(tmp_path / "ledger.jsonl", said)
    (tmp_path / "pilot.csv").write_text(
        "contributions.West,contributions.North,accuracy.West,accuracy.North\n5,10,0.4,0.5\n"
    )
    seen = fp.Observations.from_files([ledger, tmp_path / "pilot.csv"])
    assert seen.names == ("North", "South", "East", "West")
    np.testing.assert_array_equal(seen.contributions, [[100, 40, 0, 0], [10, 0, 0, 5]])
    np.testing.assert_array_equal(seen.accuracies, [[0.8, 0.6, 0.7, NAN], [0.5, NAN, NAN, 0.4]])
    assert seen.sources == ("ledger.jsonl", "pilot.csv")
    assert seen.rows == (6, 2)  # entries of the ledger


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "round,member,samples,accuracy,loss\n1,A,5,0.5,1\n",
            "there is no column 'score'; a table of rounds has the columns round",
        ),
        (
            f"{HEAD}\n1,A,0,-5,0.5,1,10\n",
            "row 2, column 'samples' must be a number of samples, at least 0",
        ),
        (f"{HEAD}\n1,A,0,5,x,1,10\n", "row 2, column 'score' must be a number between 0 and 1, got 'x'"),
        (f"{HEAD}\n1,A,0,5,0.5,1,10\n1,A,0,5,0.5,1,10\n", "the table must have one row per round and member"),
        (f"{HEAD}\n", "the table must have one row per round and member"),
    ],
)
def test_rounds_that_were_changed_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rounds.csv").write_text(text)
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        fp.Observations.from_files([tmp_path / "rounds.csv"])
    assert str(tmp_path / "rounds.csv") in str(caught.value)


def test_ledgers_that_say_nothing_or_do_not_hold_are_refused(tmp_path: Path) -> None:
    early = write_ledger(tmp_path / "early.jsonl")
    with pytest.raises(fp.InvalidInput, match="this ledger records no accuracies"):
        fp.Observations.from_files([early])
    with pytest.raises(fp.InvalidInput, match="records no models made of subsets"):
        read_verified(early)
    wrong = write_ledger(tmp_path / "wrong.jsonl", {"North": {"accuracy": 7}})
    with pytest.raises(fp.InvalidInput, match="this ledger does not hold: entries: line 6"):
        fp.Observations.from_files([wrong])
    models = {"models": [{"subset": "North", "accuracies": {}}]}
    wrong = write_ledger(tmp_path / "models.jsonl")
    with Ledger(wrong) as ledger:
        ledger.append(VERIFIED, models)
    with pytest.raises(fp.InvalidInput, match="this ledger does not hold: "):
        read_verified(wrong)
    with pytest.raises(fp.InvalidInput, match="at least one log"):
        fp.Observations.from_files([])
    with pytest.raises(fp.InvalidInput, match=r"a folder of `fedpact train` holds rounds.csv"):
        fp.Observations.from_files([tmp_path])

"""Rounds of other tools: a line per round and member, read by `fit` and `verify`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting import Observations
from fedpact.fitting.logs import read_rounds

TABLE = """round,member,samples,score,subset,test_size
9,North,400,0.5,,1000
9,South,250,0.5,,800
10,North,400,0.81,,1000
10,South,250,0.78,,800
10,North,400,0.74,North,1000
10,South,250,0.69,North,
"""


def written(folder: Path, text: str = TABLE) -> Path:
    (folder / "rounds.csv").write_text(text)
    return folder / "rounds.csv"


def test_models_of_the_last_round(tmp_path: Path) -> None:
    found = Observations.from_files([written(tmp_path)])
    assert found.names == ("North", "South")
    np.testing.assert_array_equal(found.contributions, [[400.0, 250.0], [400.0, 0.0]])
    np.testing.assert_array_equal(found.accuracies, [[0.81, 0.78], [0.74, 0.69]])
    np.testing.assert_array_equal(found.test_sizes, [[1000.0, 800.0], [1000.0, np.nan]])
    assert found.rows == (4, 6)
    subsets = read_rounds(written(tmp_path), as_subsets=True)
    np.testing.assert_array_equal(subsets.tests(found.names)[0], [[1.0, 1.0], [1.0, 0.0]])


def test_without_subsets_the_last_round_is_one_model(tmp_path: Path) -> None:
    found = Observations.from_files(
        [written(tmp_path, "round;member;samples;score\n1;A;10;0,5\n2;A;10;0,6\n2;B;5;0,7\n")]
    )
    np.testing.assert_array_equal(found.contributions, [[10.0, 5.0]])
    np.testing.assert_array_equal(found.accuracies, [[0.6, 0.7]])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "North,1000",
            "West,1000",
            "row 6, column 'subset' must name members of the table joined by '\\+', got 'West'",
        ),
        ("10,South,250,0.78,,800", "10,North,250,0.78,,800", "row 5: member 'North' is there twice for one model"),
        ("10,South,250,0.78,,800", "10,South,250", "row 5 must have 6 cells like the head, got 3"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        Observations.from_files([written(tmp_path, TABLE.replace(before, after))])


def test_members_that_are_not_in_the_last_round_are_named(tmp_path: Path) -> None:
    text = TABLE.replace("10,South,250,0.78,,800\n", "").replace("10,South,250,0.69,North,\n", "")
    with pytest.raises(fp.InvalidInput, match="row 3: member 'South' has no row in round 10, the last"):
        Observations.from_files([written(tmp_path, text)])

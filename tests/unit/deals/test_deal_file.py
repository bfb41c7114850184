"""Deals read back from files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals.deal_file import read_deal
from fedpact.report.records import outcome_record
from fedpact.scenario.examples import example

NAMES = ("North", "South")


def written(folder: Path, **changes: Any) -> Path:
    deal = {"mechanism": "shapley", "agents": list(NAMES), "contributions": [1, 2.5], "payments": [0.25, -0.25]}
    deal = {key: value for key, value in (deal | changes).items() if value is not ...}
    path = folder / "deal.json"
    path.write_text(json.dumps(deal), encoding="utf-8")
    return path


def test_a_deal_is_read_back(tmp_path: Path) -> None:
    assert read_deal(written(tmp_path), NAMES) == ("shapley", [1.0, 2.5], [0.25, -0.25])


def test_a_deal_may_list_agents_in_another_order(tmp_path: Path) -> None:
    path = written(tmp_path, agents=["South", "North"])
    assert read_deal(path, NAMES) == ("shapley", [2.5, 1.0], [-0.25, 0.25])


def test_what_is_written_is_read_bit_for_bit(tmp_path: Path) -> None:
    federation = example("hospitals").federation
    outcome = fp.ShapleyMechanism().solve(federation)
    path = tmp_path / "deal.json"
    path.write_text(json.dumps(outcome_record(outcome)), encoding="utf-8")
    mechanism, contributions, payments = read_deal(path, federation.names)
    assert mechanism == "shapley"
    np.testing.assert_array_equal(contributions, outcome.contributions)
    np.testing.assert_array_equal(payments, outcome.payments)
    again = replace(outcome, contributions=np.array(contributions), payments=np.array(payments))
    assert again.utilities.tolist() == outcome.utilities.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payments": ...}, "must have the key 'payments'"),
        ({"mechanism": ...}, "must have the key 'mechanism'"),
        ({"agents": ["North", "East"]}, "agents must be those of the scenario"),
        ({"agents": "North"}, "agents must be those of the scenario"),
        ({"agents": ["North", "North"]}, "agents must be those of the scenario"),
        ({"agents": ["North", 2]}, "agents must be those of the scenario"),
        ({"agents": [["North"], {"a": 1}]}, "agents must be those of the scenario"),
        ({"contributions": [1]}, "contributions must be a list of 2 numbers"),
        ({"contributions": {"North": 1}}, "contributions must be a list of 2 numbers"),
        ({"contributions": [1, "2"]}, r"contributions\[1\] must be a finite number"),
        ({"payments": [True, 1]}, r"payments\[0\] must be a finite number"),
        ({"payments": [None, 1]}, r"payments\[0\] must be a finite number"),
        ({"payments": [10**400, 1]}, r"payments\[0\] must be a finite number, got an integer of 1329 bits"),
        ({"payments": ["inf", 1]}, r"payments\[0\] must be a finite number"),
    ],
)
def test_a_broken_deal_names_its_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        read_deal(path, NAMES)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_numbers_for_names_are_not_names(tmp_path: Path) -> None:
    with pytest.raises(fp.InvalidInput, match="agents must be those of the scenario"):
        read_deal(written(tmp_path, agents=[1, 2]), ["1", "2"])


@pytest.mark.parametrize(
    "content",
    ["", "[1, 2]", '"text"', "{", '{"payments": NaN}', '{"a": 1, "a": 2}', "[" * 10**5],
    ids=["empty", "list", "text", "cut off", "nan", "twice", "deep"],
)
def test_what_is_no_deal_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "deal.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"deal\.json"):
        read_deal(path, NAMES)


def test_a_missing_deal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fp.InvalidInput, match="no such file"):
        read_deal(tmp_path / "none.json", NAMES)

"""Every number, name and verdict that a deal file states is held against what follows from the deal."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedpact.deals.deal_file import CHECKED, GIVEN, OF_LOTS, contradictions, outcome_record
from fedpact.mechanisms import MECHANISMS
from fedpact.negotiation.check import STATED, check_deal
from fedpact.scenario import example
from fedpact.utils.errors import InvalidInput
from random_cases import some

SCENARIO = example("hospitals")
CHANGE = 0.01  # of a number, and of one


def leaves(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every number, text, truth value, nothing and empty collection."""
    inner = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    if isinstance(record, dict | list) and record:
        for key, entry in inner:
            yield from leaves(entry, (*path, key))
    else:
        yield path


def other(entry: Any) -> Any:
    """Another entry of the same kind."""
    if isinstance(entry, bool):
        return not entry
    if isinstance(entry, int | float):
        return entry + (1 if isinstance(entry, int) else CHANGE * (1.0 + abs(entry)))
    if isinstance(entry, str):
        return "violated" if entry == "holds" else "holds" if entry == "violated" else entry + " forged"
    return {"City": 1.0} if isinstance(entry, dict) else ["City"] if isinstance(entry, list) else 1.0


def mutants(record: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for path in leaves(record):
        spoiled = copy.deepcopy(record)
        place = spoiled
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other(place[path[-1]])
        yield path, spoiled


def is_found(record: dict[str, Any], path: Path) -> bool:
    path.write_text(json.dumps(record), encoding="utf-8")
    try:
        return bool(check_deal(path, SCENARIO.federation, money=SCENARIO.money).failures)
    except InvalidInput:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("name", some(MECHANISMS, 2))
def test_every_mutation_of_a_deal_file_is_found(name: str, tmp_path: Path) -> None:
    outcome = MECHANISMS[name].solve(SCENARIO.federation)
    record = outcome_record(outcome)
    assert contradictions(record, outcome) == [] and not is_found(record, tmp_path / "deal.json")
    assert set(record) == {*GIVEN, *CHECKED} - {*OF_LOTS}  # which federations with lots have
    spoiled = dict(mutants(record))
    assert len(spoiled) > 100
    # A witness may be any that is as bad by rounding.
    beside = [path for path in spoiled if path[0] == "certificates" and path[2] not in ("claim", "verdict", "margin")]
    held = [path for path in spoiled if path[0] in CHECKED and path not in beside]
    missed = [path for path in held if not contradictions(spoiled[path], outcome)]
    missed += [
        path for path, each in spoiled.items() if path[0] in GIVEN and not is_found(each, tmp_path / "deal.json")
    ]
    assert missed == []


def test_one_of_many_optima_states_what_follows(run, tmp_path: Path) -> None:
    for scenario in ("paper-w1", "paper-w2"):
        (tmp_path / "deal.json").write_text(run("solve", scenario, "--json").out, encoding="utf-8")
        checked = run("check", scenario, "deal.json")
        assert checked.code == 0, checked.words


def test_a_difference_is_named_and_fails(run, tmp_path: Path) -> None:
    record = run("solve", "hospitals", "--json").record
    record["utilities"][1] += 1.0
    record["certificates"]["reciprocity"]["verdict"] = "holds"
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 1
    assert "Stated wrongly: utilities[1] is 34430.6, the file says 34431.6." in checked.words
    assert "certificates.reciprocity.verdict is 'violated', the file says 'holds'" in checked.words
    assert "is proved" not in checked.out
    found = run("check", "hospitals", "deal.json", "--json").record
    assert found["failed"] == [STATED] and len(found["contradictions"]) == 2
    assert run("settle", "hospitals", "deal.json").code == 1


def test_what_check_writes_can_be_checked(run, tmp_path: Path) -> None:
    (tmp_path / "deal.json").write_text(run("solve", "hospitals", "--json").out, encoding="utf-8")
    (tmp_path / "checked.json").write_text(run("check", "hospitals", "deal.json", "--json").out, encoding="utf-8")
    assert run("check", "hospitals", "checked.json").code == 0


def test_of_many_differences_the_first_are_told_and_all_amounts_are_in_money(run, tmp_path: Path) -> None:
    record = run("solve", "hospitals", "--json").record
    record["payments"][0] += 1000.0
    record["payments"][1] -= 1000.0
    (tmp_path / "deal.json").write_text(json.dumps(record), encoding="utf-8")
    checked = run("check", "hospitals", "deal.json")
    assert checked.code == 1 and "(margins in EUR)" in checked.words and "payoff" not in checked.words
    assert checked.words.count("Stated wrongly") == 5 and "more of what the file states beside" in checked.words
    assert "utility EUR " in checked.words and "index" not in checked.words
    assert 'prices contradict payments: member "University" is paid EUR ' in checked.words
    assert max(map(len, checked.out.splitlines())) <= 80

"""`fedpact check` of transcripts: the deal that the exchanges come to, and what was changed in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedpact as fp
from edges.test_cli_negotiate import DEAL_KEYS
from fedpact.scenario import example
from random_cases import some


def changed(path: Path, line: int, change: Callable[[dict[str, Any]], None]) -> None:
    entries = [json.loads(text) for text in path.read_text().splitlines()]
    change(entries[line])
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_check_a_transcript(run, tmp_path: Path) -> None:
    run("negotiate", "-o", "said.jsonl")
    result = run("check", "said.jsonl")
    assert result.code == 0
    assert 'The negotiation of "Five hospitals" by price-discovery' in result.words
    assert "University 96.5873 96.5873 +73,992.5 +73,992.5" in result.words
    assert "recomputed holds: the deal stated is the one that 6 exchanges come to." in result.words
    record = run("check", "said.jsonl", "--json").record
    assert set(record) == DEAL_KEYS | {"stated", "checked", "not_checked", "failed"}
    assert record["checked"] == ["recomputed", "stated", "budget-balance"]
    assert record["failed"] == []
    assert record["stated"]["payments"] == record["payments"]


def moved(key: str, *amounts: float) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        for agent, amount in enumerate(amounts):
            entry["deal"][key][agent] += amount

    return change


@pytest.mark.parametrize(
    ("change", "failed", "words"),
    [
        (moved("payments", 1.0, -1.0), ["recomputed"], "come to another deal for University and City."),
        (moved("payments", 0.1), ["recomputed", "budget-balance"], "the payments stated sum to +0.1."),
        (moved("contributions", 0.0, 1e-3), ["recomputed"], "come to another deal for City."),
    ],
)
def test_a_deal_that_is_not_the_one_negotiated(run, tmp_path: Path, change: Any, failed: list[str], words: str) -> None:
    run("negotiate", "-o", "said.jsonl")
    changed(tmp_path / "said.jsonl", -1, change)
    result = run("check", "said.jsonl")
    assert result.code == 1
    assert words in result.words
    assert "Every claim holds" not in result.words
    as_json = run("check", "said.jsonl", "--json")
    assert as_json.code == 1
    assert as_json.record["failed"] == failed
    with_scenario = run("check", "hospitals", "said.jsonl", "--json")
    assert with_scenario.code == 1
    assert with_scenario.record["failed"] == failed
    assert words in run("check", "hospitals", "said.jsonl").words
    shown = run("negotiate", "-o", "said.jsonl")
    assert shown.code == 2
    assert "said.jsonl states another deal than its exchanges come to; `fedpact check said.jsonl`" in shown.err


@pytest.mark.parametrize(
    ("key", "stated", "words"),
    some(
        [
            ("welfare", 9.0, "welfare is 214111, the file says 9"),
            ("welfare", None, "the file says None"),
            ("rounds", 99, "rounds is 3, the file says 99"),
            ("residual", 1e-9, "the file says 1e-09"),
            ("settled_by", "own payments", "settled_by is 'message game', the file says 'own payments'"),
            ("protocol", "sums", "protocol is 'price-discovery', the file says 'sums'"),
            ("source", "signed", "source is 'negotiated', the file says 'signed'"),
            ("scenario", "abc", f"scenario is '{example('hospitals').federation.fingerprint}', the file says 'abc'"),
        ]
    ),
)
def test_how_a_deal_was_negotiated_is_stated_wrongly(run, tmp_path: Path, key: str, stated: Any, words: str) -> None:
    run("negotiate", "-o", "said.jsonl")
    changed(tmp_path / "said.jsonl", -1, lambda entry: entry["deal"].update({key: stated}))
    result = run("check", "said.jsonl")
    assert result.code == 1
    assert f"stated is violated: {key} is " in result.words and f"{words}." in result.words
    record = run("check", "said.jsonl", "--json").record
    assert record["failed"] == ["stated"]
    assert record["stated"][key] == stated
    with_scenario = run("check", "hospitals", "said.jsonl")
    assert with_scenario.code == 1
    assert words in with_scenario.words
    assert words in run("settle", "hospitals", "said.jsonl").err
    assert "states another deal than its exchanges come to" in run("negotiate", "-o", "said.jsonl").err


def test_what_is_stated_and_cannot_be_checked_is_said(run, tmp_path: Path) -> None:
    run("negotiate", "-o", "said.jsonl")
    changed(tmp_path / "said.jsonl", -1, lambda entry: entry["deal"].update(verdict="splendid"))
    shown = run("check", "said.jsonl").words
    assert "Stated, not checked: title, scenario, verdict; `fedpact check SCENARIO said.jsonl` compares" in shown
    assert run("check", "said.jsonl", "--json").record["not_checked"] == ["title", "scenario", "verdict"]
    (tmp_path / "deal.json").write_text(run("negotiate", "--json").out)
    beside = run("check", "hospitals", "deal.json")
    assert beside.code == 0
    assert "Stated, not checked: protocol, settled_by, rounds, residual; the transcript of" in beside.words


def test_final_messages_that_are_not_those_of_the_deal(run, tmp_path: Path) -> None:
    """Final messages changed afterwards lead to another deal than the one that everybody was asked to accept."""
    run("negotiate", "-o", "said.jsonl")
    changed(tmp_path / "said.jsonl", -3, lambda entry: entry["answers"]["0"]["proposals"].__setitem__(1, 20.0))
    result = run("check", "said.jsonl")
    assert result.code == 2
    assert "the questions are not those that follow from the answers before" in result.err


@pytest.mark.slow
def test_a_negotiated_deal_against_other_numbers(run, tmp_path: Path) -> None:
    """What was negotiated between agents that lied is no optimum of the true federation."""
    scenario = example("hospitals")
    true = scenario.federation
    dearer = fp.Federation(
        true.weights, costs=0.05, caps=true.caps, payoff=true.payoff, names=true.names, values=true.values
    )
    fp.save_scenario(fp.Scenario(federation=dearer), tmp_path / "dearer.toml")
    run("negotiate", "-o", "said.jsonl")
    refused = run("check", "dearer.toml", "said.jsonl")
    assert refused.code == 2
    assert "made for another scenario: its members are the same, but not all of weights, costs" in refused.err
    # A coordinator between organisations does not know the scenario, and its transcript does not name it.
    changed(tmp_path / "said.jsonl", 0, lambda header: header.update(scenario=None))
    changed(tmp_path / "said.jsonl", -1, lambda entry: entry["deal"].update(scenario=None))
    result = run("check", "dearer.toml", "said.jsonl", "--json")
    assert result.code == 1
    assert "social-optimality" in result.record["failed"]
    assert "recomputed" not in result.record["failed"]
    # What members said their payoffs are is not what this scenario says.
    assert "stated" in result.record["failed"]
    assert "Stated wrongly: welfare is " in run("check", "dearer.toml", "said.jsonl").words


def agents_swapped(text: str) -> str:
    """In the deal, not in the first line."""
    head, _, deal = text.rpartition('{"deal"')
    return head + '{"deal"' + deal.replace('"University", "City"', '"City", "University"')


def test_an_unfinished_transcript_is_no_deal(run, tmp_path: Path) -> None:
    run("negotiate", "-o", "said.jsonl")
    path = tmp_path / "said.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    for command in (("settle", "hospitals"), ("check",), ("check", "hospitals")):
        result = run(*command, "said.jsonl")
        assert result.code == 2
        assert "there is no deal in it yet; `fedpact negotiate` with this transcript goes on" in result.err


def test_claims_need_the_scenario(run) -> None:
    run("negotiate", "-o", "said.jsonl")
    result = run("check", "said.jsonl", "-c", "nash")
    assert result.code == 2
    assert "claims need the scenario: fedpact check SCENARIO said.jsonl" in result.err


def test_a_deal_in_the_place_of_the_scenario(run, tmp_path: Path) -> None:
    run("negotiate", "-o", "said.jsonl")
    (tmp_path / "deal.json").write_text(run("solve", "hospitals", "--json").out)
    for arguments in (
        ("settle", "said.jsonl", "hospitals"),
        ("check", "said.jsonl", "hospitals"),
        ("check", "deal.json"),
    ):
        result = run(*arguments)
        assert result.code == 2
        name = arguments[1]
        assert f"{name}: this is a deal, and a scenario belongs here" in result.err
        assert f"takes the scenario first: SCENARIO {name}" in result.err


def test_a_deal_that_does_not_hold_names_the_command_that_shows_it(run, tmp_path: Path) -> None:
    run("negotiate", "-o", "said.jsonl")
    changed(tmp_path / "said.jsonl", -1, moved("payments", 1.0, -1.0))
    assert "`fedpact check SCENARIO said.jsonl` shows everything" in run("settle", "hospitals", "said.jsonl").err

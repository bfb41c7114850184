"""`fedpact negotiate`, and what `check` and `settle` make of negotiated deals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import crowd
from fedpact.deals.transcript import read_transcript
from fedpact.negotiation import InProcess, agents_of, coordinate
from fedpact.scenario import example

DEAL_KEYS = {
    "mechanism",
    "agents",
    "contributions",
    "payments",
    "prices",
    "protocol",
    "settled_by",
    "rounds",
    "welfare",
    "residual",
    "excluded",
    "scenario",
    "side_payments",
    "source",
}


def pair(path: Path) -> Path:
    """Two agents: too few for the message game."""
    federation = fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(beta=0.3))
    fp.save_scenario(fp.Scenario(federation=federation), path)
    return path


# The deal


def test_negotiate_shows_rounds_and_deal(run) -> None:
    result = run("negotiate")
    assert result.code == 0
    assert result.err == ""
    assert "Five hospitals, negotiated by price-discovery" in result.words
    assert "round residual welfare (EUR) prices, EUR per thousand records 1 " in result.words
    assert "University 96.59 979.52 +73,993" in result.words
    assert "settled by the message game, payments add up to zero." in result.words


def test_negotiate_json_is_the_deal_of_the_mechanism(run) -> None:
    record = run("negotiate", "--json").record
    assert set(record) == DEAL_KEYS | {"trace", "files"}
    outcome = fp.ExternalityMechanism().solve(example("hospitals").federation)
    np.testing.assert_allclose(record["contributions"], outcome.contributions, rtol=1e-7)
    np.testing.assert_allclose(record["payments"], outcome.payments, rtol=1e-7)
    np.testing.assert_allclose(np.sum(record["prices"], axis=0), 0.0, atol=1e-11)
    assert record["trace"][-1]["event"] == "settled"
    assert record["settled_by"] == "message game"
    assert record["files"] == []


@pytest.mark.parametrize("mechanism", ["externality", "shapley"])
@pytest.mark.parametrize("protocol", ["price-discovery", "sums"])
def test_either_mechanism_is_negotiated_and_checked(run, tmp_path: Path, mechanism: str, protocol: str) -> None:
    path = tmp_path / "talks.jsonl"
    options = ["--mechanism", mechanism, "--protocol", protocol]
    shown = run("negotiate", "paper-w1", *options, "-o", path)
    assert shown.code == 0 and "payments add up to zero" in " ".join(shown.out.split())
    found = run("negotiate", "paper-w1", *options, "--json").record
    solved = run("solve", "paper-w1", "--mechanism", mechanism, "--json").record
    assert found["mechanism"] == mechanism
    np.testing.assert_allclose(found["payments"], solved["payments"], atol=1e-4)
    assert run("check", path).code == 0
    assert run("check", "paper-w1", path).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["negotiated.json", "negotiated.jsonl"])
def test_check_and_settle_take_a_negotiated_deal(run, tmp_path: Path, name: str) -> None:
    deal = tmp_path / name
    if deal.suffix == ".json":
        deal.write_text(run("negotiate", "--json").out, encoding="utf-8")
    else:
        run("negotiate", "-o", deal)
    checked = run("check", "hospitals", deal)
    assert checked.code == 0
    assert (
        'Held to: "Nobody gains by giving more or less", "The payments balance", "Best for all together"'
        in checked.words
    )
    assert (
        run("settle", "hospitals", deal, "--json").record["transfers"]
        == (run("settle", "hospitals", "--json").record["transfers"])
    )


@pytest.mark.slow
def test_a_picture_of_convergence(run, tmp_path: Path) -> None:
    for name, begin in (("n.png", b"\x89PNG"), ("n.svg", b"<?xml")):
        result = run("negotiate", "paper-w1", "--plot", tmp_path / name)
        assert result.code == 0
        assert f"Written: {tmp_path / name}" in result.out
        assert (tmp_path / name).read_bytes().startswith(begin)


def test_too_few_for_the_game(run, tmp_path: Path) -> None:
    """Two agents settle at personal prices, and are told so."""
    scenario = pair(tmp_path / "pair.toml")
    result = run("negotiate", scenario, "-o", "said.jsonl")
    assert result.code == 0
    assert "Settled at personal prices: the message game needs three members" in result.words
    assert "settled at the personal prices" in result.words
    assert run("check", scenario, "said.jsonl").code == 0
    assert run("check", "said.jsonl").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "haggling"], "protocol must be one of price-discovery, sums, got 'haggling'"),
        (["-o", "said.json"], "said.json: a transcript's name must end in .jsonl"),
        (["-o", "none/said.jsonl"], "none/said.jsonl: there is no such folder; make it first"),
        (["--plot", "n.gif"], "n.gif: a picture's name must end in .png, .svg, .pdf"),
        (["--plot", "none/n.png"], "none/n.png: there is no such folder; make it first"),
    ],
)
def test_refused_before_any_work(run, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run("negotiate", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


# Transcripts


@pytest.mark.slow
def test_a_finished_transcript_is_shown_again(run, tmp_path: Path) -> None:
    first = run("negotiate", "-o", "said.jsonl")
    assert "Written: said.jsonl" in first.out
    content = (tmp_path / "said.jsonl").read_bytes()
    again = run("negotiate", "-o", "said.jsonl", "--plot", "n.png")
    assert again.code == 0
    assert "This negotiation is over, after 6 exchanges that are in said.jsonl." in again.words
    assert "Written: n.png" in again.out
    table = first.words.split("Deal (amounts")[1].split(" Written:")[0]
    assert table in again.words
    assert (tmp_path / "said.jsonl").read_bytes() == content
    with_json = run("negotiate", "-o", "said.jsonl", "--json").record
    assert {key: with_json[key] for key in DEAL_KEYS} == read_transcript(tmp_path / "said.jsonl").deal


@pytest.mark.parametrize(
    ("arguments", "holds"),
    [
        (["paper-w1"], 'holds the negotiation of "Five hospitals" by price-discovery, not the negotiation of "Table 1'),
        (["--protocol", "sums"], "by price-discovery, not the negotiation of"),
        (["other.toml"], "with other numbers, not"),
    ],
)
def test_the_transcript_of_something_else_is_left_alone(run, tmp_path: Path, arguments: list[str], holds: str) -> None:
    scenario = example("hospitals")
    other = fp.Scenario(federation=scenario.federation.take([4, 3, 2, 1, 0]), title=scenario.title)
    fp.save_scenario(other, tmp_path / "other.toml")
    run("negotiate", "-o", "said.jsonl")
    content = (tmp_path / "said.jsonl").read_bytes()
    result = run("negotiate", *arguments, "-o", "said.jsonl")
    assert result.code == 2
    assert result.out == ""
    assert holds in result.err
    assert "name another file, or remove this one" in result.err
    assert (tmp_path / "said.jsonl").read_bytes() == content


@pytest.mark.parametrize("content", ["my notes", '{"a": 1}\n', "\x00\x01"])
def test_a_file_that_is_no_transcript_is_left_alone(run, tmp_path: Path, content: str) -> None:
    path = tmp_path / "said.jsonl"
    path.write_text(content)
    result = run("negotiate", "-o", "said.jsonl")
    assert result.code == 2
    assert result.err.startswith("error: said.jsonl: ")
    assert path.read_text() == content


def interrupted_at(monkeypatch: pytest.MonkeyPatch, exchange: int) -> None:
    """The user presses Ctrl-C while the agents think about one of the questions."""
    ask, count = InProcess.ask, 0

    def asked(self: InProcess, questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        nonlocal count
        count += 1
        if count == exchange:
            raise KeyboardInterrupt
        return ask(self, questions)

    monkeypatch.setattr(InProcess, "ask", asked)


@pytest.mark.parametrize("exchange", [1, 3, 5])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_interrupted_and_gone_on(run, tmp_path: Path, exchange: int, as_json: list[str]) -> None:
    whole = run("negotiate", "-o", "whole.jsonl", *as_json)
    with pytest.MonkeyPatch.context() as patch:
        interrupted_at(patch, exchange)
        broken = run("negotiate", "-o", "said.jsonl", *as_json)
    assert broken.code == 130
    assert f"interrupted; {exchange - 1} exchanges are kept in said.jsonl, the same command goes on" in broken.err
    resumed = run("negotiate", "-o", "said.jsonl", *as_json)
    assert resumed.code == 0
    assert (tmp_path / "said.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    if as_json:
        assert resumed.out == whole.out.replace("whole.jsonl", "said.jsonl")
    else:
        assert f"Going on after {exchange - 1} exchanges that are in said.jsonl." in resumed.words
        assert whole.words.split(" round residual ")[1].split(" Written:")[0] in resumed.words


def test_interrupted_without_a_transcript(run) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupted_at(patch, 3)
        result = run("negotiate")
    assert result.code == 130
    assert result.err == "interrupted; nothing is kept; --transcript FILE would keep the exchanges\n"


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fedpact", "negotiate", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_a_real_interrupt(run, tmp_path: Path) -> None:
    """Interrupted, a negotiation ends as it does undisturbed, to the last byte of its transcript."""
    crowd(tmp_path / "crowd.toml")
    arguments = ("crowd.toml", "-o")
    assert run("negotiate", *arguments, "whole.jsonl").code == 0
    whole, said = (tmp_path / "whole.jsonl").read_bytes(), tmp_path / "said.jsonl"
    with started(tmp_path, *arguments, "said.jsonl") as process:
        deadline = time.monotonic() + 60
        while not said.exists() or said.stat().st_size < 0.1 * len(whole):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    kept = read_transcript(said)
    assert process.returncode == 130
    assert err == f"interrupted; {kept.count} exchanges are kept in said.jsonl, the same command goes on from there\n"
    assert kept.deal is None
    assert whole.startswith(said.read_bytes()[: kept.length])
    result = run("negotiate", *arguments, "said.jsonl")
    assert f"Going on after {kept.count} exchanges" in result.words
    assert said.read_bytes() == whole


class Silent:
    """An agent that introduces itself and is not heard of again."""

    def __init__(self, agent: Any) -> None:
        self.name, self._agent = agent.name, agent

    def answer(self, question: dict[str, Any]) -> Any:
        return self._agent.answer(question) if question["kind"] == "introduce" else None


def with_silent(federation: fp.Federation, *, least_gain: float | None = 0.0) -> InProcess:
    agents: list[Any] = list(agents_of(federation, least_gain=least_gain))
    agents[3] = Silent(agents[3])
    return InProcess(agents)


def test_somebody_who_falls_silent_is_named(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcess, "of", with_silent)
    result = run("negotiate")
    assert result.code == 0
    assert "Children's is asked again: no answer in time" in result.words
    assert "Children's is out: no answer in time. The others continue without it." in result.words
    assert "Children's (out) 0 - -" in result.words
    record = run("negotiate", "--json").record
    assert record["excluded"] == {"Children's": "no answer in time"}
    assert record["payments"][3] == record["contributions"][3] == 0.0


def test_a_deal_without_somebody_is_held_against_those_who_stayed(run, tmp_path: Path) -> None:
    federation = example("hospitals").federation
    coordinate(with_silent(federation), transcript=tmp_path / "said.jsonl")
    alone = run("check", "said.jsonl")
    assert alone.code == 0
    assert "Children's is out: no answer in time." in alone.words
    record = run("check", "hospitals", "said.jsonl", "--json").record
    assert record["agents"] == ["University", "City", "County", "Clinic"]
    assert record["failed"] == []


# Studies


@pytest.mark.slow
def test_members_with_several_lots(run, tmp_path: Path) -> None:
    """What every lot brings and is paid for, on record, checked, settled; and a member's own file in words."""
    done = run("negotiate", "hospitals-lots", "--transcript", "said.jsonl")
    assert done.code == 0 and "University: rare disease" in done.out and "settled by the message game" in done.out
    told = run("negotiate", "hospitals-lots", "--transcript", "said.jsonl", "--json")
    deal = json.loads(told.out)
    assert len(deal["contributions"]) == len(deal["lot_names"]) == 10 and len(deal["payments"]) == 5
    for arguments in (("check", "said.jsonl"), ("check", "hospitals-lots", "said.jsonl")):
        checked = run(*arguments)
        assert checked.code == 0, checked.out
    assert "every claim" in checked.out.lower()
    assert run("settle", "hospitals-lots", "said.jsonl").code == 0
    less = run("settle", "hospitals-lots", "said.jsonl", "--delivered", "City: labelled=10")
    assert less.code == 0 and "Agreed and delivered" in less.out and "University: rare disease" in less.out
    paid = run("settle", "hospitals-lots", "said.jsonl", "--delivered", "City: labelled=10", "--json").record
    assert paid["delivered"][3] == 10.0 and sum(round(100 * float(each["amount"])) for each in paid["balances"]) == 0
    unknown = run("settle", "hospitals-lots", "said.jsonl", "--delivered", "City=10")
    assert unknown.code == 2 and "there is no lot 'City'; lots are numbered 0 to 9" in unknown.err
    assert run("flower", "agent", "city.json", "hospitals-lots", "--name", "City").code == 0
    shown = run("agent", "check", "city.json")
    assert shown.code == 0 and "2 lots of data" in shown.out and "Lot old device: up to" in shown.out
    assert json.loads(run("agent", "check", "city.json", "--json").out)["standalone"] == 0.0
    assert "It uses its own data at home" in " ".join(shown.out.split())


def test_what_stayers_delivered_is_settled_by_the_rule_between_them(run) -> None:
    """A Shapley deal names no prices; who refused it delivers nothing, and the rule holds between those who stay."""
    run("negotiate", "--mechanism", "shapley", "-o", "said.jsonl")
    done = run("settle", "hospitals", "said.jsonl", "--delivered", "University=5", "--json")
    assert done.code == 0, done.err
    record = done.record
    assert record["agents"] == ["University", "City", "County", "Children's", "Clinic"]
    scenario = example("hospitals")
    due = fp.ShapleyMechanism().outcome_at(scenario.federation.take([0, 1, 2]), [5.0, *record["delivered"][1:3]])
    paid = [float(each["amount"]) for each in record["balances"]]
    assert paid[3:] == [0.0, 0.0]
    np.testing.assert_allclose(paid[:3], due.payments * scenario.money.per_payoff, atol=0.01)
    assert run("settle", "hospitals", "said.jsonl", "--delivered", "Clinic=3").code == 2

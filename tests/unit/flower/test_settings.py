"""The configuration of a run, and messages on the wire."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message

import fedpact as fp
from fedpact.deals import Ledger
from fedpact.deals.updates import model_digest
from fedpact.flower.messages import (
    error_reason,
    exchange,
    message_content,
    question,
    read_message,
    record_digest,
    reply_with,
)
from fedpact.flower.run import SignedRun, begin_run, read_model, write_model
from fedpact.flower.settings import AppSettings
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Stage

LEAST = {"record": "somewhere", "names": '["A", "B", "C"]'}


def test_what_is_not_said_stays_as_usual() -> None:
    settings = AppSettings.of(LEAST | {"rounds": 7, "something-else": 1})
    assert (settings.rounds, settings.agents) == (7, ("A", "B", "C"))
    assert settings.folder == Path("somewhere") and settings.money is None
    assert settings.unit == {"currency": "units of payoff", "per_payoff": 1.0, "decimals": 9}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"names": '["A", "B"]'}, "must say record"),
        ({"record": "x"}, "must say names"),
        (LEAST | {"record": " "}, "record must be a folder"),
        (LEAST | {"names": '["A"]'}, "names must be a JSON list of at least 2 names, all different"),
        (LEAST | {"rounds": True}, "rounds must be a whole number"),
        (LEAST | {"protocol": "haggling"}, "protocol must be one of price-discovery, sums"),
        (LEAST | {"samples-per-unit": 0}, "samples-per-unit must be a positive number"),
        (LEAST | {"currency": "EUR", "per-payoff": math.inf}, "per-payoff must be a positive number"),
        (LEAST | {"patience": math.nan}, "patience must be a number"),
        (LEAST | {"names": "A, B, C"}, "names must be a JSON list"),
        (LEAST | {"currency": "EUR"}, "must say both currency and per-payoff, or neither"),
    ],
)
def test_settings_that_are_refused(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(fp.InvalidInput, match=problem):
        AppSettings.of(config)


def test_errors_are_told_on_one_line() -> None:
    InProcessGrid({})
    asked = Message(message_content({}), 1, "train")
    assert error_reason(Message(Error(2, "<class 'ValueError'>:<'a\n  b'>"), reply_to=asked)) == (
        "<class 'ValueError'>:<'a b'>"
    )
    assert error_reason(Message(Error(5), reply_to=asked)) == "error 5 without a reason"
    assert len(error_reason(Message(Error(2, "x" * 10_000), reply_to=asked))) == 200


def test_an_exchange_ends_when_the_time_is_up(tmp_path: Path) -> None:
    grid = Stage(example("paper-w1").federation, tmp_path, faults={1: lambda message, honest: None}).grid()
    asked = {node: question(node, "greet", {}, timeout=0.05) for node in (FIRST_NODE, FIRST_NODE + 1, 77)}
    assert set(exchange(grid, asked, timeout=0.05)) == {FIRST_NODE}
    assert exchange(grid, {}, timeout=0.05) == {}


def test_replies_to_other_questions_do_not_count(tmp_path: Path) -> None:
    class Mixing(InProcessGrid):
        def pull_messages(self, message_ids: Any) -> Any:
            stray = reply_with(self.seen[0], {"name": "stray"})
            stray.metadata.__dict__["_reply_to_message_id"] = "another"
            return [stray, *super().pull_messages(message_ids)]

    stage = Stage(example("paper-w1").federation, tmp_path)
    grid = Mixing(stage.grid().nodes)
    replies = exchange(grid, {0: question(FIRST_NODE, "greet", {"run": "0" * 64}, timeout=1.0)}, timeout=1.0)
    assert read_message(replies[0])["name"] == "agent 0"


def test_messages_that_could_not_be_pushed_have_no_reply(tmp_path: Path) -> None:
    class Losing(InProcessGrid):
        def push_messages(self, messages: Any) -> Any:
            return [None if place == 0 else number for place, number in enumerate(super().push_messages(messages))]

    stage = Stage(example("paper-w1").federation, tmp_path)
    grid = Losing(stage.grid().nodes)
    asked = {node: question(node, "greet", {}, timeout=0.05) for node in grid.nodes}
    assert set(exchange(grid, asked, timeout=0.05)) == {FIRST_NODE + 1, FIRST_NODE + 2}


def test_seats_have_names(tmp_path: Path) -> None:
    stage = Stage(example("paper-w1").federation, tmp_path)
    names = ["agent 0", "another", "agent 2"]
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        begin_run(ledger, {})
        run = SignedRun(stage.grid(places=[0, 1]), ledger, names, timeout=0.1, patience=0.0)
    assert run.names == tuple(names) and run.nodes == {"agent 0": FIRST_NODE}
    assert "it is called 'agent 1', which no member is" in run.unseated[FIRST_NODE + 1]
    assert "there are agent 0; node 1001 has no seat" in run.description


def test_models_on_disk(tmp_path: Path) -> None:
    """Names that NumPy keeps for itself, kinds and shapes of all sorts."""
    arrays = {
        "file": np.arange(6, dtype=np.float32).reshape(2, 3),
        "names": np.array(3.5),
        "fc.weight": np.zeros((0, 2), dtype=np.int8),
    }
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    kept = write_model(tmp_path / "model.npz", record)
    again = read_model(tmp_path / kept["file"], kept["sha256"])
    assert list(again) == list(arrays) and record_digest(again) == record_digest(record)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name].numpy(), array)
    with pytest.raises(fp.InvalidInput, match="was changed"):
        read_model(tmp_path / kept["file"], "0" * 64)
    different = [
        {"0": np.zeros(2)},
        {"0": np.zeros((2, 1))},
        {"0": np.zeros(2, dtype=np.float32)},
        {"a": np.zeros(2), "b": np.ones(2)},
        {"b": np.zeros(2), "a": np.ones(2)},
        {"0": np.zeros(2), "1": np.ones(2)},
    ]
    assert len({model_digest(model) for model in different}) == len(different)

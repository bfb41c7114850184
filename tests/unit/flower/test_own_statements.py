"""A coordinator drops or replaces what a member has signed: the member's node signs no settlement of such a ledger.

The coordinator is the real one, but for what it writes into its ledger.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

import fedpact as fp
from edges.command_line import run_main
from fedpact.deals import Ledger
from fedpact.flower import UnderDeal
from fedpact.flower.messages import RECORD, message_content, read_message, record_digest
from fedpact.scenario import example
from unit.flower.cheats import Cheat, conduct_run
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Killed, Stage, kind_of, through_protobuf
from unit.flower.test_signed_ledger import Entries, content, entries_of, rechain
from unit.flower.test_signed_under_deal import start
from unit.flower.test_under_deal import grid_of, three

NAME = "agent 1"
SUBSETS = "what it measured of the models made of subsets of the updates"
MODEL = "what it measured of the model"

Tampering = Callable[[dict[str, Any]], Any]


@pytest.fixture
def tamper(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the coordinator write something else into an entry of its ledger."""

    def install(kind: str, change: Tampering) -> None:
        append = Ledger.append

        def tampered(self: Ledger, given: str, written: Any) -> Any:
            plain = json.loads(json.dumps(written))
            if given == kind:
                change(plain)
            return append(self, given, plain)

        monkeypatch.setattr(Ledger, "append", tampered)

    return install


def say_it_was_late(verified: dict[str, Any], name: str = NAME) -> None:
    """As an honest coordinator writes down a member that has not answered."""
    for model in verified["models"]:
        model["accuracies"][name] = {"accuracy": None, "reason": "no reply in time"}
    verified["signatures"].pop(name)


def leave_out(verified: dict[str, Any]) -> None:
    for model in verified["models"]:
        del model["accuracies"][NAME]
    del verified["signatures"][NAME]


def change_one(verified: dict[str, Any]) -> None:
    verified["models"][2]["accuracies"][NAME]["accuracy"] = 0.75


def take_the_signature(verified: dict[str, Any]) -> None:
    del verified["signatures"][NAME]


def drop_the_models(verified: dict[str, Any]) -> None:
    verified["models"].pop()


def model_not_measured(measured: dict[str, Any]) -> None:
    measured["accuracies"][NAME] = {"accuracy": None, "reason": "no reply in time"}


def model_left_out(measured: dict[str, Any]) -> None:
    del measured["accuracies"][NAME]


def model_measured_otherwise(measured: dict[str, Any]) -> None:
    measured["accuracies"][NAME]["accuracy"] = 0.75


DROPPED: dict[Tampering, tuple[str, str]] = {
    say_it_was_late: ("verified", SUBSETS),
    leave_out: ("verified", SUBSETS),
    change_one: ("verified", SUBSETS),
    take_the_signature: ("verified", SUBSETS),
    drop_the_models: ("verified", SUBSETS),
    model_not_measured: ("measured", MODEL),
    model_left_out: ("measured", MODEL),
    model_measured_otherwise: ("measured", MODEL),
}


@pytest.mark.parametrize("change", DROPPED, ids=lambda change: change.__name__)
def test_a_measurement_that_is_dropped_is_missed(
    change: Tampering,
    tamper: Callable[..., None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind, what = DROPPED[change]
    tamper(kind, change)
    refusal = f"the ledger lacks or changes {what}, which this node has signed"
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: {refusal}'):
        start(three(), tmp_path / "ledger.jsonl", verify_subsets=5)
    assert f'member "{NAME}": {refusal}' in caplog.text
    failed = entries_of(tmp_path / "ledger.jsonl")[-1]
    assert failed["kind"] == "failed" and failed["content"]["phase"] == "settle"
    assert failed["content"]["agents"][NAME] == refusal and NAME not in failed["content"]["signatures"]
    run_main(["check", str(tmp_path / "ledger.jsonl")])
    told = " ".join(capsys.readouterr().out.split())
    assert "the run failed (settle): the settlement is disputed" in told and refusal in told


def test_members_whose_statements_are_all_there_sign(tamper: Callable[..., None], tmp_path: Path) -> None:
    tamper("verified", say_it_was_late)
    with pytest.raises(fp.InvalidInput, match="disputes it"):
        start(three(), tmp_path / "ledger.jsonl", verify_subsets=5)
    failed = entries_of(tmp_path / "ledger.jsonl")[-1]["content"]
    assert list(failed["agents"]) == [NAME] and sorted(failed["signatures"]) == ["agent 0", "agent 2"]


@pytest.mark.parametrize("server_round", [1, 2])
def test_another_delivery_of_the_same_round_is_missed(
    server_round: int, tamper: Callable[..., None], tmp_path: Path
) -> None:
    """The coordinator has the member train a round twice, and writes down the one it has not sent on.

    The member does so where the deal is put to it again in between, as by a server that was stopped.
    """
    grid, earlier, signs = three(), {}, []

    def twice(message: Message, honest: Callable[[Message], Message]) -> Message:
        signs.extend([message] if kind_of(message) == "sign" else [])
        config = message.content.get("config")
        if config is not None and config.get("server-round") == server_round and not earlier:
            other = copy.copy(message)
            other.content = RecordDict({**message.content, "arrays": ArrayRecord([np.full(1, 9.0)])})
            earlier["reply"] = honest(other)
            assert "asked for round" in honest(message).error.reason
            honest(signs[0])
        return honest(message)

    def replace(trained: dict[str, Any]) -> None:
        reply = earlier["reply"]
        update, signature = record_digest(reply.content["arrays"]), reply.content["fedpact"]["signature"]
        trained["deliveries"][NAME][server_round - 1] |= {"update": update, "signature": signature}

    grid.nodes[FIRST_NODE + 1].fault = twice
    tamper("trained", replace)
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: .* what it delivered in round {server_round},'):
        start(grid, tmp_path / "ledger.jsonl")


def test_a_ledger_that_is_not_the_one_shown_is_refused(tamper: Callable[..., None], tmp_path: Path) -> None:
    """The member is shown its measurement, and the ledger that its signature would stand in lacks it."""
    grid, written = three(), {}

    def drop(verified: dict[str, Any]) -> None:
        written.update(copy.deepcopy(verified))
        say_it_was_late(verified)

    def show_another(message: Message, honest: Callable[[Message], Message]) -> Message:
        if "config" not in message.content and not message.content.array_records:
            asked = read_message(message)
            if asked.get("action") == "settle":
                next(each for each in asked["entries"] if each["kind"] == "verified")["content"] = written
                message.content = message_content(asked)
        return honest(message)

    grid.nodes[FIRST_NODE + 1].fault = show_another
    tamper("verified", drop)
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: .* not chained to each other, or were changed'):
        start(grid, tmp_path / "ledger.jsonl", verify_subsets=5)


@pytest.mark.parametrize("shown", ["nothing", "not to the end", "twice"])
def test_entries_must_be_shown_from_the_deal_to_the_end(shown: str, tmp_path: Path) -> None:
    grid = three()

    def hide(message: Message, honest: Callable[[Message], Message]) -> Message:
        if "config" not in message.content and not message.content.array_records:
            asked = read_message(message)
            if asked.get("action") == "settle":
                entries = asked["entries"]
                asked["entries"] = {"nothing": [], "not to the end": entries[:-1], "twice": entries * 2}[shown]
                message.content = message_content(asked)
        return honest(message)

    grid.nodes[FIRST_NODE + 1].fault = hide
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: the ledger\'s entries since the deal'):
        start(grid, tmp_path / "ledger.jsonl")


def settle_push(stage: Stage, **more: Any) -> int:
    """The push by which members are asked to settle."""
    grid = stage.grid()
    Stage(stage.federation, stage.folder / "uninterrupted").conduct(grid, **more)
    return grid.pushes - 1


def test_a_server_that_is_started_again_does_not_make_members_forget(tmp_path: Path) -> None:
    """A coordinator stops before the settlement, writes its ledger anew without a measurement, and goes on."""
    stage, more = Stage(example("paper-w2").federation, tmp_path), {"verify-subsets": 5}
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=settle_push(stage, **more)), **more)
    entries: Entries = entries_of(stage.ledger)
    assert [entry["kind"] for entry in entries[-2:]] == ["verified", "measured"]
    say_it_was_late(content(entries, "verified"))
    rechain(stage.ledger, entries[:-1])  # and has the model measured again
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: the ledger lacks or changes {SUBSETS}'):
        stage.conduct(**more)


def test_a_call_to_another_run_in_between_does_not_make_members_forget(tmp_path: Path) -> None:
    """Started again, the coordinator first has the member sign a deal and a measurement of a run that it made up."""
    stage, more = Stage(example("paper-w2").federation, tmp_path), {"verify-subsets": 5}
    with pytest.raises(Killed):
        stage.conduct(stage.grid(killed_at=settle_push(stage, **more)), **more)
    entries: Entries = entries_of(stage.ledger)
    say_it_was_late(content(entries, "verified"))
    rechain(stage.ledger, entries[:-1])
    called: list[Message] = []

    def sent(message: Message, kind: str, content: RecordDict) -> Message:
        made = through_protobuf(message)
        made.metadata.__dict__["_message_type"], made.content = kind, content
        return made

    def elsewhere(message: Message, honest: Callable[[Message], Message]) -> Message:
        if kind_of(message) == "sign" and not called:
            called.append(message)
            asked, other = read_message(message), "f" * 64
            about = ConfigRecord({"models": 1, "about": "accuracy", "head": "0" * 64})
            model = RecordDict({"model-0": ArrayRecord([np.zeros(())]), RECORD: about})
            honest(sent(message, "train", message_content({"action": "greet", "run": other})))
            document = asked["document"] | {"run": other}
            signed = honest(sent(message, "train", message_content(asked | {"document": document})))
            assert read_message(signed)["signed"] is True
            assert RECORD in honest(sent(message, "evaluate", model)).content
            own = message_content({"action": "greet", "run": asked["document"]["run"]})
            honest(sent(message, "train", own))
        return honest(message)

    stage.faults[1] = elsewhere
    with pytest.raises(fp.InvalidInput, match=f'"{NAME}" disputes it: the ledger lacks or changes {SUBSETS}'):
        stage.conduct(**more)
    assert called


def test_an_honest_server_that_is_started_again_settles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured again counts, and not what was measured before and never written down."""
    stage, more = Stage(example("paper-w2").federation, tmp_path), {"verify-subsets": 5}
    append = Ledger.append

    def dying(kind: str) -> Callable[..., Any]:
        def killed(self: Ledger, given: str, written: Any) -> Any:
            if given == kind:
                raise Killed
            return append(self, given, written)

        return killed

    for kind in ("trained", "verified", "measured", "settled"):
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "append", dying(kind))
            with pytest.raises(Killed):
                stage.conduct(**more)
    stage.conduct(**more)
    receipts = [str(tmp_path / "agents" / f"{place}-record" / "receipt.json") for place in range(3)]
    assert run_main(["check", str(stage.ledger), *(part for path in receipts for part in ("--receipt", path))]) == 0


def test_a_receipt_misses_what_was_dropped(
    tamper: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A coordinator that does not ask the member to settle is found by whoever has the member's receipt."""
    stage, more = Stage(example("paper-w2").federation, tmp_path), {"verify-subsets": 5}

    def not_asked(message: Message, honest: Callable[[Message], Message]) -> Message | None:
        return None if kind_of(message) == "settle" else honest(message)

    stage.faults[1] = not_asked
    tamper("verified", say_it_was_late)
    stage.conduct(**more)
    assert run_main(["check", str(stage.ledger)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f'not by "{NAME}": no reply in time' in told
    receipt = tmp_path / "agents" / "1-record" / "receipt.json"
    assert run_main(["check", str(stage.ledger), "--receipt", str(receipt)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert f'"{NAME}" signed {SUBSETS}, and the ledger does not hold it' in told


def test_what_comes_too_late_is_not_signed(tmp_path: Path) -> None:
    """So that a node that measures for longer than the server waits does not dispute the settlement afterwards."""
    grid = three()

    def slow(message: Message, honest: Callable[[Message], Message]) -> Message | None:
        if "model-0" not in message.content:
            return honest(message)
        message.metadata.__dict__["_created_at"] = message.metadata.created_at - 2.0 * message.metadata.ttl
        late = honest(message)
        assert late.has_error() and "too late" in late.error.reason
        return None

    grid.nodes[FIRST_NODE + 1].fault = slow
    under = start(grid, tmp_path / "ledger.jsonl", verify_subsets=5)
    assert under.settlement is not None
    assert entries_of(tmp_path / "ledger.jsonl")[-1]["content"]["signatures"].keys() == {
        "agent 0",
        "agent 1",
        "agent 2",
    }


@pytest.mark.slow
def test_where_the_measurement_is_what_is_paid_by(tamper: Callable[..., None], tmp_path: Path) -> None:
    tamper("verified", lambda verified: say_it_was_late(verified, "Ben"))
    with pytest.raises(fp.InvalidInput, match=f'"Ben" disputes it: the ledger lacks or changes {SUBSETS}'):
        conduct_run(tmp_path, 0, Cheat())


def grid_with_records(folder: Path) -> InProcessGrid:
    return grid_of(*({"record": str(folder / str(place))} for place in range(3)))


def test_a_receipt_is_kept_of_every_run(tmp_path: Path) -> None:
    """The receipt of a run is not lost by another one."""
    for run in ("first", "second"):
        under: UnderDeal = start(grid_with_records(tmp_path / "nodes"), tmp_path / f"{run}.jsonl", verify_subsets=5)
        assert under.settlement is not None
    for run in ("first", "second"):
        number = entries_of(tmp_path / f"{run}.jsonl")[0]["hash"]
        receipt = tmp_path / "nodes" / "1" / f"receipt-{number}.json"
        assert run_main(["check", str(tmp_path / f"{run}.jsonl"), "--receipt", str(receipt)]) == 0

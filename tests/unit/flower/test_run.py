"""A whole run between real apps, in one process: negotiate, sign, train, measure, settle, and the record of it."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

import fedpact as fp
from fedpact.deals import read_ledger
from fedpact.deals.transcript import read_transcript
from fedpact.flower import Lost
from fedpact.flower.messages import RECORD, exchange, question, read_message, reply_with
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from random_cases import some
from strategies import random_federations
from unit.flower.in_process import FIRST_NODE, RAISED, InProcessGrid, Node, Pulling, Stage, kind_of

SAME = 1e-6  # of payoffs and costs: payments agree


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(example("paper-w2").federation, tmp_path)


def kinds(stage: Stage) -> list[str]:
    return [entry.kind for entry in read_ledger(stage.ledger).entries]


def last(stage: Stage, kind: str) -> Any:
    return next(entry.content for entry in reversed(read_ledger(stage.ledger).entries) if entry.kind == kind)


def assert_solved(deal: Any, federation: fp.Federation) -> None:
    """The deal is the one that solving the federation of those at the table comes to."""
    there = deal.members
    rest = federation.take(there)
    solved = fp.ExternalityMechanism().solve(rest)
    size = float(np.abs(solved.payoffs).sum() + solved.costs.sum()) or 1.0
    np.testing.assert_allclose(deal.payments[there], solved.payments, rtol=0.0, atol=SAME * size)
    assert rest.welfare(deal.contributions[there]) >= solved.welfare - SAME * size


LATE = """
import sys
from contextlib import suppress
from pathlib import Path

from fedpact.flower.mnist import MnistLearner
from fedpact.scenario import example
from unit.flower.in_process import Killed, Stage

def here():
    return [name for name in ("jax", "torch") if name in sys.modules]

stage = Stage(example("paper-w2").federation, Path(sys.argv[1]), learner=MnistLearner)
grid = stage.grid(killed_at=int(sys.argv[2]))
with suppress(Killed):
    stage.conduct(grid)
assert "sign" in grid.first and "train" not in grid.first, grid.first
assert here() == [], here()
"""


def test_messages_that_do_not_train_import_no_framework(stage: Stage, tmp_path: Path) -> None:
    """On a deployed node each of them starts a process."""
    grid = stage.grid()
    stage.conduct(grid)
    command = [sys.executable, "-c", LATE, str(tmp_path / "late"), str(grid.first["train"])]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr


def test_private_spots_of_flower() -> None:
    """What the in-process Grid and the mod rely on and Flower does not promise; look there when this fails."""
    from flwr.supercore.task_identity import TaskIdentity

    assert {"_task_id", "_run_id", "_node_id"} <= set(vars(TaskIdentity))
    assert (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.MOD_FAILED_PRECONDITION) == (RAISED, 6)
    InProcessGrid({})
    message = Message(RecordDict(), 1, "train")
    assert message.metadata.__dict__["_message_id"] == ""


def test_without_money_payments_are_units_of_payoff(stage: Stage) -> None:
    stage.conduct(**{"currency": None, "per-payoff": None})
    found = check_record(stage.ledger)
    assert found.failed == [] and found.findings["settlement"].holds
    paid = found.settlement()
    assert (paid.currency, paid.per_payoff, paid.decimals) == ("units of payoff", 1.0, 9)
    due = dict(zip(found.deal.agents, found.deal.payments, strict=True))
    assert last(stage, "settled")["cents"] == {
        name: pytest.approx(payment * 1e9, abs=1.0) for name, payment in due.items()
    }


def test_a_run_leaves_a_record_that_holds(stage: Stage) -> None:
    Pulling.used.clear()
    stage.conduct()
    assert kinds(stage) == ["begun", "keys", "agreed", "signed", "trained", "measured", "settled"]
    found = check_record(stage.ledger)
    assert found.failed == [] and all(finding.holds for finding in found.findings.values())
    assert_solved(found.deal, stage.federation)
    assert set(Pulling.used) == {(0, 16), (1, 6), (2, 31)} and len(Pulling.used) == 6
    # Federated averaging by hand: from 0, twice half the way to the weighted mean place.
    mean = (1 * 6 + 2 * 31) / 53
    with np.load(stage.ledger.parent / "ledger-model.npz") as model:
        np.testing.assert_allclose(model["arr_0"], 0.75 * mean, rtol=1e-12)
    accuracies = last(stage, "measured")["accuracies"]
    assert accuracies["agent 1"]["accuracy"] == pytest.approx(1.0 / (1.0 + abs(0.75 * mean - 1.0)), rel=1e-12)
    settled = last(stage, "settled")
    assert sum(settled["cents"].values()) == 0
    solved = fp.ExternalityMechanism().solve(stage.federation)
    np.testing.assert_allclose(list(settled["cents"].values()), 1e8 * solved.payments, atol=1.0)
    assert sorted(settled["signatures"]) == ["agent 0", "agent 1", "agent 2"]


def test_nobody_contributes_where_nothing_is_worth_it(tmp_path: Path) -> None:
    dear = fp.Federation(np.ones((3, 3)), costs=5.0, caps=10.0, payoff=fp.PowerLaw(beta=0.1))
    stage = Stage(dear, tmp_path)
    stage.conduct()
    assert not last(stage, "trained")["deliveries"]
    assert set(last(stage, "settled")["cents"].values()) == {0}
    assert check_record(stage.ledger).failed == []


def test_caps_follow_the_data_nodes_hold(tmp_path: Path) -> None:
    class Little(Pulling):
        samples = 9

    stage = Stage(example("paper-w1").federation, tmp_path, learner=Little)
    stage.conduct()
    used = check_record(stage.ledger).samples
    assert len(used) == 3 and all(set(counts) == {9} for counts in used.values())
    capped = fp.Federation(np.ones((3, 3)), costs=0.001, caps=9.0, payoff=fp.PowerLaw(beta=0.02))
    assert_solved(check_record(stage.ledger).deal, capped)


def silent(message: Message, honest: Any) -> Message | None:
    return None


def raising(message: Message, honest: Any) -> Message | None:
    raise_ = Node(app=_broken_app, context=None)  # type: ignore[arg-type]
    return raise_.handle(message)


def _broken_app(message: Message, context: Any) -> Message:
    raise ZeroDivisionError("a member's own fault")


def nonsense(message: Message, honest: Any) -> Message | None:
    return Message(RecordDict({RECORD: ConfigRecord({"json": "{not JSON"})}), reply_to=message)


def empty(message: Message, honest: Any) -> Message | None:
    return Message(RecordDict(), reply_to=message)


def not_a_number(message: Message, honest: Any) -> Message | None:
    return Message(RecordDict({RECORD: ConfigRecord({"json": '{"number": 1, "payoff": NaN}'})}), reply_to=message)


HALF = "\ud800 boo"  # half a character: JSON can say it, and no file can hold it


def half_an_error(message: Message, honest: Any) -> Message | None:
    asked = read_message(message)
    return reply_with(message, {"number": asked.get("number"), "error": HALF})


def half_a_reason(message: Message, honest: Any) -> Message | None:
    return reply_with(message, {"signed": False, "confirmed": False, "reason": HALF})


def half_a_claim(message: Message, honest: Any) -> Message | None:
    return reply_with(message, read_message(honest(message)) | {"claims": [HALF]})


def only(action: str, fault: Any) -> Any:
    """A fault in messages of one type; honest elsewhere."""

    def answer(message: Message, honest: Any) -> Message | None:
        return fault(message, honest) if kind_of(message) == action else honest(message)

    return answer


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (silent, "no answer in time"),
        (raising, "ZeroDivisionError"),
        (nonsense, "valid JSON"),
        (empty, "no answer that fedpact can read"),
        (not_a_number, "JSON has no NaN"),
    ],
)
def test_a_node_that_fails_is_excluded_by_name(fault: Any, reason: str, tmp_path: Path) -> None:
    federation = next(random_federations(5, 1, n_agents=4, harm=False))
    stage = Stage(federation, tmp_path, faults={1: only("negotiate", fault)}, run_config={"samples-per-unit": 1e3})
    stage.conduct()
    found = check_record(stage.ledger)
    assert found.deal is not None and list(found.deal.excluded) == ["agent 1"]
    assert reason in found.deal.excluded["agent 1"]
    assert_solved(found.deal, federation)
    assert found.failed == [] and found.entries.get("settled") is not None
    assert "agent 1" not in last(stage, "trained")["deliveries"]


def test_nodes_that_have_no_seat_are_named(tmp_path: Path) -> None:
    stage = Stage(
        next(random_federations(5, 1, n_agents=4, harm=False)), tmp_path, run_config={"samples-per-unit": 1e3}
    )
    stage.faults[1] = only("greet", raising)
    stage.node_config[2] = {"agent": str(tmp_path / "nowhere.json")}
    stage.conduct()
    agreed = last(stage, "agreed")
    assert set(agreed["deal"]["excluded"]) == {"agent 1", "agent 2"}
    assert "ZeroDivisionError" in agreed["unseated"][str(FIRST_NODE + 1)]
    assert "there is no such file" in agreed["unseated"][str(FIRST_NODE + 2)]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": "", "index": 1, "agents": 3}, "is called '', which no member is"),
        ({"name": "agent 1", "index": 3, "agents": 3}, "its index is 3"),
        ({"name": "agent 1", "index": 1, "agents": 4}, "a row for 4 members"),
        ({}, "is called None, which no member is"),
        ({"name": "agent 1", "index": 1, "agents": 3}, "must be an ECDSA key"),
    ],
)
def test_greetings_that_cannot_be(said: Any, problem: str, stage: Stage) -> None:
    stage.faults[1] = only("greet", lambda message, honest: reply_with(message, said))
    stage.conduct()
    assert problem in last(stage, "agreed")["unseated"][str(FIRST_NODE + 1)]
    assert list(last(stage, "agreed")["deal"]["excluded"]) == ["agent 1"]


def test_two_nodes_for_one_seat_are_refused(stage: Stage) -> None:
    stage.node_config[1] = {"agent": str(stage.folder / "agents" / "0.json")}
    with pytest.raises(fp.InvalidInput, match='nodes 1000 and 1001 are both called "agent 0"'):
        stage.conduct()
    assert kinds(stage) == ["begun"]


def test_everybody_broken_is_a_named_error_in_the_ledger(stage: Stage) -> None:
    stage.faults |= dict.fromkeys(range(3), only("negotiate", nonsense))
    with pytest.raises(fp.NotConverged, match="nobody is left"):
        stage.conduct()
    failed = last(stage, "failed")
    assert failed["phase"] == "agree" and all(f"agent {place}" in failed["reason"] for place in range(3))
    stage.faults.clear()
    stage.conduct()
    assert kinds(stage)[-1] == "settled" and check_record(stage.ledger).failed == []


@pytest.mark.parametrize("fault", some([silent, raising, nonsense], 1))
@pytest.mark.parametrize("action", ["sign", "train"])
def test_a_member_lost_later_leaves_a_deal_of_the_others(action: str, fault: Any, tmp_path: Path) -> None:
    federation = next(random_federations(5, 1, n_agents=4, harm=False))
    stage = Stage(federation, tmp_path, faults={2: only(action, fault)}, run_config={"samples-per-unit": 1e3})
    stage.conduct()
    assert last(stage, "failed")["agents"].keys() == {"agent 2"}
    found = check_record(stage.ledger)
    assert found.deal is not None and list(found.deal.excluded) == ["agent 2"]
    assert_solved(found.deal, federation)
    assert found.failed == [] and kinds(stage)[-1] == "settled"


def other_model(model: list[np.ndarray], **metrics: int) -> Any:
    """A reply to a message to train that holds another model than it should."""

    def answer(message: Message, honest: Any) -> Message | None:
        reply = honest(message)
        reply.content["arrays"] = ArrayRecord(model)
        reply.content["metrics"] = MetricRecord(metrics or {"num-examples": 1})
        return reply

    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    some(
        [
            (other_model([np.array(1.0)], samples=3), 'must say "num-examples" once'),
            (other_model([np.array(1.0)], **{"num-examples": 10**9}), "it used 1e"),
            (other_model([np.array(1.0)], **{"num-examples": -1}), "a positive number"),
        ],
        2,
    ),
)
def test_models_that_would_spoil_the_others_are_named(fault: Any, reason: str, tmp_path: Path) -> None:
    federation = next(random_federations(5, 1, n_agents=4, harm=False))
    stage = Stage(federation, tmp_path, faults={2: only("train", fault)}, run_config={"samples-per-unit": 1e3})
    stage.conduct()
    assert reason in last(stage, "failed")["agents"]["agent 2"]
    found = check_record(stage.ledger)
    assert found.failed == [] and kinds(stage)[-1] == "settled"
    assert found.deal is not None and list(found.deal.excluded) == ["agent 2"]


def test_two_of_two_lost_is_a_named_error(tmp_path: Path) -> None:
    pair = fp.Federation([[1.0, 0.5], [0.8, 1.0]], costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
    stage = Stage(pair, tmp_path, faults=dict.fromkeys(range(2), only("train", silent)))
    with pytest.raises(Lost, match='"agent 0": no reply in time'):
        stage.conduct()
    assert kinds(stage)[-1] == "failed" and check_record(stage.ledger).failed == ["finished"]


def test_who_does_not_answer_after_training_is_paid_all_the_same(stage: Stage) -> None:
    stage.faults[0] = lambda message, honest: None if kind_of(message) in ("evaluate", "settle") else honest(message)
    stage.conduct()
    assert last(stage, "measured")["accuracies"]["agent 0"] == {"accuracy": None, "reason": "no reply in time"}
    assert sorted(last(stage, "settled")["signatures"]) == ["agent 1", "agent 2"]
    assert last(stage, "settled")["cents"]["agent 0"] < 0


def test_a_refusal_ends_in_the_ledger_and_not_in_money(stage: Stage) -> None:
    stage.node_config[1] = {"least-gain": 0.5}
    with pytest.raises(fp.InvalidInput, match='"agent 1" does not sign the deal: least gain'):
        stage.conduct()
    assert kinds(stage) == ["begun", "keys", "agreed", "failed"]
    assert last(stage, "failed")["agents"] == {"agent 1": "least gain: it asks for more"}


def test_a_gain_that_is_there_is_signed(stage: Stage) -> None:
    stage.node_config[1] = {"least-gain": 0.03}  # it gains 0.0323
    stage.node_config[2] = {"least-gain": "none"}
    stage.conduct()
    claims = {name: entry["claims"] for name, entry in last(stage, "signed")["signatures"].items()}
    assert "least gain" in claims["agent 1"] and "least gain" in claims["agent 0"]
    assert "least gain" not in claims["agent 2"]


def test_a_node_signs_with_its_own_unit_only(stage: Stage) -> None:
    stage.node_config[1] = {"samples-per-unit": 2.0}
    with pytest.raises(fp.InvalidInput, match=r"samples_per_unit must be 2, got 1\.0"):
        stage.conduct()


def test_whatever_is_asked_a_node_keeps_to_what_it_signed(stage: Stage) -> None:
    """More than agreed it does not give, and less it does not deliver on somebody's wish."""
    node, greet, sign, train = _asked_again(stage)
    Pulling.used.clear()
    for asked in (10**6, 16, 3):
        assert node.handle(greet).has_content() and node.handle(sign).has_content()
        train.content[RECORD] = ConfigRecord({**train.content[RECORD], "agreed": [asked] * 3})
        reply = node.handle(train)
        assert reply is not None and reply.has_content()
    assert Pulling.used == [(0, 16)] * 3


def test_a_node_does_not_train_before_it_has_seen_that_all_have_signed(stage: Stage) -> None:
    node, greet, sign, train = _asked_again(stage)
    for message in (greet, sign):
        assert "not signed any deal" in (node.handle(train).error.reason or "")
        assert node.handle(message).has_content()
    seal = train.content[RECORD].pop("seal")
    assert "not seen everybody's signature" in (node.handle(train).error.reason or "")
    train.content[RECORD]["seal"] = seal
    assert node.handle(train).has_content()


@pytest.mark.parametrize(
    ("action", "fault"),
    [("negotiate", half_an_error), ("sign", half_a_reason), ("sign", half_a_claim), ("settle", half_a_reason)],
)
def test_a_text_that_no_file_can_hold_is_its_members_fault_alone(
    stage: Stage, action: str, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage.faults[1] = only(action, fault)
    stage.conduct()
    assert kinds(stage)[-1] == "settled"
    said = caplog.text + str(last(stage, "agreed")["deal"]["excluded"])
    assert "agent 1" in said and "sends a text that is not UTF-8" in said


def header(described: str) -> bytes:
    """A model's array: NumPy's header alone."""
    text = described.ljust(118).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "sent",
    [
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"),
        header("[" * 118),
        header("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        b"PK\x03\x04",
    ],
    ids=["huge", "brackets", "no size", "no archive"],
)
def test_a_model_that_cannot_be_read_is_its_members_fault_alone(stage: Stage, sent: bytes) -> None:
    def fault(message: Message, honest: Any) -> Message | None:
        reply = honest(message)
        array = Array(dtype="float64", shape=(), stype="numpy.ndarray", data=sent)
        reply.content["arrays"] = ArrayRecord(dict.fromkeys(reply.content["arrays"], array))
        return reply

    stage.faults[1] = only("train", fault)
    stage.conduct()
    failed = last(stage, "failed")
    assert list(failed["agents"]) == ["agent 1"] and "an array that cannot be read" in failed["agents"]["agent 1"]
    assert kinds(stage)[-1] == "settled"


def _train_message(train: Message, number: int) -> Message:
    """The message to train, of another round."""
    other = copy.copy(train)
    config = ConfigRecord({**train.content["config"], "server-round": number})
    other.content = RecordDict({**train.content, "config": config})
    return other


def test_a_node_trains_in_the_rounds_of_the_deal_alone_and_in_each_once(stage: Stage) -> None:
    """Until the deal is put to it again: a server that was stopped in training begins anew."""
    node, greet, sign, train = _asked_again(stage)
    for _ in range(2):
        assert node.handle(greet).has_content() and node.handle(sign).has_content()
        for number in (-1, 0, 3, 99):
            reason = node.handle(_train_message(train, number)).error.reason or ""
            assert f"the deal is of rounds 1 to 2, and this is round {number}" in reason
        for number in (1, 2):
            assert node.handle(_train_message(train, number)).has_content()
            assert "is asked for round 1 again" in (node.handle(_train_message(train, 1)).error.reason or "")


def test_a_node_that_has_measured_does_not_train_any_more(stage: Stage) -> None:
    grid = stage.grid()
    stage.conduct(grid)
    sign, train = (next(m for m in grid.seen if _is_to_first(m, action)) for action in ("sign", "train"))
    node = grid.nodes[FIRST_NODE]
    assert node.handle(sign).has_content()
    assert "training comes to, which is over" in (node.handle(train).error.reason or "")


def test_a_message_that_claims_many_models_is_refused_before_they_are_counted(stage: Stage) -> None:
    claims = ConfigRecord({"models": 10**18, "conventions": ["arrays", "config", ""]})
    message = Message(RecordDict({RECORD: claims}), FIRST_NODE, "evaluate", ttl=5.0)
    grid = stage.grid()
    (reply,) = grid.pull_messages(list(grid.push_messages([message])))
    assert "must hold as many records of arrays" in (reply.error.reason or "")


@pytest.mark.parametrize("run", ["a/b", "\0x", "../" * 4, "", "A" * 64, "0" * 65])
def test_a_run_is_named_by_the_digits_of_a_hash(stage: Stage, run: str) -> None:
    """Receipts are files of that name."""
    grid = stage.grid()
    asked = {"run": run, "agents": list(stage.federation.names)}
    replies = exchange(grid, {0: question(FIRST_NODE, "greet", asked, timeout=1.0)}, timeout=1.0)
    assert "a roll call must name the run, by 64 hexadecimal digits" in (replies[0].error.reason or "")


def test_a_node_that_was_called_to_no_run_signs_nothing(stage: Stage) -> None:
    node, _, sign, _ = _asked_again(stage)
    asked = read_message(sign)
    asked["document"].pop("run")
    for document in (asked["document"], {**asked["document"], "run": None}, {**asked["document"], "run": ""}):
        sign.content[RECORD]["json"] = json.dumps(asked | {"document": document})
        assert "run: the deal is of another run" in read_message(node.handle(sign))["reason"]


def test_a_receipt_that_cannot_be_written_is_for_the_nodes_own_log(stage: Stage) -> None:
    node, greet, sign, _ = _asked_again(stage)
    (stage.folder / "agents" / "0-record").write_text("no folder")
    assert node.handle(greet).has_content()
    reason = node.handle(sign).error.reason or ""
    assert reason == "its receipt cannot be written; the node's own log says why"


def _asked_again(stage: Stage) -> tuple[Node, Message, Message, Message]:
    """The first node, of which nothing is left of a run but its key, and what it was asked in that."""
    grid = stage.grid()
    stage.conduct(grid)
    shutil.rmtree(stage.folder / "agents" / "0-record")
    asked = [next(m for m in grid.seen if _is_to_first(m, action)) for action in ("greet", "sign", "train")]
    return stage.grid().nodes[FIRST_NODE], *asked


def _is_to_first(message: Message, action: str) -> bool:
    return kind_of(message) == action and message.metadata.dst_node_id == FIRST_NODE


def _messages(stage: Stage, action: str) -> list[Message]:
    """The messages of a run of its own to the first node."""
    other = Stage(stage.federation, stage.folder / action)
    grid = other.grid()
    other.conduct(grid)
    return [
        message for message in grid.seen if kind_of(message) == action and message.metadata.dst_node_id == FIRST_NODE
    ]


def test_wrong_cents_are_disputed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_two(message: Message, honest: Any) -> Message | None:
        if kind_of(message) == "settle":
            asked = read_message(message)
            cents = asked["cents"] | {"agent 2": 3, "agent 1": -3 - asked["cents"]["agent 0"]}
            message.content[RECORD] = ConfigRecord({"json": json.dumps(asked | {"cents": cents})})
        return honest(message)

    stage.faults[2] = off_by_two
    with pytest.raises(fp.InvalidInput, match='"agent 2" disputes it: 3 cents are not the 1309475'):
        stage.conduct()
    assert kinds(stage)[-2:] == ["measured", "failed"]
    stage.faults.clear()
    stage.conduct()  # the deal stands, and is settled without training anew
    assert kinds(stage).count("trained") == 1 and kinds(stage)[-1] == "settled"


def test_nothing_private_reaches_the_coordinator(stage: Stage) -> None:
    """Rows appear up to a factor only, and nobody is told another's prices."""
    stage.conduct()
    deal = check_record(stage.ledger).deal
    assert deal is not None
    for message in _messages(stage, "sign"):
        said = read_message(message)
        assert said["prices"] == deal.prices[0].tolist() and said["document"]["payments"] == deal.payments.tolist()
        assert "weights" not in said and str(deal.prices[1, 0]) not in json.dumps(said)
    answers = (stage.ledger.parent / "negotiation-1.jsonl").read_text()
    assert "weights" not in answers and read_transcript(stage.ledger.parent / "negotiation-1.jsonl").deal is not None


@pytest.mark.parametrize(
    ("mechanism", "protocol"), [("externality", "sums"), ("shapley", "sums"), ("shapley", "price-discovery")]
)
def test_deals_without_named_prices_are_signed_and_carried_out(stage: Stage, mechanism: str, protocol: str) -> None:
    """Nodes keep what their masks are made from; those of an Externality deal check its prices from their own row."""
    stage.conduct(mechanism=mechanism, protocol=protocol)
    assert kinds(stage)[-1] == "settled"
    agreed = last(stage, "agreed")["deal"]
    assert agreed["mechanism"] == mechanism and not agreed.get("prices")
    rules = {"externality": fp.ExternalityMechanism(), "shapley": fp.ShapleyMechanism()}[mechanism]
    solved = rules.solve(stage.federation)
    size = float(np.abs(solved.payoffs).sum() + solved.costs.sum())
    np.testing.assert_allclose(agreed["payments"], solved.payments, atol=10 * SAME * size)
    claims = last(stage, "signed")["signatures"][agreed["agents"][0]]["claims"]
    assert ("own contribution" in claims) == (mechanism == "externality")
    assert not check_record(stage.ledger).failed

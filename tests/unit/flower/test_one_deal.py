"""A coordinator that shows every member another deal: each signs what it was shown, and finds it before it trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedpact.deals.ledger import AGREED, KEYS, VERSION, Entry
from fedpact.deals.signatures import deal_document, new_signing_key, prices_digest, read_signing_key
from fedpact.flower.messages import question, read_message
from fedpact.mechanisms import ExternalityMechanism
from fedpact.negotiation import Agent
from fedpact.negotiation.check import check_ledger
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Stage, kind_of

FEDERATION = example("paper-w2").federation
SOLVED = ExternalityMechanism().solve(FEDERATION)
NAMES = list(FEDERATION.names)
RUN, HEAD = "1" * 64, "2" * 64
HEADER = {
    "ledger": VERSION,
    "scenario": "",
    "rounds": 1,
    "samples_per_unit": 1.0,
    "currency": "EUR",
    "per_payoff": 1e6,
    "decimals": 2,
}


def entry(seq: int, kind: str, content: dict[str, Any]) -> Entry:
    return Entry(seq=seq, time="", kind=kind, content=content, previous="", hash=HEAD if seq else RUN)


def entries_of_deal(keys: dict[str, Any], deal: dict[str, Any]) -> list[Entry]:
    return [entry(0, "begun", HEADER), entry(1, KEYS, {"run": RUN, "keys": keys}), entry(2, AGREED, {"deal": deal})]


class Coordinator:
    """One that says to nodes what it likes."""

    def __init__(self, stage: Stage) -> None:
        self.grid: InProcessGrid = stage.grid()
        greetings = [self.ask(place, "greet", {"run": RUN}) for place in range(3)]
        self.keys = {said["name"]: said["key"] for said in greetings}

    def ask(self, place: int, action: str, content: dict[str, Any]) -> dict[str, Any]:
        return read_message(self.send(place, question(FIRST_NODE + place, action, content, timeout=1.0)))

    def send(self, place: int, message: Message) -> Message:
        (reply,) = self.grid.send_and_receive([message])
        return reply

    def train(self, place: int, signatures: Any) -> Message:
        """With the signatures that the node is to take for everybody's."""
        terms = {} if signatures is None else {"seal": json.dumps(signatures)}
        content = {"arrays": ArrayRecord([np.zeros(())]), "config": ConfigRecord({"server-round": 1})}
        content["fedpact"] = ConfigRecord(terms)
        return self.send(place, Message(RecordDict(content), FIRST_NODE + place, "train"))

    def part(self, place: int, less: float = 0.0, **changed: Any) -> dict[str, Any]:
        """The deal as a member is shown it: the others give less, and its own part of that follows."""
        profile = SOLVED.contributions * np.where(np.arange(3) == place, 1.0, 1.0 - less)
        agent = Agent.of(FEDERATION, place)
        said = agent.answer({"number": 0, "kind": "prices", "contributions": profile.tolist()})
        prices = np.array(said["tasks"][0]["prices"])
        prices[place] -= said["lots"][0]["marginal_cost"]
        payments = SOLVED.payments.copy()
        payments[place] = -(prices @ profile)
        payments[(place + 1) % 3] -= payments.sum()  # who pays for it the others are not shown
        rows = [[0.0] * 3] * 3
        deal = {"mechanism": "externality", "agents": NAMES, "excluded": {}, "prices": rows}
        deal |= {"contributions": profile.tolist(), "payments": payments.tolist()}
        keys = {name: {"key": key} for name, key in self.keys.items()}
        entries = entries_of_deal(keys, deal)
        document = deal_document(entries, entries[-1]) | changed
        document["prices"] = [prices_digest(prices.tolist() if row == place else []) for row in range(3)]
        return {"document": document, "place": place, "prices": prices.tolist(), "utility": None}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(FEDERATION, tmp_path)


@pytest.mark.parametrize("less", [0.0, 0.1])
def test_every_member_finds_that_others_were_shown_another_deal(stage: Stage, less: float) -> None:
    """Also where only what others are paid differs, which no member can check by itself."""
    coordinator = Coordinator(stage)
    answers = [coordinator.ask(place, "sign", coordinator.part(place, less)) for place in range(3)]
    assert all(answer["signed"] for answer in answers), answers
    shown = {name: answer["signature"] for name, answer in zip(NAMES, answers, strict=True)}
    for place in range(3):
        reason = coordinator.train(place, shown).error.reason or ""
        assert "not seen everybody's signature" in reason and "members were shown different ones" in reason


@pytest.mark.parametrize("shown", [{}, None, {"agent 0": ""}, {"agent 0": True}, {"agent 0": "00"}])
def test_signatures_that_are_none(stage: Stage, shown: Any) -> None:
    coordinator = Coordinator(stage)
    assert coordinator.ask(1, "sign", coordinator.part(1))["signed"]
    assert "not seen everybody's signature" in (coordinator.train(1, shown).error.reason or "")


def test_one_deal_for_all_is_trained_under(stage: Stage) -> None:
    """The attack above fails for its split view alone: the same coordinator with one document goes through."""
    coordinator = Coordinator(stage)
    honest = stage.grid()
    stage.conduct(honest)
    signs = [read_message(m) for m in honest.seen if kind_of(m) == "sign"]
    document = signs[0]["document"] | {"run": RUN}
    answers = [coordinator.ask(place, "sign", signs[place] | {"document": document}) for place in range(3)]
    shown = {name: answer["signature"] for name, answer in zip(NAMES, answers, strict=True)}
    assert all(coordinator.train(place, shown).has_content() for place in range(3))


def test_a_coordinator_that_signs_for_others_is_found_by_who_knows_their_keys(stage: Stage, tmp_path: Path) -> None:
    """Whoever does not know them cannot tell; `keys` in a node's configuration is what it takes."""
    coordinator = Coordinator(stage)
    forged = {name: new_signing_key() for name in NAMES[1:]}
    coordinator.keys |= {name: key.public for name, key in forged.items()}
    part = coordinator.part(0, 0.1)
    answer = coordinator.ask(0, "sign", part)
    shown = {name: key.sign(part["document"]) for name, key in forged.items()} | {NAMES[0]: answer["signature"]}
    assert coordinator.train(0, shown).has_content()
    assert "keys" not in answer["claims"]
    stage.node_config[0] = {"keys": str(tmp_path / "agents")}
    careful = Coordinator(stage)
    assert "keys" in careful.ask(0, "sign", careful.part(0))["claims"]
    swapped = careful.keys | {NAMES[1]: careful.keys[NAMES[2]], NAMES[2]: careful.keys[NAMES[1]]}
    honest, careful.keys = careful.keys, swapped  # members that sign as each other
    said = careful.ask(0, "sign", careful.part(0))
    assert said["signed"] is False and said["reason"] == 'keys: of "agent 1": this node knows another key of it'
    careful.keys = honest | {name: key.public for name, key in forged.items()}
    said = careful.ask(0, "sign", careful.part(0, 0.1))
    assert said["signed"] is False and said["reason"] == 'keys: of "agent 1": this node knows another key of it'


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"run": "3" * 64}, "run: the deal is of another run"),
        ({"payments": [0.0, 0.0, 1.0]}, "payment"),
        ({"side_payments": [0.0, 1.0, 0.0]}, "balance: side payments"),
        ({"keys": {}}, "keys: the deal must hold the key of every member"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"samples_per_unit": 2.0}, "samples_per_unit"),
        ({"about": "settlement"}, "no deal to sign"),
        ({"excluded": ["agent 2"], "contributions": [1.0, 1.0, 0.0]}, "payment|prices|contributions"),
    ],
)
def test_documents_that_are_not_signed(stage: Stage, changed: dict[str, Any], reason: str) -> None:
    coordinator = Coordinator(stage)
    said = coordinator.ask(0, "sign", coordinator.part(0, **changed))
    assert said["signed"] is False
    assert any(each in said["reason"] for each in reason.split("|")), said["reason"]


def test_payments_that_do_not_balance_are_not_signed(stage: Stage) -> None:
    coordinator = Coordinator(stage)
    part = coordinator.part(0)
    part["document"]["payments"][1] += 1e-4
    assert coordinator.ask(0, "sign", part)["reason"].startswith("balance: payments must sum to zero")


def test_keys_that_are_not_the_members(stage: Stage) -> None:
    coordinator = Coordinator(stage)
    own = dict(coordinator.keys)
    for keys, reason in (
        (own | {"agent 0": own["agent 1"]}, "not its own"),
        (own | {"agent 1": own["agent 2"]}, "two members have the same key"),
        (own | {"agent 1": "ssh-rsa AAAA"}, "must be an ECDSA key"),
    ):
        coordinator.keys = keys
        said = coordinator.ask(0, "sign", coordinator.part(0))
        assert said["signed"] is False and reason in said["reason"]


def test_prices_that_are_not_those_of_the_deal(stage: Stage) -> None:
    coordinator = Coordinator(stage)
    part = coordinator.part(0)
    part["document"]["prices"][0] = prices_digest([1.0, 2.0, 3.0])
    assert "prices: this node's are not those of the deal" in coordinator.ask(0, "sign", part)["reason"]


@pytest.mark.slow
def test_keys_stay_those_of_the_start(stage: Stage) -> None:
    """A server that is started again knows its members by the keys in its ledger."""
    stage.conduct()
    record = stage.ledger.parent
    (record / "ledger.jsonl").write_bytes(b"".join((record / "ledger.jsonl").read_bytes().splitlines(True)[:3]))
    (stage.folder / "agents" / "1.key").unlink()
    (stage.folder / "agents" / "1.key.pub").unlink()
    grid = stage.grid()
    stage.conduct(grid)  # agent 1 has another key now: it has no seat, and the others agree without it
    found = check_ledger(stage.ledger)
    assert found.failed == [] and found.deal is not None and list(found.deal.excluded) == ["agent 1"]
    assert read_signing_key(stage.folder / "agents" / "1.key").public not in stage.ledger.read_text()

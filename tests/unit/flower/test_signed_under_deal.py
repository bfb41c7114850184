"""Strategies under a deal that members sign: users' apps in one process, and what an auditor finds in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

import fedpact as fp
from fedpact.deals.ledger import read_ledger
from fedpact.deals.signatures import read_known_keys, write_signing_key
from fedpact.flower import Lost, UnderDeal
from fedpact.negotiation import agents_of
from fedpact.negotiation.agent_file import save_agent
from fedpact.negotiation.check import check_ledger
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Killed
from unit.flower.test_signed_ledger import content, entries_of
from unit.flower.test_under_deal import grid_of, three, users_app

FEDERATION = example("paper-w2").federation
DEAL = fp.ExternalityMechanism().solve(FEDERATION).deal


def start(grid: InProcessGrid, ledger: Path, deal: fp.Deal = DEAL, **more: Any) -> UnderDeal:
    given = {"samples_per_unit": 1.0, "money": fp.Money("EUR", 1000.0)} | more
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), deal, ledger=ledger, **given)
    under.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2, timeout=1.0)
    return under


@pytest.mark.parametrize(("about", "count"), [("delivery", 1), ("settlement", 1), ("accuracy", 2)])
def test_a_measurement_is_signed_as_nothing_else(tmp_path: Path, about: str, count: int) -> None:
    """A coordinator that asks for a measurement could have it stand for a delivery."""
    grid = three()
    start(grid, tmp_path / "ledger.jsonl")
    models = {f"model-{place}": ArrayRecord([np.zeros(1)]) for place in range(count)}
    record = ConfigRecord({"models": count, "about": about, "head": "0" * 64})
    asked = Message(RecordDict({**models, "fedpact": record}), FIRST_NODE, "evaluate")
    (reply,) = grid.send_and_receive([asked])
    assert reply.has_error() and "signs what it measures" in reply.error.reason


def test_everything_is_signed_with_keys_made_for_the_run(tmp_path: Path) -> None:
    under = start(three(), tmp_path / "ledger.jsonl")
    found = check_ledger(tmp_path / "ledger.jsonl", must_be_signed=True)
    assert found.failed == []
    assert found.chain.entries[0].content["scenario"] == FEDERATION.fingerprint  # members sign it with the deal
    held = {claim for claim, finding in found.findings.items() if finding.holds}
    assert {"chain", "keys", "order", "signed", "delivered", "measured", "confirmed", "settlement", "model"} <= held
    about = {(part.about, part.name) for part in found.signed_parts}
    assert about == {
        (what, name)
        for what in ("key", "deal", "statement", "delivery", "accuracy", "settlement")
        for name in FEDERATION.names
    }
    assert all(part.holds for part in found.signed_parts)
    assert under.settlement is not None and sum(under.settlement.cents) == 0
    assert under.accuracies["agent 0"]["accuracy"] == 0.5
    assert set(under.samples) == set(FEDERATION.names) and all(len(used) == 2 for used in under.samples.values())


def test_keys_that_are_known_and_receipts_that_nodes_keep(tmp_path: Path) -> None:
    """Nodes with private files, keys of their own and the others' public keys check and sign everything."""
    configs = []
    for place, agent in enumerate(agents_of(FEDERATION)):
        save_agent(agent, tmp_path / f"{place}.json")
        write_signing_key(tmp_path / f"{place}.key", name=agent.name)
        configs.append({"agent": str(tmp_path / f"{place}.json"), "keys": str(tmp_path)})
    start(grid_of(*configs), tmp_path / "ledger.jsonl")
    receipts = [tmp_path / f"{place}-record" / "receipt.json" for place in range(3)]
    known = read_known_keys(tmp_path)
    found = check_ledger(tmp_path / "ledger.jsonl", keys=known, receipts=receipts)
    assert found.failed == []
    claims = found.chain.entries[3].content["signatures"]["agent 1"]["claims"]
    assert {"payment", "prices", "least gain", "balance", "keys"} <= set(claims)


def test_what_is_not_signed_does_not_count(tmp_path: Path) -> None:
    grid = three()

    def resend(message: Message, honest: Callable[[Message], Message]) -> Message:
        reply = honest(message)
        if message.content.array_records and reply.content.array_records:
            reply.content["arrays"] = ArrayRecord([np.full(1, 7.0)])  # not the update that was signed
        return reply

    grid.nodes[FIRST_NODE + 2].fault = resend
    with pytest.raises(Lost, match='"agent 2": it has not signed what it delivers'):
        start(grid, tmp_path / "ledger.jsonl")
    chain = read_ledger(tmp_path / "ledger.jsonl")
    assert chain.entries[-1].kind == "failed"
    assert set(chain.entries[-1].content["deliveries"]) == {"agent 0", "agent 1"}
    assert check_ledger(tmp_path / "ledger.jsonl", must_be_signed=True).failed == ["finished"]


def test_apps_without_the_mod_cannot_sign(tmp_path: Path) -> None:
    grid = grid_of({}, {}, {})
    grid.nodes[FIRST_NODE + 1].app = users_app(mods=[])
    with pytest.raises(fp.InvalidInput, match=r"not all members can sign: agent 1 cannot .*keep_deal"):
        start(grid, tmp_path / "ledger.jsonl")


def dies_in_round(number: int) -> Callable[..., Message | None]:
    """A node that is there until it is to train in this round, and never again."""
    dead: list[bool] = []

    def fault(message: Message, honest: Callable[[Message], Message]) -> Message | None:
        if "config" in message.content and message.content["config"].get("server-round") == number:
            dead.append(True)
        return None if dead else honest(message)

    return fault


FOUR = fp.Federation(
    [[1.0, 0.8, 0.5, 0.3], [0.8, 1.0, 0.6, 0.4], [0.7, 0.5, 1.0, 0.2], [0.3, 0.6, 0.4, 1.0]],
    costs=0.001,
    caps=[20.0, 12.0, 16.0, 18.0],  # which all of them bring
    payoff=fp.PowerLaw(beta=0.3),
    names=tuple("ABCD"),
)


@pytest.mark.parametrize("number", [1, 2])
def test_with_its_mechanism_a_run_goes_on_without_who_is_lost(number: int, tmp_path: Path) -> None:
    """The others sign, train and settle under the deal that the mechanism makes for them."""
    grid = grid_of({}, {}, {}, {})
    grid.nodes[FIRST_NODE + 1].fault = dies_in_round(number)
    path, outcome = tmp_path / "ledger.jsonl", fp.ExternalityMechanism().solve(FOUR)
    under = UnderDeal(FedAvg(fraction_evaluate=0.0), outcome, ledger=path, verify_subsets=7)
    under.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2, timeout=0.3)
    found = check_ledger(path, must_be_signed=True)
    assert found.failed == [] and found.is_finished
    assert dict(under.deal.excluded) == {"B": "no reply in time"} and under.settlement is not None
    kinds = [entry.kind for entry in found.chain.entries]
    assert kinds.count("agreed") == 2 and kinds.count("trained") == 1
    lost = content(entries_of(path), "failed")
    assert list(lost["agents"]) == ["B"] and set(lost["deliveries"]) == {"A", "C", "D"} | (
        {"B"} if number > 1 else set()
    )
    rest = fp.ExternalityMechanism().solve(FOUR.take([0, 2, 3]))
    np.testing.assert_allclose(under.deal.contributions[[0, 2, 3]], rest.contributions)
    assert under.samples.keys() == {"A", "C", "D"} and all(len(used) == 2 for used in under.samples.values())


def test_an_interrupted_run_goes_on_under_the_deal_of_who_is_left(tmp_path: Path) -> None:
    path, outcome = tmp_path / "ledger.jsonl", fp.ExternalityMechanism().solve(FOUR)

    def begin(grid: InProcessGrid) -> UnderDeal:
        under = UnderDeal(FedAvg(fraction_evaluate=0.0), outcome, ledger=path)
        under.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=2, timeout=0.3)
        return under

    grid = grid_of({}, {}, {}, {})
    grid.nodes[FIRST_NODE + 1].fault = dies_in_round(1)
    grid.killed_at = 5
    with pytest.raises(Killed):
        begin(grid)
    grid.killed_at = None
    assert list(begin(grid).deal.excluded) == ["B"]
    assert check_ledger(path, must_be_signed=True).failed == []

"""Whole runs between real apps in one process: lots, and sums with nodes that fail, lie or have keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message

import fedpact as fp
from fedpact.deals.signatures import write_signing_key
from fedpact.flower.messages import RECORD, read_message, reply_with
from fedpact.negotiation import agents_of, masks
from fedpact.negotiation.agent_file import save_agent
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from unit.flower.in_process import Stage
from unit.flower.test_run import kinds, nonsense, only, silent

SAME = 1e-6  # of payoffs and costs: payments agree


def test_members_with_several_lots_agree_and_are_told_that_nodes_do_not_train_with_them(tmp_path: Path) -> None:
    """The negotiation is on record and can be settled; what nodes do after it knows one lot per member."""
    federation = example("hospitals-lots").federation
    stage = Stage(federation, tmp_path)
    with pytest.raises(fp.InvalidInput, match=r"one lot of data each.*fedpact settle SCENARIO"):
        stage.conduct()
    deal = fp.load_deal(next(tmp_path.rglob("negotiation-*.jsonl")))
    solved = fp.ExternalityMechanism().solve(federation)
    np.testing.assert_allclose(deal.payments, solved.payments, atol=SAME)


def unmasked(message: Message, honest: Any) -> Message | None:
    """Masks of another key: what it adds and subtracts cancels with nothing."""
    reply = honest(message)
    said = {} if reply.has_error() else read_message(reply)
    if "masked" not in said:
        return reply
    changed = said | {
        "masked": masks.encode(-masks.decode(said["masked"], len(said["masked"]) * 3 // 64) % masks.MODULUS)
    }
    return reply_with(message, changed)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (silent, "no answer in time"),
        (nonsense, "valid JSON"),
    ],
)
def test_in_sums_a_node_that_fails_is_excluded_by_name(fault: Any, reason: str, tmp_path: Path) -> None:
    federation = example("hospitals").federation
    stage = Stage(federation, tmp_path, faults={1: only("negotiate", fault)})
    stage.conduct(protocol="sums")
    found = check_record(stage.ledger)
    assert found.deal is not None and reason in found.deal.excluded[federation.names[1]]
    assert len(found.deal.excluded) == 1 and float(found.deal.payments.sum()) == 0.0
    assert found.failed == [] and found.entries.get("settled") is not None


def test_sums_that_contradict_themselves_end_the_run_with_what_to_do(tmp_path: Path) -> None:
    stage = Stage(example("hospitals").federation, tmp_path, faults={1: only("negotiate", unmasked)})
    with pytest.raises(fp.NotConverged, match=r"the masks do not cancel.*nobody can be named.*price-discovery"):
        stage.conduct(protocol="sums")
    assert kinds(stage)[-1] == "failed"


def keys_by_name(federation: fp.Federation, folder: Path) -> dict[int, dict[str, Any]]:
    """Nodes that name no key of their own, so that it is the one beside their private file; comments say whose."""
    folder.mkdir()
    for agent in agents_of(federation):
        save_agent(agent, folder / f"{agent.index}.json")
        write_signing_key(folder / f"{agent.index}.key", name=agent.name)
    return {
        place: {"agent": str(folder / f"{place}.json"), "keys": str(folder)} for place in range(federation.n_agents)
    }


@pytest.mark.slow
def test_nodes_with_keys_sum_with_members_whose_keys_they_know(tmp_path: Path) -> None:
    """Keys are signed with the nodes' own; a coordinator that hands out others is told by everybody."""
    federation = example("hospitals").federation
    config = keys_by_name(federation, tmp_path / "keys")
    stage = Stage(federation, tmp_path / "signed", node_config=config)
    stage.conduct(protocol="sums")
    assert kinds(stage)[-1] == "settled" and not check_record(stage.ledger).deal.excluded

    def in_the_middle(message: Message, honest: Any) -> Message | None:
        asked = read_message(message)
        if asked.get("kind") == "sums":
            keys = [masks.public_key(bytes([place + 1]) * 32) for place in range(len(asked["keys"]))]
            keys[1] = asked["keys"][1]
            message.content[RECORD] = ConfigRecord({"json": json.dumps(asked | {"keys": keys})})
        return honest(message)

    listened = Stage(federation, tmp_path / "heard", node_config=config, faults={1: only("negotiate", in_the_middle)})
    with pytest.raises(fp.NotConverged, match=r"City: .*is not signed by it: somebody may listen.*begin another"):
        listened.conduct(protocol="sums")


def test_a_node_that_does_not_know_everybody_s_key_says_whose_it_misses(tmp_path: Path) -> None:
    federation = example("hospitals").federation
    config = keys_by_name(federation, tmp_path / "keys")
    (tmp_path / "few").mkdir()
    for place in (0, 1, 2, 3):
        shutil.copy(tmp_path / "keys" / f"{place}.key.pub", tmp_path / "few")
    config[0]["keys"] = str(tmp_path / "few")
    stage = Stage(federation, tmp_path / "run", node_config=config)
    with pytest.raises(fp.NotConverged, match=r'University: .*"Clinic" is not among the members whose signing keys'):
        stage.conduct(protocol="sums")

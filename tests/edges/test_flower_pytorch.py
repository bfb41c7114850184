"""The PyTorch example, its real ServerApp and ClientApp, in one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

import fedpact as fp
from fedpact.deals.deal_file import outcome_record
from fedpact.negotiation.audit import audit
from fedpact.scenario.examples import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Node

pytest.importorskip("torch", reason="the example needs PyTorch, which is no dependency of fedpact")

APP = Path(__file__).parents[2] / "examples" / "flower-pytorch"


@pytest.mark.slow
def test_an_app_under_a_deal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(APP))
    from digits.client_app import app as client_app
    from digits.server_app import app as server_app

    deal = tmp_path / "deal.json"
    outcome = fp.ExternalityMechanism().solve(example("paper-w2").federation)
    deal.write_text(json.dumps(outcome_record(outcome)))
    run_config: dict[str, Any] = {
        "deal": str(deal),
        "ledger": str(tmp_path / "ledger.jsonl"),
        "samples-per-unit": 10.0,
        "num-server-rounds": 2,
    }

    def context(node: int, own: dict[str, Any]) -> Context:
        return Context(run_id=1, node_id=node, node_config=own, state=RecordDict(), run_config=run_config)

    nodes = {
        FIRST_NODE + place: Node(client_app, context(place, {"partition-id": place, "num-partitions": 3}))
        for place in range(3)
    }
    server_app(InProcessGrid(nodes), context(0, {}))
    found = audit(tmp_path / "ledger.jsonl")
    trained = found.last("trained")
    assert found.failed == [] and found.last("settled") is not None and trained is not None
    assert trained.content["samples"] == {"agent 0": [168, 168], "agent 1": [61, 61], "agent 2": [312, 312]}
    sys.modules.pop("digits", None)

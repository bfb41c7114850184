"""PyTorch apps in one process: the example's real ServerApp and ClientApp, and layers of batch normalisation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import fedpact as fp
from fedpact.deals.deal_file import outcome_record
from fedpact.flower import UnderDeal, agreed_samples, keep_deal
from fedpact.negotiation.check import check_ledger, check_record
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Node
from unit.flower.test_under_deal import grid_of

torch: Any = pytest.importorskip("torch", reason="the example needs PyTorch, which is no dependency of fedpact")

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
    found = check_record(tmp_path / "ledger.jsonl")
    trained = found.last("trained")
    assert found.failed == [] and found.last("settled") is not None and trained is not None
    assert trained.content["samples"] == {"agent 0": [168, 168], "agent 1": [61, 61], "agent 2": [312, 312]}
    sys.modules.pop("digits", None)


def network() -> Any:
    layers = torch.nn
    return layers.Sequential(layers.Linear(8, 16), layers.BatchNorm1d(16), layers.ReLU(), layers.Linear(16, 2))


def points(place: int) -> tuple[Any, Any]:
    made = torch.randn(400, 8, generator=torch.Generator().manual_seed(place))
    return made, (made.sum(dim=1) > 0).long()


def normalising_app() -> ClientApp:
    app = ClientApp(mods=[keep_deal])

    def load(message: Message) -> Any:
        model = network()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        return model

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model, (given, labels) = load(message), points(int(context.node_config["partition-id"]))
        samples = agreed_samples(message)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(given[:samples]), labels[:samples]).backward()
            optimiser.step()
        metrics = MetricRecord({"num-examples": samples})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        model, (given, labels) = load(message).eval(), points(int(context.node_config["partition-id"]))
        right = (model(given[200:]).argmax(dim=1) == labels[200:]).float().mean()
        metrics = MetricRecord({"accuracy": float(right), "num-examples": 200})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def test_batch_normalisation_signed_and_verified(tmp_path: Path) -> None:
    """Averaging makes floats of the layer's counter, and members return whole numbers: nobody is lost by that."""
    deal = fp.Deal(
        mechanism="externality",
        agents=tuple("ABCD"),
        contributions=np.array([50.0, 80.0, 30.0, 100.0]),
        payments=np.array([0.1, 0.2, -0.2, -0.1]),
    )
    under = UnderDeal(
        FedAvg(fraction_evaluate=0.0), deal, ledger=tmp_path / "ledger.jsonl", signed=True, verify_subsets=15
    )
    initial = ArrayRecord(network().state_dict())
    under.start(grid_of({}, {}, {}, {}, app=normalising_app()), initial, num_rounds=3, timeout=30.0)
    found = check_ledger(tmp_path / "ledger.jsonl", must_be_signed=True)
    assert found.failed == [] and found.findings["verified"].holds and found.findings["updates"].holds
    assert under.verified is not None and under.settlement is not None
    assert all(
        said["accuracy"] is not None for model in under.verified["models"] for said in model["accuracies"].values()
    )

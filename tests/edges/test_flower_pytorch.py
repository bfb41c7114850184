"""PyTorch apps in one process: the example's real ServerApp and ClientApp, and layers of batch normalisation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

import fedpact as fp
from edges.flower_processes import ASKING, Flower, running, wait_for
from fedpact.deals import read_ledger
from fedpact.deals.deal_file import outcome_record
from fedpact.negotiation.check import check_ledger, check_record
from fedpact.scenario import example
from unit.flower.in_process import FIRST_NODE, InProcessGrid, Node

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
    trained = found.entries.get("trained")
    assert found.failed == [] and found.entries.get("settled") is not None and trained is not None
    assert found.samples == {"agent 0": [168, 168], "agent 1": [61, 61], "agent 2": [312, 312]}
    sys.modules.pop("digits", None)


TASK = """import torch


def network():
    torch.manual_seed(0)
    layers = torch.nn
    return layers.Sequential(layers.Linear(8, 16), layers.BatchNorm1d(16), layers.ReLU(), layers.Linear(16, 2))


def points(place):
    made = torch.randn(400, 8, generator=torch.Generator().manual_seed(place))
    return made, (made.sum(dim=1) > 0).long()


def train(state, place, samples):
    model, (given, labels) = network(), points(place)
    model.load_state_dict(state)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(given[:samples]), labels[:samples]).backward()
        optimiser.step()
    return model.state_dict()


def score(state, place):
    model, (given, labels) = network().eval(), points(place)
    model.load_state_dict(state)
    return float((model(given[200:]).argmax(dim=1) == labels[200:]).float().mean())
"""
CLIENT = """import sys

from flwr.app import ArrayRecord, MetricRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from fedpact.flower import agreed_samples, keep_deal

app = ClientApp(mods=[keep_deal])


def own_place(context):
    return int(context.node_config["partition-id"])


@app.train()
def train(message, context):
    from bn import task

    samples = agreed_samples(message)
    state = task.train(message.content["arrays"].to_torch_state_dict(), own_place(context), samples)
    content = {"arrays": ArrayRecord(state), "metrics": MetricRecord({"num-examples": samples})}
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    from bn import task

    assert message.content["config"]["server-round"] == 2
    found = task.score(message.content["arrays"].to_torch_state_dict(), own_place(context))
    return Message(RecordDict({"metrics": MetricRecord({"f1": found, "num-examples": 200})}), reply_to=message)
"""
SERVER = """import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import fedpact as fp
from bn.task import network
from fedpact.flower import UnderDeal

app = ServerApp()
FEDERATION = fp.Federation(
    np.full((4, 4), 0.6) + 0.4 * np.eye(4), costs=0.001, caps=90.0, payoff=fp.PowerLaw(beta=0.3), names=list("ABCD")
)


@app.main()
def main(grid, context):
    outcome = fp.ExternalityMechanism().solve(FEDERATION)
    strategy = FedAvg(fraction_evaluate=0.0)
    under = UnderDeal(
        strategy, outcome, ledger=context.run_config["ledger"], verify_subsets=7, metric="f1"
    )
    under.start(grid, ArrayRecord(network().state_dict()), num_rounds=2, timeout=120.0)
"""
PROJECT = """[project]
name = "bn"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["bn"]

[tool.flwr.app]
publisher = "fedpact"

[tool.flwr.app.components]
serverapp = "bn.server_app:app"
clientapp = "bn.client_app:app"

[tool.flwr.app.config]
ledger = "ledger.jsonl"
"""


@pytest.mark.slow
@pytest.mark.deploy
def test_a_deployment_whose_node_is_killed_goes_on_without_it(tmp_path: Path) -> None:
    """A state_dict with batch normalisation, a score of another name, members that sign, and a member that dies."""
    app, ledger = tmp_path / "app", tmp_path / "ledger.jsonl"
    (app / "bn").mkdir(parents=True)
    for name, text in {"__init__": "", "task": TASK, "client_app": CLIENT, "server_app": SERVER}.items():
        (app / "bn" / f"{name}.py").write_text(text, encoding="utf-8")
    (app / "pyproject.toml").write_text(PROJECT, encoding="utf-8")

    def kinds() -> list[str]:
        return [entry.kind for entry in read_ledger(ledger).entries] if ledger.exists() else []

    with running(Flower(tmp_path / "flower")) as flower:
        flower.superlink("--insecure")
        nodes = [
            flower.supernode(
                f"node-{place}", f'agent-name="{name}" partition-id={place} num-partitions=4', "--insecure"
            )
            for place, name in enumerate("ABCD")
        ]
        wait_for("the nodes", lambda: flower.online() == 4, seconds=120, pause=ASKING)
        run = flower.run(app, "--run-config", f'ledger="{ledger}"')
        wait_for("the signatures", lambda: "signed" in kinds(), seconds=600)
        nodes[1].kill()
        assert flower.finished(run, seconds=900) == "finished:completed", kinds()
    found = check_ledger(ledger, must_be_signed=True)
    assert found.failed == [] and found.is_finished
    assert found.deal is not None and list(found.deal.excluded) == ["B"]
    assert found.findings["verified"].holds and found.findings["updates"].holds
    failed, settled, measured = (
        next(entry.content for entry in found.chain.entries if entry.kind == kind)
        for kind in ("failed", "settled", "measured")
    )
    assert list(failed["agents"]) == ["B"] and set(failed["deliveries"]) <= {"A", "C", "D"}
    assert sorted(settled["signatures"]) == ["A", "C", "D"] and settled["cents"]["B"] == 0
    assert all(said["accuracy"] is not None for said in measured["accuracies"].values())

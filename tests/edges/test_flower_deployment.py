"""A deployment on this machine: a SuperLink and SuperNodes as processes, with TLS and node authentication."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from edges.flower_processes import ASKING, Flower, Process, running, wait_for
from fedpact.deals import read_ledger
from fedpact.flower.keys import write_keys
from fedpact.flower.settings import write_app
from fedpact.negotiation.check import check_record
from fedpact.scenario import example

pytestmark = [pytest.mark.slow, pytest.mark.deploy]

SAME = 1e-6
PATIENT = 600.0  # seconds for a run, on a machine that has other things to do
AGENTS = 3


class Deployment:
    """Three organisations, each with a node, a private file and a key; and keys and certificates of strangers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, folder / "keys"
        write_keys(self.keys, host="127.0.0.1", nodes=AGENTS + 1)
        write_app(folder / "deal", example("paper-w2"), rounds=1, samples_per_unit=10.0)
        write_keys(folder / "forged", host="127.0.0.1", nodes=1)
        self.flower = Flower(folder / "flower", [f'root-certificates = "{self.keys / "ca.crt"}"'])
        self.nodes: dict[int, Process] = {}

    def superlink(self) -> Process:
        return self.flower.superlink(
            *("--ssl-ca-certfile", str(self.keys / "ca.crt"), "--ssl-certfile", str(self.keys / "server.crt")),
            *("--ssl-keyfile", str(self.keys / "server.key"), "--enable-supernode-auth"),
            *("--database", str(self.folder / "superlink.db")),
        )

    def start(self) -> None:
        self.link = self.superlink()
        for place in range(AGENTS):
            assert self.flower.flwr("supernode", "register", str(self.keys / f"node-{place}.key.pub"), "here")[
                "success"
            ]
            self.nodes[place] = self.node(f"node-{place}", place, self.keys / f"node-{place}.key")
        self.await_nodes()

    def await_nodes(self) -> None:
        wait_for("the nodes", lambda: self.flower.online() == AGENTS, seconds=120, pause=ASKING)

    def node(self, name: str, place: int, key: Path | None, *, root: str = "keys") -> Process:
        proof = ["--auth-supernode-private-key", str(key)] if key else []
        private, root_certificate = self.folder / "deal" / "agents" / f"{place}.json", self.folder / root / "ca.crt"
        return self.flower.supernode(name, f'agent="{private}"', "--root-certificates", str(root_certificate), *proof)

    def run(self, record: str, **more: Any) -> str:
        settings = {"record": f'"{self.folder / record}"', "timeout": 60.0, **more}
        given = " ".join(f"{key}={value}" for key, value in settings.items())
        return self.flower.run(self.folder / "deal" / "app", "--run-config", given)

    def ledger(self, record: str) -> Path:
        return self.folder / record / "ledger.jsonl"

    def exchanges(self, record: str) -> int:
        """How many rounds of the negotiation are on record."""
        path = self.folder / record / "negotiation-1.jsonl"
        return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("deployment"))
    with running(made.flower):
        made.start()
        yield made


def assert_solved(deal: Any, places: list[int]) -> None:
    federation = example("paper-w2").federation.take(places)
    solved = fp.ExternalityMechanism().solve(federation)
    np.testing.assert_allclose(deal.payments[places], solved.payments, atol=SAME)
    np.testing.assert_allclose(deal.contributions[places], solved.contributions, rtol=SAME)


def test_negotiate_train_and_settle_while_strangers_are_refused(deployment: Deployment) -> None:
    not_registered, forged = deployment.keys / f"node-{AGENTS}.key", deployment.folder / "forged" / "node-0.key"
    strangers = {
        deployment.node("unregistered", 0, not_registered): "Failed to activate SuperNode",
        deployment.node("wrong-key", 2, forged): "Failed to activate SuperNode",
        deployment.node("without-key", 1, None): "All SuperNodes must be registered",
        deployment.node("misled", 1, deployment.keys / "node-1.key", root="forged"): "CERTIFICATE_VERIFY_FAILED",
    }
    for stranger, reason in strangers.items():
        wait_for(f"refusing {stranger.name}", lambda it=stranger: it.ended, seconds=120)
        assert stranger.popen.returncode != 0 and reason in stranger.text
        stranger.kill()  # what it has started outlives it
    number = deployment.run("first")
    assert deployment.flower.finished(number, seconds=PATIENT) == "finished:completed"
    found = check_record(deployment.ledger("first"))
    assert all(finding.holds for finding in found.findings.values())
    assert found.deal is not None and found.deal.excluded == {}
    assert_solved(found.deal, [0, 1, 2])
    agreed, settled = found.entries.get("agreed"), found.entries.get("settled")
    assert agreed is not None and agreed.content["unseated"] == {}
    assert settled is not None and sorted(settled.content["signatures"]) == ["agent 0", "agent 1", "agent 2"]
    assert deployment.flower.online() == AGENTS


def test_the_server_killed_and_a_node_killed_in_mid_run(deployment: Deployment) -> None:
    """The server's machine dies in the negotiation and comes back; then a node is killed for good."""
    deployment.run("second")
    wait_for("the negotiation", lambda: deployment.exchanges("second") >= 2, seconds=PATIENT)
    deployment.link.kill()
    before = deployment.exchanges("second")
    stood = read_ledger(deployment.ledger("second")).entries
    assert [entry.kind for entry in stood] == ["begun", "keys"]
    deployment.link = deployment.superlink()
    deployment.await_nodes()
    number = deployment.run("second")
    wait_for("the negotiation", lambda: deployment.exchanges("second") > before, seconds=PATIENT)
    deployment.nodes[1].kill()
    status = deployment.flower.finished(number, seconds=PATIENT)
    chain = read_ledger(deployment.ledger("second"))
    assert chain.broken is None and chain.entries[: len(stood)] == stood
    found = check_record(deployment.ledger("second"))
    assert found.failed == []
    assert status == "finished:completed", chain.entries[-1]
    assert found.deal is not None and list(found.deal.excluded) == ["agent 1"]
    assert_solved(found.deal, [0, 2])
    assert [entry.kind for entry in chain.entries].count("settled") == 1

"""The app that `fedpact flower new` writes, in Flower's own simulation engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import Result
from edges.flower_processes import Flower, running
from fedpact.negotiation.audit import audit
from fedpact.scenario.examples import example
from fedpact.training import Experiment, Training, mnist

SAME = 1e-6


@pytest.mark.slow
def test_a_simulation_negotiates_trains_and_settles(tmp_path: Path, run: Callable[..., Result]) -> None:
    assert run("flower", "new", tmp_path / "deal", "paper-w2", "--samples-per-unit", 10, "--rounds", 2).code == 0
    with running(Flower(tmp_path / "flower")) as flower:
        flower.superlink("--insecure", "--simulation")
        number = flower.run(
            tmp_path / "deal" / "app", "--federation-config", "num-supernodes=3 client-resources-num-cpus=1"
        )
        assert flower.finished(number, seconds=300) == "finished:completed"
    ledger = tmp_path / "deal" / "record" / "ledger.jsonl"
    found = audit(ledger)
    assert all(finding.holds for finding in found.findings.values())
    solved = fp.ExternalityMechanism().solve(example("paper-w2").federation)
    assert found.deal is not None
    np.testing.assert_allclose(found.deal.payments, solved.payments, atol=SAME)
    np.testing.assert_allclose(found.deal.contributions, solved.contributions, rtol=SAME)
    measured, trained = found.last("measured"), found.last("trained")
    assert measured is not None and trained is not None
    agreed = list(trained.content["agreed"].values())
    assert agreed == [168, 61, 312]
    # What nodes measure is what the experiment of the same seed comes to.
    expected = Experiment(mnist(), n_agents=3, samples=1666, training=Training(rounds=2)).accuracies([agreed])[0]
    accuracies = [entry["accuracy"] for entry in measured.content["accuracies"].values()]
    np.testing.assert_allclose(accuracies, expected, atol=1.5 / 333)  # one test image either way
    checked = run("check", ledger)
    assert checked.code == 0 and "Every claim that can be checked holds." in checked.out

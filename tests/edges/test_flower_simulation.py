"""The app that `fedpact flower new` writes, in Flower's own simulation engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import Result
from edges.flower_processes import Flower, running
from fedpact.fitting.delivery import check_run
from fedpact.negotiation.check import check_record
from fedpact.scenario import example
from fedpact.training import Experiment, Training, mnist
from unit.flower.cheats import CEILING, EUROS, FLOOR, MEMBERS, TOGETHER, conduct_run

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
    found = check_record(ledger)
    assert all(finding.holds for finding in found.findings.values())
    solved = fp.ExternalityMechanism().solve(example("paper-w2").federation)
    assert found.deal is not None
    np.testing.assert_allclose(found.deal.payments, solved.payments, atol=SAME)
    np.testing.assert_allclose(found.deal.contributions, solved.contributions, rtol=SAME)
    measured, trained = found.entries.get("measured"), found.entries.get("trained")
    assert measured is not None and trained is not None
    agreed = list(found.deal.samples(10.0).values())
    assert agreed == [168, 61, 312]
    # What nodes measure is what the experiment of the same seed comes to.
    expected = Experiment(mnist(), n_agents=3, samples=1666, training=Training(rounds=2)).accuracies([agreed])[0]
    accuracies = [entry["accuracy"] for entry in measured.content["accuracies"].values()]
    np.testing.assert_allclose(accuracies, expected, atol=1.5 / 333)  # one test image either way
    checked = run("check", ledger)
    assert checked.code == 0 and "Every claim that can be checked holds." in checked.out


IMPORT_TESTS = f"""import sys

sys.path.insert(0, {str(Path(__file__).parents[1])!r})
"""
CHEATING_NODES = """from fedpact.flower import client_app
from unit.flower.cheats import TOGETHER, learner

cheats = TOGETHER["{name}"]
app = client_app(learner(0, updates=cheats.updates, reports=cheats.reports))
"""
PLAIN_SERVER = """import numpy as np

from fedpact.flower import server_app
from unit.flower.cheats import DIMENSIONS

app = server_app(lambda context: [np.zeros(DIMENSIONS)])
"""
SAME_MONEY = 1000  # cents: the order of the models differs, and moves shares by rounding


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_cheats_come_to_in_a_simulation_what_they_come_to_in_process(
    tmp_path: Path, run: Callable[..., Result], name: str
) -> None:
    """So what the tests in process say of every cheat holds here too."""
    stage = conduct_run(tmp_path / "in-process", 0, TOGETHER[name])
    scenario = stage.folder / "calibration.toml"
    assert run("flower", "new", tmp_path / "deal", scenario, "--rounds", 1).code == 0
    app = tmp_path / "deal" / "app"
    (app / "deal" / "client_app.py").write_text(IMPORT_TESTS + CHEATING_NODES.format(name=name), encoding="utf-8")
    (app / "deal" / "server_app.py").write_text(IMPORT_TESTS + PLAIN_SERVER, encoding="utf-8")
    judged = {"calibration": str(scenario), "floor": FLOOR, "ceiling": CEILING, "currency": "EUR", "per-payoff": EUROS}
    settings = (app / "pyproject.toml").read_text(encoding="utf-8").replace("verify-subsets = 0", "verify-subsets = 31")
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in judged.items())
    settings = settings.replace('settle-by = "samples"', f'settle-by = "delivery"\n{lines}')
    (app / "pyproject.toml").write_text(settings, encoding="utf-8")
    with running(Flower(tmp_path / "flower")) as flower:
        flower.superlink("--insecure", "--simulation")
        number = flower.run(app, "--federation-config", "num-supernodes=5 client-resources-num-cpus=1")
        assert flower.finished(number, seconds=600) == "finished:completed"
    cents = []
    for ledger in (stage.ledger, tmp_path / "deal" / "record" / "ledger.jsonl"):
        found = check_run(ledger)
        assert found.failed == []
        settled = found.entries.get("settled")
        assert settled is not None
        cents.append([settled.content["cents"][member] for member in MEMBERS])
    np.testing.assert_allclose(cents[1], cents[0], atol=SAME_MONEY)

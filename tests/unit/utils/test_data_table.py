"""Tables as people keep them are read; what cannot be read is named."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.data_table import read_data_table
from fedpact.utils.cells import NumberFormat


def write(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "age,score,ward\n30,0.5,A\n41,,B\n",
        "\ufeffage;score;ward;;\r\n30;0,5;A;;\r\n41;n/a;B;;\r\n",
        "age\tscore\tward\n30\t50 %\tA\n41\tNULL\tB\n",
        ",age,score,ward\n0,30,.5,A\n1,41,-,B\n",
        '"age"|"score"|"ward"\n\n30|0.5|A\n41||B\n',
    ],
)
def test_the_same_records_in_many_spellings(tmp_path: Path, content: str) -> None:
    table = read_data_table(write(tmp_path, content))
    assert list(table.columns) == ["age", "score", "ward"]
    np.testing.assert_array_equal(table.columns["age"], [30, 41])
    np.testing.assert_array_equal(table.columns["score"], [0.5, np.nan])
    assert table.columns["ward"].tolist() == ["A", "B"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age,age\n1,2\n", "column 'age': the column appears twice"),
        ("age,,ward\n1,2,3\n", "row 1, column 2: the column has no name"),
        ("age,ward\n1\n", "row 2 must have 2 cells like the head, got 1"),
        ("1,2\n3,4\n", "row 1 must name the columns, got numbers"),
        ("age,ward\n", "a head but no records"),
        ("age\n" + "1\n" * 9 + "x\n", "row 11, column 'age' must be a number like the others of its column, got 'x'"),
        ("age;ward\n1,234;2\n", "row 2, column 'age': '1,234' may be 1.234 or 1234"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        read_data_table(write(tmp_path, content))
    assert str(caught.value).startswith(str(tmp_path / "t.csv"))


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


def test_arrays_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, pixels=np.arange(8).reshape(2, 2, 2), label=np.array(["a", "b"]))
    table = read_data_table(path)
    assert list(table.columns) == ["pixels 1", "pixels 2", "pixels 3", "pixels 4", "label"]
    assert table.columns["pixels 3"].tolist() == [2.0, 6.0]
    np.savez(path, x=np.zeros(2), y=np.zeros(3))
    with pytest.raises(fp.InvalidInput, match="equally long: x 2, y 3"):
        read_data_table(path)
    with pytest.raises(fp.InvalidInput, match="no archive of arrays"):
        read_data_table(write(tmp_path, b"PK", "t.npz"))


def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"age": [30, None], "ward": ["A", None]}), path)
    table = read_data_table(path)
    np.testing.assert_array_equal(table.columns["age"], [30.0, np.nan])
    assert table.columns["ward"].tolist() == ["A", None]
    with pytest.raises(fp.InvalidInput, match="not a readable Parquet file"):
        read_data_table(write(tmp_path, b"PAR1", "t.parquet"))


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return imported(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(fp.MissingExtra, match=r'pyarrow is not installed: pip install "fedpact\[frame\]"'):
        read_data_table(write(tmp_path, b"PAR1", "t.parquet"))


def test_a_log_may_be_a_parquet_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "runs.parquet"
    columns = {"contributions.A": [1.0, 2.0], "accuracy.A": [0.5, None], "test_size.A": [10, 10]}
    parquet.write_table(pyarrow.table(columns), path)
    seen = fp.Observations.from_files([path])
    np.testing.assert_array_equal(seen.accuracies, [[0.5], [np.nan]])

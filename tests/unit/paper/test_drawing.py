"""Files of a result: the same bytes every time, sharp enough to print, and nothing global changed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedpact.paper import drawing
from fedpact.paper.drawing import pictures
from fedpact.paper.page import csv_text, files_of, make_folder, write_files
from fedpact.paper.results import Result
from fedpact.utils.errors import InvalidInput

matplotlib = pytest.importorskip("matplotlib")


def draw(figure: Any) -> None:
    panel = figure.subplots()
    drawing.two_curves(panel, [0.001, 0.02], [1.0, 2.0], [2.0, 3.0])
    drawing.dress(panel, "title")
    drawing.cost_axis(panel, [0.001, 0.02])
    drawing.mechanism_legend(figure)


RESULT = Result(
    name="fig9",
    title="Fig. 9",
    columns={"name": ["a", "b, c"], "x": [-0.0, 1 / 3], "flag": [np.True_, False], "odd": [np.inf, float("nan")]},
    findings=[],
    draw=draw,
    size=(4.0, 2.0),
)


def test_csv() -> None:
    assert csv_text(RESULT) == 'name,x,flag,odd\na,0,true,inf\n"b, c",0.3333333333,false,nan\n'


@pytest.mark.slow
def test_pictures_are_the_same_every_time() -> None:
    assert pictures(RESULT) == pictures(RESULT)


def test_pictures_are_fit_to_print() -> None:
    made = pictures(RESULT)
    width, height = struct.unpack(">II", made["png"][16:24])
    assert (width, height) == (1200, 600)
    svg = made["svg"].decode()
    assert "<svg" in svg
    assert "dc:date" not in svg


def test_a_table_has_data_only() -> None:
    assert set(files_of(Result(name="table9", title="t", columns={"a": [1]}, findings=[]))) == {"table9.csv"}
    assert set(files_of(RESULT)) == {"fig9.csv", "fig9.png", "fig9.svg"}


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    written = write_files(tmp_path / "a" / "b", {"one.txt": b"1", "two.txt": b"2"})
    assert [path.read_bytes() for path in written] == [b"1", b"2"]
    (tmp_path / "taken.txt").mkdir()
    with pytest.raises(InvalidInput, match="this is a folder"):
        write_files(tmp_path, {"first.txt": b"1", "taken.txt": b"2"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "taken.txt"]

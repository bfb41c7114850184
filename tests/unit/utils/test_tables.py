"""The numbers as a table: every digit survives, and names that could not be written are refused before."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.utils.tables import check_table_name, csv_rows, csv_text, read_csv_rows, write_table

COLUMNS = {
    "costs": [0.1, 1.0 / 3.0, 1e-300],
    "mechanism": ["externality", "shapley", "x,y"],
    'gaps["a", b]': [float("nan"), float("inf"), -5e-324],
    "solved": [True, False, True],
}
BASE = fp.Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.5), names=["a", "b"])


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(StringIO(csv_text(COLUMNS))))
    assert list(rows[0]) == list(COLUMNS)
    assert [float(row["costs"]) for row in rows] == COLUMNS["costs"]
    assert [row["mechanism"] for row in rows] == COLUMNS["mechanism"]
    assert [row['gaps["a", b]'] for row in rows] == ["", "inf", "-5e-324"]
    assert [row["solved"] for row in rows] == ["true", "false", "true"]


@pytest.fixture(scope="module")
def with_a_gap() -> fp.Sweep:
    """At the first of four points there is no equilibrium."""
    return fp.sweep(
        BASE, ["weights[0,1]=-3,0.1", "weights[1,0]=-3,0.2"], metrics=["utilities", "welfare"], mechanisms=["voluntary"]
    )


def test_a_sweep_survives_csv(tmp_path: Path, with_a_gap: fp.Sweep) -> None:
    write_table(tmp_path / "t.csv", with_a_gap.columns())
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["solved"] for row in rows] == ["false", "true", "true", "true"]
    assert rows[0]["welfare"] == rows[0]["utilities[a]"] == ""
    welfare = with_a_gap.metrics["voluntary"]["welfare"].ravel()[1:]
    assert [float(row["welfare"]) for row in rows[1:]] == welfare.tolist()


def test_a_frame_holds_the_same(with_a_gap: fp.Sweep) -> None:
    pytest.importorskip("pandas")
    frame = with_a_gap.to_frame()
    assert frame["solved"].tolist() == [False, True, True, True]
    np.testing.assert_array_equal(frame["utilities[b]"], with_a_gap.metrics["voluntary"]["utilities"][..., 1].ravel())


def test_a_row_for_each_point_and_mechanism() -> None:
    found = fp.sweep(BASE, ["costs=0.01,0.02", "caps[a]=5,6,7"], metrics=["ir_gaps", "welfare"])
    columns = found.columns()
    names = ["costs", "caps[a]", "mechanism", "ir_gaps[a]", "ir_gaps[b]", "welfare", "solved", "on_boundary"]
    assert list(columns) == [*names, "in_domain"]
    assert columns["costs"] == [0.01, 0.01, 0.01, 0.02, 0.02, 0.02] * 2
    assert columns["caps[a]"] == [5.0, 6.0, 7.0] * 4
    assert columns["mechanism"] == ["externality"] * 6 + ["shapley"] * 6
    assert columns["ir_gaps[b]"][6 + 4] == found.metrics["shapley"]["ir_gaps"][1, 1, 1]
    assert columns["welfare"][2] == found.metrics["externality"]["welfare"][0, 2]
    assert columns["on_boundary"][0] is bool(found.on_boundary["externality"][0, 0].any())


def test_a_parameter_called_like_a_metric() -> None:
    """The cost of a sample of a's varies; what a spends is the metric."""
    found = fp.sweep(BASE, "costs[a]=0.01,0.02", metrics=["costs"], mechanisms=["standalone"])
    columns = found.columns()
    assert columns["varied costs[a]"] == [0.01, 0.02]
    assert columns["costs[a]"] == found.metrics["standalone"]["costs"][:, 0].tolist()
    assert {len(column) for column in columns.values()} == {2}


def test_names_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for path, message in (
        (tmp_path / "t.xlsx", "t.xlsx: the file's name must end in .csv, got 't.xlsx'"),
        (tmp_path / "t", "must end in .csv"),
        (tmp_path / "folder.csv", "folder.csv: this is a folder; name a file in it"),
        (tmp_path / "none" / "t.csv", "t.csv: there is no such folder; make it first"),
    ):
        for refuse in (check_table_name, lambda path: write_table(path, COLUMNS)):
            with pytest.raises(fp.InvalidInput) as caught:
                refuse(path)
            assert message in str(caught.value)
    check_table_name(tmp_path / "T.CSV")


def test_a_failed_write_leaves_the_old_table(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"x": [1.0]})
    with pytest.raises(ValueError, match=r"shorter|longer"):
        write_table(tmp_path / "t.csv", {"x": [1.0], "y": []})
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == "x\n1.0\n"


NAMES = [
    "=HYPERLINK(1)",
    "@SUM(A1)",
    "+1+1",
    "-A1",
    "\tx",
    "\r=1",
    "'=x",
    "''-y",
    "'quoted'",
    "A = B",
    "-5",
    "plain",
    "",
]


def test_no_name_is_a_formula_for_a_spreadsheet() -> None:
    cells = next(csv.reader(StringIO(csv_rows([NAMES]), newline="")))
    for name, cell in zip(NAMES, cells, strict=True):
        assert cell[:1] not in tuple("=+@\t\r") or not cell
        assert cell[:1] != "-" or float(cell) == float(name)
    head = csv_text({"=A": [1.0]}).splitlines()[0]
    assert head == "'=A"


def test_names_are_read_as_they_were_written() -> None:
    assert list(read_csv_rows(csv_rows([NAMES, reversed(NAMES)]))) == [NAMES, NAMES[::-1]]


def test_negative_numbers_stay_numbers() -> None:
    given = [-0.5, -3, "-1.25", "+2e-7", float("-inf"), "-inf"]
    assert csv_rows([given]) == "-0.5,-3,-1.25,+2e-7,-inf,-inf\n"


@pytest.mark.parametrize("name", ["North; South", "a|b", "tab\there", 'the "old" one', "two\nlines"])
def test_no_country_splits_a_name(name: str) -> None:
    text = csv_rows([["payer", name, 1.5]])
    assert text.startswith('payer,"')
    for separator in ",;|\t":
        (row,) = csv.reader(StringIO(text.replace(",", separator), newline=""), delimiter=separator)
        assert row == ["payer", name, "1.5"]

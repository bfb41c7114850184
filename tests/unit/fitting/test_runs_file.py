"""CSV files of runs: read as they are, refused with file, row and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.logs import runs_text

HEAD = "contributions.A,contributions.B,accuracy.A,accuracy.B"


def read(tmp_path: Path, text: str, name: str = "runs.csv") -> fp.Observations:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return fp.Observations.from_csv(path)


def test_columns_in_any_order_empty_cells_nan_and_blank_rows(tmp_path: Path) -> None:
    text = (
        "\ufefftest_size.B, accuracy.B ,contributions.B,contributions.A,accuracy.A\n1000,0.5,0,10,\n\n,nan,5,1e2,0.25\n"
    )
    seen = read(tmp_path, text)
    assert seen.names == ("B", "A")
    np.testing.assert_array_equal(seen.contributions, [[0, 10], [5, 100]])
    np.testing.assert_array_equal(seen.accuracies, [[0.5, np.nan], [np.nan, 0.25]])
    np.testing.assert_array_equal(seen.test_sizes, [[1000, np.nan], [np.nan, np.nan]])
    assert seen.rows == (2, 4)  # as a spreadsheet counts, the blank row included


@pytest.mark.parametrize(
    "text",
    [
        HEAD.replace(",", ";") + ";;\r\n1200,5;0;0,25;87 %;;\r\n1.200,5;0;25%;0,87;;\r\n",
        "sep=;\n" + HEAD.replace(",", ";") + "\n1200,5;0;0,25;0,87\n1200,5;0;0,25;0,87\n",
        HEAD.replace(",", "\t") + "\n1,200.5\t0\t0.25\t0.87\n1200.5\t0\t.25\t87%\n",
    ],
)
def test_files_of_other_countries_and_spreadsheets(tmp_path: Path, text: str) -> None:
    seen = read(tmp_path, text)
    np.testing.assert_array_equal(seen.contributions, [[1200.5, 0.0], [1200.5, 0.0]])
    np.testing.assert_allclose(seen.accuracies, [[0.25, 0.87], [0.25, 0.87]], rtol=1e-15)


def test_names_may_hold_dots_commas_and_spaces(tmp_path: Path) -> None:
    seen = read(tmp_path, '"contributions.St. Mary, old","accuracy.St. Mary, old"\n5,0.5\n')
    assert seen.names == ("St. Mary, old",)


def test_rows_without_a_contribution_are_left_out_by_their_number(tmp_path: Path) -> None:
    seen = read(tmp_path, f"{HEAD}\n1,,0.5,0.5\n1,2,0.5,0.5\n")
    assert (seen.left_out, seen.rows) == ((2,), (3,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{HEAD}\n1,2,0.5,0.5\n1,2,71,0.5\n",
            r"row 3, column 'accuracy.A' must be a number between 0 and 1, got '71'; d",
        ),
        (f"{HEAD}\n1,50%,0.7,0.5\n", r"row 2, column 'contributions.B' must be a number of samples.*, got '50%'"),
        (f'{HEAD}\n1,"1,234",1,1\n', r"row 2, column 'contributions.B': '1,234' may be 1.234 or 1234"),
        (f"{HEAD}\n1,x,0.5,0.5\n", r"row 2, column 'contributions.B' must be a number of samples, at least 0"),
        (f"{HEAD},test_size.A\n1,2,0.5,0.5,0\n", r"row 2, column 'test_size.A' must be .* at least 1, got '0'"),
        (f"{HEAD}\n1,2,0.5\n", r"row 2 must have 4 cells like the head, got 3"),
        (f"{HEAD}\n", r"the file has a head but no runs"),
        (
            f"{HEAD},acuracy.A\n1,2,0.5,0.5,1\n",
            r"row 1, column 'acuracy.A': the column is unknown; did you mean \"accuracy.A\"",
        ),
        (
            f"{HEAD},seed\n1,2,0.5,0.5,1\n",
            r"row 1, column 'seed': the column is unknown; columns are contributions.NAME",
        ),
        (f"{HEAD},\n1,2,0.5,0.5,1\n", r"row 1, column 5: the cell is empty"),
        (f"{HEAD},accuracy.A\n1,2,0.5,0.5,1\n", r"row 1, column 'accuracy.A': the column appears twice"),
        ("contributions.North,accuracy.Nort\n1,0.5\n", r"'accuracy.Nort': there is no column .*did you mean \"North\""),
        (
            "contributions.A,contributions.B,accuracy.A\n1,2,0.5\n",
            r"there is no column accuracy.B, so nothing says what",
        ),
        ("accuracy.A\n0.5\n", r"row 1: there is no column contributions.NAME"),
        (f"{HEAD}\n1,2,0.5,\n1,2,0.4,\n", r'no accuracy of member "B" was measured'),
        (f'{HEAD}\n1,"2,0.5,0.5\n', r"the file is not valid CSV"),
    ],
)
def test_malformed_logs_name_file_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "runs.csv"))


def test_the_kind_of_file_is_checked(tmp_path: Path) -> None:
    with pytest.raises(fp.InvalidInput, match=r"the file's name must end in .csv"):
        read(tmp_path, HEAD, "runs.txt")
    with pytest.raises(fp.InvalidInput, match=r"there is no such file"):
        fp.Observations.from_csv(tmp_path / "nothing.csv")


def test_runs_to_make_read_back_once_filled_in(tmp_path: Path) -> None:
    names = ['a "quoted", name', "B"]
    text = runs_text(names, np.array([[10.0, 0.0], [1 / 3, 7.0]]), test_sizes=[1000.0, 500.0])
    filled = text.replace(",,,", ",0.5,0.5,")
    seen = read(tmp_path, filled)
    assert seen.names == tuple(names)
    np.testing.assert_allclose(seen.contributions, [[10.0, 0.0], [1 / 3, 7.0]], rtol=1e-9)
    np.testing.assert_array_equal(seen.test_sizes[0], [1000, 500])


def test_a_file_of_too_many_runs_is_refused_before_it_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedpact.fitting.logs.MAX_RUNS_READ", 3)
    head, row = "contributions.A,accuracy.A\n", "100,0.7\n"
    assert read(tmp_path, head + 3 * row).n_runs == 3
    with pytest.raises(fp.InvalidInput, match="more than 3 rows; average runs"):
        read(tmp_path, head + 4 * row)
    with pytest.raises(fp.InvalidInput, match="more than 3 rows; average runs"):
        read(tmp_path, head + 5 * row + 'what comes after is not looked at"\n')


LOTS = "contributions.St. Mary.X-rays,contributions.St. Mary.scans,contributions.City"
MEASURED = "accuracy.St. Mary,accuracy.City.common,accuracy.City.rare"


def test_lots_and_tasks_belong_to_members(tmp_path: Path) -> None:
    seen = read(tmp_path, f"{LOTS},{MEASURED},test_size.City.rare\n1,2,3,0.5,0.6,0.7,100\n")
    assert seen.names == ("St. Mary", "City")
    assert seen.lot_labels == ("St. Mary: X-rays", "St. Mary: scans", "City")
    assert seen.task_labels == ("St. Mary", "City: common", "City: rare")
    np.testing.assert_array_equal(seen.contributions, [[1, 2, 3]])
    np.testing.assert_array_equal(seen.accuracies, [[0.5, 0.6, 0.7]])
    np.testing.assert_array_equal(seen.test_sizes, [[np.nan, np.nan, 100]])
    again = runs_text(seen.lot_columns, seen.contributions, tasks=seen.task_columns)
    assert again.splitlines()[0] == f"{LOTS},{MEASURED}"


def test_dots_are_lots_where_the_caller_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("contributions.A.x,contributions.A.y,accuracy.A.x,accuracy.A.y\n1,2,0.5,0.5\n", encoding="utf-8")
    assert fp.Observations.from_csv(path).names == ("A.x", "A.y")
    assert fp.Observations.from_files([path], lots=True).names == ("A",)


def test_logs_with_lots_are_taken_together_and_not_with_others(tmp_path: Path) -> None:
    read(tmp_path, f"{LOTS},{MEASURED}\n1,2,3,0.5,0.6,0.7\n", "a.csv")
    read(tmp_path, "contributions.City.new,contributions.City.x,accuracy.City.rare\n4,0,0.8\n", "b.csv")
    read(tmp_path, f"{HEAD}\n1,2,0.5,0.5\n", "c.csv")
    seen = fp.Observations.from_files([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert seen.lot_columns[2:] == ("City", "City.new", "City.x")
    np.testing.assert_array_equal(seen.contributions, [[1, 2, 3, 0, 0], [0, 0, 0, 4, 0]])
    np.testing.assert_array_equal(seen.accuracies[1], [np.nan, np.nan, 0.8])
    with pytest.raises(fp.InvalidInput, match=r"c.csv: its members have no lots, those of a.csv have"):
        fp.Observations.from_files([tmp_path / "a.csv", tmp_path / "c.csv"])


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            "contributions.A.x,contributions.A,accuracy.A.t",
            r"'contributions.A': \"A\" has other columns contributions.A",
        ),
        (
            "contributions.A.x,accuracy.A.t,accuracy.B.t",
            r"'accuracy.B.t': there is no column contributions.B or one of",
        ),
        ("contributions.A.x,contributions.B.x,accuracy.A.t", r"'contributions.B.x': there is no column accuracy.B or"),
        ("contributions.A.,accuracy.A.t,accuracy.A.u", r"'contributions.A.': a name is missing"),
        ("contributions.A.x,accuracy.A.t,test_size.A.u", r"'test_size.A.u': there is no column accuracy.A.u; "),
        ("contributions.A.x,contributions.A.x,accuracy.A.t", r"'contributions.A.x': the column appears twice"),
    ],
)
def test_malformed_columns_of_lots_are_refused(tmp_path: Path, head: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=f"row 1, column {message}"):
        read(tmp_path, f"{head}\n1,1,0.5\n")

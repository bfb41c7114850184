"""CSV files of runs: read as they are, refused with file, row and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.runs_file import runs_text

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
        (f"{HEAD}\n1,2,71%,0.5\n", r"row 2, column 'accuracy.A' must be a number between 0 and 1, got '71%'; divide"),
        (f"{HEAD}\n1,x,0.5,0.5\n", r"row 2, column 'contributions.B' must be a number of samples, at least 0, got 'x'"),
        (f"{HEAD}\n1,-2,0.5,0.5\n", r"row 2, column 'contributions.B' must be .* at least 0, got '-2'"),
        (f"{HEAD}\n1,inf,0.5,0.5\n", r"row 2, column 'contributions.B' must be .*, got 'inf'"),
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
        (f"{HEAD}\n1,2,0.5,\n1,2,0.4,\n", r'no accuracy of agent "B" was measured'),
        (f'{HEAD}\n1,"2,0.5,0.5\n', r"the file is not valid CSV"),
        ("", r"the file is empty"),
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
    monkeypatch.setattr("fedpact.fitting.runs_file.MAX_RUNS_READ", 3)
    head, row = "contributions.A,accuracy.A\n", "100,0.7\n"
    assert read(tmp_path, head + 3 * row).n_runs == 3
    with pytest.raises(fp.InvalidInput, match="more than 3 rows; average runs"):
        read(tmp_path, head + 4 * row)

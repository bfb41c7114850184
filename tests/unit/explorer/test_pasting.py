"""Cells of spreadsheets and CSV files find their fields; what is not taken is said."""

from __future__ import annotations

import pytest

import fedpact as fp
from fedpact.explorer.draft import MAX_MEMBERS, Draft, draft_of
from fedpact.explorer.pasting import open_table, paste_cells
from fedpact.explorer.validation import read_draft
from fedpact.scenario import example


@pytest.fixture
def draft() -> Draft:
    return draft_of(example("hospitals"))


def column(draft: Draft, label: str) -> list[str]:
    return [draft[f"{label}[{agent}]"] for agent in range(draft.n_agents)]


def test_more_rows_than_members_make_members(draft: Draft) -> None:
    found, notes = paste_cells(draft, "names[4]", "Last\t0.1\r\nNew\t0.2\r\nNewer\t0.3\r\n")
    assert column(found, "names")[4:] == ["Last", "New", "Newer"]
    assert column(found, "costs")[4:] == ["0.1", "0.2", "0.3"]
    assert notes == ["Added 2 members: “New”, “Newer”."]
    assert read_draft(found).scenario is not None


def test_a_head_says_where_columns_go_and_what_is_unknown_is_named(draft: Draft) -> None:
    text = "Member\tRegion\tCap (records)\tCost, EUR\nA\tnorth\t1.200,5\t0,25\nB\tsouth\t80\t50 %\n"
    found, notes = paste_cells(draft, "values[1]", text)
    assert column(found, "names")[1:3] == ["A", "B"]
    assert column(found, "caps")[1:3] == ["1200.5", "80"]
    assert column(found, "costs")[1:3] == ["0.25", "0.5"]
    assert column(found, "values") == column(draft, "values")
    assert "Not taken: “Region”; columns that are known are" in notes[0]


def test_cells_beyond_the_last_column_and_the_last_member_are_counted(draft: Draft) -> None:
    rows = "\n".join(f"{row}\tx\ty" for row in range(MAX_MEMBERS))
    found, notes = paste_cells(draft, "home[1]", rows)
    assert found.n_agents == MAX_MEMBERS
    assert "Not taken: 1 row at the end, since the explorer takes up to 30 members." in notes
    assert f"Not taken: {2 * (MAX_MEMBERS - 1)} cells beyond the last column." in notes


def test_a_column_of_decimal_commas_is_one_column(draft: Draft) -> None:
    found, notes = paste_cells(draft, "costs[0]", "0,5\n0,25\n1,5\n")
    assert (column(found, "costs")[:3], notes) == (["0.5", "0.25", "1.5"], [])


def test_weights_grow_too_and_keep_what_is_no_number(draft: Draft) -> None:
    found, notes = paste_cells(draft, "weights[4,4]", "1\t0.5\n?!\t1\n")
    assert found.n_agents == 6 and notes == ["Added 1 member: “Member 6”."]
    assert [found[f"weights[{row},{place}]"] for row in (4, 5) for place in (4, 5)] == ["1", "0.5", "?!", "1"]


def test_weights_with_names_go_to_the_members_named(draft: Draft) -> None:
    names = column(draft, "names")
    text = f"\t{names[2]}\t{names[0]}\tNewcomer\n{names[2]}\t1\t0.3\t0.1\n{names[0]}\t0.2\t1\t0\nNewcomer\t0\t0.7\t1"
    found, notes = paste_cells(draft, "weights[0,0]", text)
    assert found.n_agents == 6 and found["names[5]"] == "Newcomer"
    assert (found["weights[2,0]"], found["weights[0,2]"], found["weights[5,0]"]) == ("0.3", "0.2", "0.7")
    assert notes[0] == "Added 1 member: “Newcomer”." and names[1] in notes[1]


def test_a_file_of_strangers_is_another_federation(draft: Draft) -> None:
    found, notes = open_table(draft, "m.csv", "name;cost;cap;value\nA;0,01;100;1\nB;0,02;50;2\nC;0,03;20;3\n")
    assert column(found, "names") == ["A", "B", "C"] and notes == []
    scenario = read_draft(found).scenario
    assert scenario is not None
    assert scenario.federation.caps.tolist() == [100.0, 50.0, 20.0]
    weights, notes = open_table(found, "w.csv", ",C,A,B\nC,1,0.5,0\nA,0.25,1,0\nB,0,0,1\n")
    assert (weights["weights[2,0]"], weights["weights[0,2]"], notes) == ("0.5", "0.25", [])
    bare, _ = open_table(found, "w.csv", "1,0.5\n0.25,1\n")
    assert (bare["weights[0,1]"], bare["weights[1,0]"], bare.n_agents) == ("0.5", "0.25", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no rows"),
        ("a,b\n1,2\n", "row 1 must name columns such as name, cost, cap and value"),
        ("contributions.A,accuracy.A\n1,0.5\n", "is a log of runs: fedpact fit m.csv"),
        ("name,cost\nA,1\nA,2\n", "two rows are called 'A'"),
        ('name,cost\n"A,1\n', "not valid CSV"),
    ],
)
def test_files_that_are_no_table_of_members_are_refused(draft: Draft, text: str, message: str) -> None:
    with pytest.raises(fp.InvalidInput, match=message):
        open_table(draft, "m.csv", text)


def test_cells_are_pasted_into_tables_only(draft: Draft) -> None:
    with pytest.raises(fp.InvalidInput, match="into a table's field, got 'title'"):
        paste_cells(draft, "title", "1\t2")
    with pytest.raises(fp.InvalidInput, match="nothing in the cells"):
        paste_cells(draft, "names[0]", "\t\n")

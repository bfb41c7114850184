"""Members' tables become records; the mistakes people make are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.pilots import Records
from fedpact.fitting.pilots.found_lots import with_found_lots
from fedpact.fitting.pilots.tables import pilot_data, read_members, tables_of

ROWS = [(k, "AB"[k % 2], "north" if k % 3 else "south", k % 2) for k in range(40)]


def write(folder: Path, name: str, rows: list[tuple[object, ...]], head: str = "age;kind;ward;ill") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join([head, *(";".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("City", "North"):
        write(tmp_path / "data", f"{name}.csv", ROWS)
    return tmp_path / "data"


def test_a_folder_and_a_single_table_are_the_same_records(folder: Path, tmp_path: Path) -> None:
    write(tmp_path, "all.csv", [(*row, name) for name in ("City", "North") for row in ROWS], "age;kind;ward;ill;who")
    apart = pilot_data(read_members(folder), "ill")
    together = pilot_data(read_members(tmp_path / "all.csv", member="who"), "ill")
    assert apart.names == together.names == ("City", "North")
    assert apart.fingerprint == together.fingerprint
    assert (apart.task, apart.classes) == ("classification", ("0", "1"))
    assert apart.feature_names == ("age", "kind = A", "kind = B", "ward = north", "ward = south")
    assert apart.available.tolist() == [28, 28]


def test_the_split_keeps_the_classes_and_no_record_is_on_both_sides(folder: Path) -> None:
    data = pilot_data(read_members(folder), "ill", test_share=0.25)
    for train, test in zip(data.train, data.test, strict=True):
        assert sorted([*train.features[:, 0], *test.features[:, 0]]) == list(range(40))
        assert test.targets.mean() == pytest.approx(0.5, abs=0.1)
        assert train.targets[:10].mean() == pytest.approx(0.5, abs=0.2)  # the first ones are like all


def test_missing_values_texts_and_unseen_classes_are_noted(tmp_path: Path) -> None:
    rows = [*ROWS, ("", "A", "north", 1), (3, "B", "south", "")]
    write(tmp_path / "d", "City.csv", rows)
    write(tmp_path / "d", "North.csv", ROWS)
    notes = " | ".join(pilot_data(read_members(tmp_path / "d"), "ill").notes)
    assert "City: 1 record left out, since 'ill' is missing" in notes
    assert "1 cell missing" in notes
    assert "column 'kind' holds texts: a column for each of A, B" in notes


def test_lots_by_a_column(folder: Path) -> None:
    data = pilot_data(read_members(folder), "ill", lots="ward")
    assert data.lot_names == (("north", "south"),) * 2
    assert data.available.sum() == 56
    assert data.feature_names == ("age", "kind = A", "kind = B")
    train, owners = data.gather([2, 1, 0, 0])
    assert (len(train), owners.tolist()) == (3, [0, 0, 0])


def members_with_wrong_labels() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two members; of the second, the first 60 of 200 labels are wrong."""
    rng = np.random.default_rng(0)
    members = {}
    for name in ("right", "wrong"):
        features = rng.normal(size=(200, 2))
        targets = (features[:, 0] > 0).astype(float)
        members[name] = (features, np.where((np.arange(200) < 60) & (name == "wrong"), 1 - targets, targets))
    return members


def test_wrong_labels_are_the_poor_lot_and_tests_are_not_looked_at() -> None:
    tables, target = tables_of(members_with_wrong_labels(), None)
    data = pilot_data(tables, target, lots="auto")
    assert data.lots is not None
    assert data.lot_names == (("good",), ("good", "poor"))
    train = data.train[1]
    wrong = train.targets != (train.features[:, 0] > 0)
    assert np.mean(data.lots[1] == wrong) > 0.9
    assert "mislead and make up its lot" in data.notes[-1]
    plain = pilot_data(tables, target)
    spoiled = replace(plain, test=tuple(Records(own.features, 1 - own.targets) for own in plain.test))
    for one, other in zip(with_found_lots(spoiled).lots or (), data.lots, strict=True):
        np.testing.assert_array_equal(one, other)


def test_where_no_records_mislead_there_are_no_lots() -> None:
    tables, target = tables_of({name: members_with_wrong_labels()["right"] for name in "ab"}, None)
    data = pilot_data(tables, target, lots="auto")
    assert data.lots is None and "no lots found" in data.notes[-1]


def test_targets_far_off_are_the_poor_lot_of_a_regression() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(400, 1))
    targets = features[:, 0].copy()
    targets[200:260] *= -1
    tables, target = tables_of({"a": (features[:200], targets[:200]), "b": (features[200:], targets[200:])}, None)
    data = pilot_data(tables, target, lots="auto")
    assert data.lots is not None and data.lot_names == (("good",), ("good", "poor"))
    train = data.train[1]
    assert np.mean(data.lots[1] == (train.targets != train.features[:, 0])) > 0.9


def test_a_class_that_one_member_alone_has_is_said(tmp_path: Path) -> None:
    write(tmp_path / "d", "City.csv", [(*row[:3], "c" if row[0] % 4 == 0 else "a") for row in ROWS])
    write(tmp_path / "d", "North.csv", [(*row[:3], "a" if row[3] else "b") for row in ROWS])
    notes = " | ".join(pilot_data(read_members(tmp_path / "d"), "ill").notes)
    assert "City alone trains on c: models without its records never answer that" in notes


@pytest.mark.parametrize(
    ("head", "rows", "options", "message"),
    [
        ("age;ill", ROWS, {}, r"row 2 must have 2 cells"),
        ("age;kind;ward;sick", ROWS, {}, r"there is no column 'ill'; columns are age, kind, ward, sick"),
        (
            "years;kind;ward;ill",
            ROWS,
            {},
            r"has no column '(years|age)', which .* has; add it, or leave it out for all \(ignore",
        ),
        ("age;kind;ward;ill", ROWS[:12], {}, r'member "City" has 12 records, of which a test share of 0.3 is 4'),
        ("age;kind;ward;ill", ROWS, {"task": "guess"}, r"task must be classification or regression"),
        ("age;kind;ward;ill", ROWS, {"ignore": ["years"]}, r"there is no column 'years'"),
        ("age;kind;ward;ill", [(k, f"id{k}", "x", k % 2) for k in range(40)], {}, r"'kind' holds 42 different texts"),
        ("age;kind;ward;ill", [(*row[:3], "yes" if row[3] else "no") for row in ROWS], {"task": "regression"}, "texts"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, head: str, rows: list, options: dict, message: str) -> None:
    write(tmp_path / "d", "City.csv", rows, head)
    write(tmp_path / "d", "North.csv", ROWS)
    with pytest.raises(fp.InvalidInput, match=message):
        pilot_data(read_members(tmp_path / "d"), "ill", **options)


def test_one_class_one_table_and_no_member_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("City", "North"):
        write(tmp_path / "same", f"{name}.csv", [(*row[:3], 1) for row in ROWS])
    with pytest.raises(fp.InvalidInput, match=r"column 'ill' has one class only \(1\)"):
        pilot_data(read_members(tmp_path / "same"), "ill")
    with pytest.raises(fp.InvalidInput, match="say which of its columns names the member"):
        read_members(folder / "City.csv")
    (folder / "North.csv").unlink()
    with pytest.raises(fp.InvalidInput, match="for each of two members or more, got 1"):
        read_members(folder)


def test_numbers_with_many_values_are_a_regression() -> None:
    rng = np.random.default_rng(1)
    tables, target = tables_of({name: (rng.normal(size=(30, 2)), rng.normal(size=30)) for name in "ab"}, None)
    data = pilot_data(tables, target)
    assert (data.task, data.classes) == ("regression", ())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.rename(path.with_suffix(".xlsx")), r"North\.xlsx is no table .* save it as one of these"),
        (lambda path: path.rename(f"{path}.gz"), r"North\.csv\.gz is no table .* save it as one of these"),
        (lambda path: path.rename(path.with_suffix("")), r"North is no table .* or move it out of the folder"),
        (lambda path: (path.unlink(), path.symlink_to("nowhere")), r"North\.csv is a link to nothing; mend it, or"),
        (lambda path: (path.unlink(), path.mkdir()), r"North\.csv is a folder; put the table itself there, or"),
        (lambda path: (path.unlink(), os.mkfifo(path)), r"North\.csv is no file; put the table itself there, or"),
    ],
)
def test_no_member_is_dropped_from_a_folder(folder: Path, spoil: Callable[[Path], object], message: str) -> None:
    write(folder, "South.csv", ROWS)
    spoil(folder / "North.csv")
    with pytest.raises(fp.InvalidInput, match=message):
        read_members(folder)


def test_what_is_left_out_of_a_folder_is_said(folder: Path) -> None:
    for name in (".hidden", "README.md", "~$North.xlsx"):
        (folder / name).write_text("")
    (folder / "old").mkdir()
    notes: list[str] = []
    assert list(read_members(folder, notes=notes)) == ["City", "North"]
    assert len(notes) == 1 and "left out, no tables: .hidden, README.md, old, ~$North.xlsx" in notes[0]


def numbers(change: Callable[[np.ndarray], np.ndarray], *, column: str = "days") -> dict:
    """Tables of two members with a regression's target, the second changed."""
    rng = np.random.default_rng(1)
    tables, _ = tables_of({name: (rng.normal(size=(30, 1)), rng.normal(size=30)) for name in "ab"}, "days")
    for table in tables.values():
        table.columns[column][:] = change(table.columns[column]) if table is tables["b"] else table.columns[column]
    return tables


@pytest.mark.parametrize("number", [1e200, -1e308, np.inf])
@pytest.mark.parametrize("column", ["days", "feature 1"])
def test_numbers_whose_squares_are_too_large_are_named(column: str, number: float) -> None:
    tables = numbers(lambda own: np.where(np.arange(30) == 3, number, own), column=column)
    with pytest.raises(
        fp.InvalidInput, match=rf'row 4, column \'{column}\' .* got {number:g} \(member "b"\)'.replace("+", r"\+")
    ):
        pilot_data(tables, "days")


@pytest.mark.parametrize("column", ["days", "feature 1"])
def test_numbers_whose_squares_vanish_are_named(column: str) -> None:
    tables = numbers(lambda own: own, column=column)
    for table in tables.values():
        table.columns[column][:] *= 1e-300
    with pytest.raises(
        fp.InvalidInput, match=rf"column '{column}' must differ by 1e-100 or more, .* got .*e-300 .*member"
    ):
        pilot_data(tables, "days")


def test_names_that_differ_in_capitals_only_are_asked_about(tmp_path: Path) -> None:
    write(tmp_path / "d", "NORTH.csv", [(*row[:3], "ILL" if row[3] else "well") for row in ROWS])
    write(tmp_path / "d", "North.csv", [(*row[:3], "ill" if row[3] else "well") for row in ROWS])
    write(tmp_path / "d", "East.csv", [(row[0], row[1].lower(), row[2], "well") for row in ROWS])
    notes: list[str] = []
    tables = read_members(tmp_path / "d", notes=notes)
    said = " | ".join(pilot_data(tables, "ill", notes=notes).notes)
    assert "are the members NORTH, North one? they differ in capitals or spaces only, and are taken as 2" in said
    assert "are the classes ILL, ill one?" in said
    assert "are the values A, a of column 'kind' one?" in said


def test_the_member_whose_numbers_are_texts_is_named(tmp_path: Path) -> None:
    write(tmp_path / "d", "City.csv", ROWS)
    write(tmp_path / "d", "South.csv", [("high" if row[0] > 20 else "low", *row[1:]) for row in ROWS])
    with pytest.raises(fp.InvalidInput, match=r"South\.csv: column 'age' holds texts \(high, low\), .* numbers"):
        pilot_data(read_members(tmp_path / "d"), "ill")


def test_an_empty_file_and_an_empty_target_say_what_to_do(folder: Path) -> None:
    (folder / "West.csv").write_text("")
    with pytest.raises(fp.InvalidInput, match=r"West\.csv: the file is empty; fill it in, or take another"):
        read_members(folder)
    write(folder, "West.csv", [(*row[:3], "") for row in ROWS])
    with pytest.raises(fp.InvalidInput, match=r"West\.csv: .*'ill' is empty .*; fill it in, or leave the member out"):
        pilot_data(read_members(folder), "ill")

"""The report is written whole or not at all."""

from __future__ import annotations

import os

import pytest

from fedpact.report import render_report, write_report
from fedpact.utils.errors import InvalidInput


def test_writes_what_is_rendered(tmp_path, comparison_of):
    comparison = comparison_of("odd names")
    write_report(comparison, tmp_path / "report.html", scenario_title="Five")
    written = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written == render_report(comparison, scenario_title="Five")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_takes_a_path_as_text(tmp_path, comparison_of):
    write_report(comparison_of("standalone only"), str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").exists()


def test_a_missing_folder_is_named(tmp_path, comparison_of):
    with pytest.raises(InvalidInput, match=r"nowhere.report\.html: there is no such folder"):
        write_report(comparison_of("standalone only"), tmp_path / "nowhere" / "report.html")


def test_a_folder_is_no_file(tmp_path, comparison_of):
    with pytest.raises(InvalidInput, match="this is a folder"):
        write_report(comparison_of("standalone only"), tmp_path)


def test_a_failure_leaves_the_old_report(tmp_path, comparison_of, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(InvalidInput, match="disk full"):
        write_report(comparison_of("standalone only"), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]

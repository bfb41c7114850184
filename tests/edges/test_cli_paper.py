"""`fedpact paper`: files, exit codes, messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fedpact.paper import results
from fedpact.paper.results import Judgement, PaperFinding, Result

pytest.importorskip("matplotlib")


def fake_result() -> Result:
    """Known to be confirmed, and not."""
    found = PaperFinding(
        where="section [9]",
        statement="[bold]all[/bold] is well",
        judgement=Judgement.NOT_CONFIRMED,
        evidence="0.25",
        expected=Judgement.CONFIRMED,
    )

    def draw(figure) -> None:
        figure.subplots().plot([0, 1], [0, 1])

    return Result(name="fig1", title="Fig. 1: [x]", columns={"x": [1.5]}, findings=[found], draw=draw)


@pytest.fixture
def surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "fake_result", fake_result)
    monkeypatch.setattr(results, "RESULTS", dict(results.RESULTS) | {"fig1": f"{__name__}:fake_result"})


def test_a_table_is_computed_and_shown(run, tmp_path: Path) -> None:
    result = run("paper", "table1", "-o", "out", "--check")
    assert result.code == 0
    assert result.err == ""
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "index.md", "table1.csv"]
    assert "0.801" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "0.794" in (tmp_path / "out" / "index.md").read_text(encoding="utf-8")
    assert "Of 8 statements 5 confirmed, 1 confirmed with a condition, 2 not confirmed." in result.words
    assert "table1.csv, index.md, index.html" in result.words
    assert max(map(len, result.out.splitlines())) <= 80


def test_json_tells_the_same(run, tmp_path: Path) -> None:
    record = run("paper", "table1", "-o", "out", "--json").record
    assert record["as_expected"] is True
    assert [Path(file).name for file in record["files"]] == ["table1.csv", "index.md", "index.html"]
    (table,) = record["results"]
    assert table["name"] == "table1"
    assert {found["judgement"] for found in table["findings"]} == set(Judgement)
    assert set(table["findings"][0]) == {
        *("where", "statement", "judgement", "evidence", "expected", "or_better", "as_expected")
    }


@pytest.mark.slow
def test_the_theorems_come_out_as_known_before_at_the_defaults(run) -> None:
    result = run("paper", "theorems", "-o", "out", "--check")
    assert "Not as known before" not in result.words
    assert result.code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("surprise")
def test_check_fails_where_a_judgement_is_not_the_known_one(run, tmp_path: Path) -> None:
    result = run("paper", "fig1", "-o", "out", "--check")
    assert result.code == 1
    assert "Not as known before: - [bold]all[/bold] is well not confirmed; known before: confirmed" in result.words
    made = {"fig1.csv", "fig1.png", "fig1.svg", "index.html", "index.md"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == made
    assert run("paper", "fig1", "-o", "out").code == 0
    record = run("paper", "fig1", "-o", "out", "--check", "--json")
    assert record.code == 1
    assert record.record["as_expected"] is False


@pytest.mark.usefixtures("surprise")
def test_files_of_other_results_stay(run, tmp_path: Path) -> None:
    (tmp_path / "paper-results").mkdir()
    (tmp_path / "paper-results" / "fig5.png").write_bytes(b"kept")
    assert run("paper", "fig1").code == 0
    assert (tmp_path / "paper-results" / "fig5.png").read_bytes() == b"kept"
    assert (tmp_path / "paper-results" / "fig1.csv").read_text(encoding="utf-8") == "x\n1.5\n"


def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    for arguments, message in (
        (["fig9"], "there is no result 'fig9'; there are fig1, fig2, fig3, table1, fig4, fig5, theorems"),
        (["table1", "-o", "file"], "file: this is a file; name a folder for the results"),
        (["table1", "-o", "file/below"], "file/below: the folder cannot be made"),
    ):
        result = run("paper", *arguments)
        assert result.code == 2
        assert result.out == ""
        assert message in result.err
        assert len(result.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_matplotlib_figures_say_how_to_get_it(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("paper", "fig1", "-o", "out")
    assert result.code == 2
    assert 'matplotlib is not installed: pip install ".[plot]"' in result.err
    assert list(tmp_path.iterdir()) == []
    assert run("paper", "table1", "-o", "out").code == 0, "tables need no pictures"

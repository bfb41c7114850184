"""`fedpact sweep`: files, messages, the bar, and what an interrupt leaves."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import at_odds, crowd
from fedpact.scenario import example

PNG, PDF = b"\x89PNG", b"%PDF"
ONE = ("paper-w3", "--vary", "costs=0.001,0.002")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# what it writes and says


def test_numbers_and_picture_under_their_default_names(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("sweep", *ONE)
    assert result.code == 0
    assert result.err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.csv", "sweep.png"}
    assert (tmp_path / "sweep.png").read_bytes().startswith(PNG)
    found = rows(tmp_path / "sweep.csv")
    assert [row["mechanism"] for row in found] == ["externality"] * 2 + ["shapley"] * 2
    alone = fp.ShapleyMechanism().solve(example("paper-w3").federation)
    np.testing.assert_allclose(float(found[2]["ir_gaps[agent 1]"]), alone.ir_gaps[1], rtol=1e-6)
    for words in (
        "2 values of costs",
        "gain against standing alone (units of payoff)",
        "Externality",
        "Written: sweep.csv, sweep",
    ):
        assert words in result.words
    assert max(map(len, result.out.splitlines())) <= 80


def test_json_tells_the_same(run, tmp_path: Path) -> None:
    record = run("sweep", *ONE, "--metric", "welfare", "--metric", "payments", "-m", "externality", "--json").record
    assert list(record) == ["axes", "agents", "mechanisms", "files"]
    assert record["axes"] == [{"name": "costs", "values": [0.001, 0.002]}]
    found = rows(tmp_path / "sweep.csv")
    assert record["mechanisms"]["externality"]["welfare"] == [float(row["welfare"]) for row in found]
    assert np.array(record["mechanisms"]["externality"]["payments"]).shape == (2, 3)
    assert record["files"][0] == "sweep.csv"


def test_many_agents_are_counted_and_money_is_told(run, tmp_path: Path) -> None:
    crowd(tmp_path / "crowd.toml")
    result = run("sweep", "crowd.toml", "--vary", "costs=0.05,0.06", "-m", "standalone", "--metric", "contributions")
    assert result.code == 0
    assert "and 18 more members; the file holds all" in result.words
    assert "worth" not in result.words, "samples are no money"
    assert max(map(len, result.out.splitlines())) <= 80
    paid = run("sweep", "crowd.toml", "--vary", "costs=0.05,0.06", "-m", "standalone", "--metric", "welfare")
    assert "welfare (EUR) over all points" in paid.words
    assert "Amounts in the file are in units of payoff, each worth EUR 1,234.5." in paid.words
    total = float(rows(tmp_path / "sweep.csv")[0]["welfare"])
    assert f"{1234.5 * total:,.4g}" in paid.words


@pytest.mark.slow
def test_points_without_an_outcome_are_counted(run, tmp_path: Path) -> None:
    at_odds(tmp_path / "odds.toml")
    asked = ("--vary", "weights[0,1]=-2,0.5,0.6", "-m", "voluntary", "--metric", "welfare")
    result = run("sweep", "odds.toml", *asked)
    assert result.code == 0
    assert "Voluntary: no equilibrium at 1 of 3 points" in result.words
    assert "undefined" in result.words and "1 of 3" in result.words
    assert [row["welfare"] == "" for row in rows(tmp_path / "sweep.csv")] == [True, False, False]
    assert run("sweep", "odds.toml", *asked, "--json").record["mechanisms"]["voluntary"]["welfare"][0] is None
    nowhere = run("sweep", "odds.toml", "--vary", "costs=0.01", "-m", "voluntary")
    assert nowhere.code == 0
    assert "Voluntary: no equilibrium at 1 of 1 points" in nowhere.words


def test_points_without_a_fair_deal_are_no_failures_of_its_claims(run, tmp_path: Path) -> None:
    federation = fp.Federation([[1.0, -0.3], [-0.3, 1.0]], costs=0.01, caps=3.0, payoff=fp.Log(), names=["A", "B"])
    fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "harm.toml")
    asked = ("harm.toml", "--vary", "weights[0,1]=-0.3,0.8,0.9", "-m", "fair", "--metric", "core")
    result = run("sweep", *asked)
    assert "Fair: at 1 of 3 points no deal keeps what it promises" in result.words
    assert "no equilibrium" not in result.words
    assert "100.0 % 1 of 3" in result.words, "the deals there are hold"
    first, second, _ = rows(tmp_path / "sweep.csv")
    assert [first[name] for name in ("core", "core-holds", "solved", "in_domain")] == ["", "", "false", ""]
    assert [second[name] for name in ("core-holds", "solved", "in_domain")] == ["true", "true", "true"]
    record = run("sweep", *asked, "--json").record["mechanisms"]["fair"]
    assert record["no_deal"] == [True, False, False]


def test_claims_not_looked_at_have_no_margin(run, tmp_path: Path) -> None:
    """Side payments of more than eight members are not worked out anew for false names."""
    weights = np.linspace(0.1, 0.9, 81).reshape(9, 9)
    federation = fp.Federation(weights, costs=0.01, caps=3.0, payoff=fp.Log())
    fp.save_scenario(fp.Scenario(federation=federation), tmp_path / "nine.toml")
    asked = ("nine.toml", "--vary", "costs=0.01", "-m", "nash-bargaining", "--metric", "split-proof")
    words = run("sweep", *asked).words
    assert "inf" not in words
    assert "Nash bargaining all - - - - - - 1 of 1" in words


def test_where_the_lowest_and_the_highest_are_is_told(run) -> None:
    words = run("sweep", "hospitals", "--vary", "joining_costs=0 EUR,60000 EUR", "-m", "externality").words
    clinic = words[words.index("Clinic") :].split()
    assert (clinic[2], clinic[5]) == ("60,000", "0")


# mistakes

BAD_INPUT = [
    ("sweep missing.toml --vary costs=1", "missing.toml: there is no such file"),
    ("sweep nothing --vary costs=1", "there is no file 'nothing'"),
    ("sweep paper-w1 --vary costs", "vary must be NAME=VALUES, got 'costs'"),
    ("sweep paper-w1 --vary costs=0", "there is no federation with costs = 0: costs[0] must be positive"),
    ("sweep paper-w1 --vary weights[0,0]=-1:1:3", "weights[0,0] = -1: weights[0, 0] must be at least zero"),
    ("sweep paper-w1 --vary speed=1", "vary must name one of weights, costs"),
    ("sweep paper-w1 --vary costs[x]=1", "costs[x]: there is no member 'x'"),
    ("sweep paper-w1 --vary costs=1 --vary caps=1 --vary beta=1", "vary must be one or two parameters, got 3"),
    ("sweep paper-w1 --vary costs=1 --vary costs[0]=2", "costs[0] must not overlap with costs: both set costs[0]"),
    ("sweep paper-w1 --vary costs=1 --metric gaps", "metrics must be among contributions"),
    ("sweep paper-w1 --vary costs=1 -m barter", "mechanism must be one of externality"),
    ("sweep paper-w1 --vary costs=1 -m shapley -m shapley", "mechanisms must be one or more, each once"),
    ("sweep paper-w1 --vary costs=1 -o t.txt", "t.txt: the file's name must end in .csv"),
    ("sweep paper-w1 --vary costs=1 -o none/t.csv", "none/t.csv: there is no such folder; make it first"),
    ("sweep paper-w1 --vary costs=1 -o folder.csv", "folder.csv: this is a folder; name a file in it"),
    ("sweep paper-w1 --vary costs=1 --plot p.jpg", "p.jpg: a picture's name must end in .png, .svg, .pdf"),
    ("sweep paper-w1 --vary costs=1 --plot none/p.png", "none/p.png: there is no such folder; make it first"),
    ("sweep paper-w1 --vary costs=1 --plot folder.png", "folder.png: this is a folder; name a file in it"),
    ("sweep paper-w1 --vary costs=1 -o kept.csv", ".kept.csv.partial is in the way: it holds 'mine.txt'"),
]


@pytest.mark.parametrize(("command", "message"), BAD_INPUT, ids=[command[6:50] for command, _ in BAD_INPUT])
def test_bad_input_is_one_line_and_exit_code_2(run, tmp_path: Path, command: str, message: str) -> None:
    for folder in ("folder.csv", "folder.png", ".kept.csv.partial"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".kept.csv.partial" / "mine.txt").write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    result = run(*command.split())
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["sweep paper-w1", "sweep --vary costs=1", "sweep"])
def test_what_is_missing_is_told(run, command: str) -> None:
    result = run(*command.split())
    assert result.code == 2
    assert "Missing" in result.err
    assert "Traceback" not in result.err


def test_without_matplotlib_there_are_only_numbers(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    asked = run("sweep", *ONE, "--plot", "p.png")
    assert asked.code == 2
    assert 'matplotlib is not installed: pip install ".[plot]"' in asked.err
    assert list(tmp_path.iterdir()) == [], "told before any work"
    unasked = run("sweep", *ONE)
    assert unasked.code == 0
    assert 'no picture sweep.png: matplotlib is not installed: pip install ".[plot]"' in unasked.err
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.csv"]


# interrupts, in a process and a terminal of its own

# Everybody is split in turn at every point, so that a piece takes a while.
SLOW = ["sweep", "hospitals", "--vary", "weights[0,1]=0.2:3:20", "-m", "shapley", "--metric", "split-proof"]
SLOW += ["-o", "t.csv", "--vary"]
SHARED, UNSHARED = "weights[1,0]=0.2:3:10", "weights[1,0]=0.2:3:3"  # 200 points are shared out to workers, 60 are not


class Terminal:
    """A command on a terminal of its own, whose foreground group it leads, as in a shell."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        import pty

        main, other = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *arguments],
            cwd=folder,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env=clean | {"TERM": "xterm"} | environment,
        )
        os.close(other)
        self.main = main
        self.seen = ""

    def wait_for(self, condition, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.seen
            self._read(0.05)

    def type(self, letters: bytes) -> None:
        os.write(self.main, letters)

    def end(self) -> int:
        while self._read(60.0):
            pass
        os.close(self.main)
        return self.process.wait(timeout=60)

    def _read(self, seconds: float) -> bool:
        import select

        if not select.select([self.main], [], [], seconds)[0]:
            return False
        try:
            letters = os.read(self.main, 65536)
        except OSError:  # the terminal is closed
            return False
        self.seen += letters.decode(errors="replace")
        return bool(letters)


TAKE_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv[0] = "fedpact"
from fedpact.cli import main
main()
"""


def pieces(folder: Path) -> int:
    return len(list(folder.glob(".t.csv.partial/*.npz")))


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def others_in(session: int) -> list[str]:
    """The processes of a session that still run; ended ones that nobody has asked about do not."""
    asked = ["ps", "-o", "stat=,pid=,args=", "-s", str(session)]
    listed = subprocess.run(asked, capture_output=True, encoding="utf-8", check=False)
    return [line for line in listed.stdout.splitlines() if not line.startswith("Z")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal and ps")
@pytest.mark.parametrize("second", [SHARED, UNSHARED])
def test_an_interrupted_sweep_goes_on_and_ends_the_same(tmp_path: Path, second: str) -> None:
    pytest.importorskip("matplotlib")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    begun = Terminal(cut, *SLOW, second, FEDPACT_THREADS="2")
    begun.wait_for(lambda: pieces(cut) >= 3)
    begun.type(b"\x03")
    assert begun.end() == 130
    assert "interrupted; " in begun.seen
    assert "points are kept, the same command goes on from there" in begun.seen
    assert "Traceback" not in begun.seen
    wait_until(lambda: others_in(begun.process.pid) == [], 5.0)
    assert [path.name for path in cut.iterdir()] == [".t.csv.partial"]
    kept = {path.name: path.stat().st_mtime_ns for path in cut.glob(".t.csv.partial/*")}
    assert len(kept) >= 3

    again = Terminal(cut, *SLOW, second, FEDPACT_THREADS="2")
    again.wait_for(lambda: pieces(cut) > len(kept))
    assert kept.items() <= {path.name: path.stat().st_mtime_ns for path in cut.glob(".t.csv.partial/*.npz")}.items()
    assert again.end() == 0
    assert ("200/200" if second == SHARED else "60/60") in again.seen

    unbroken = Terminal(whole, *SLOW, second, FEDPACT_THREADS="2")
    assert unbroken.end() == 0
    assert {path.name: path.read_bytes() for path in cut.iterdir()} == {
        path.name: path.read_bytes() for path in whole.iterdir()
    }
    assert {path.name for path in whole.iterdir()} == {"t.csv", "t.png"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal and ps")
def test_an_interrupt_while_workers_start_is_quiet(tmp_path: Path) -> None:
    begun = Terminal(tmp_path, *SLOW, SHARED, FEDPACT_THREADS="2")
    begun.wait_for(lambda: "0/200" in begun.seen and len(others_in(begun.process.pid)) >= 3)
    begun.type(b"\x03")
    assert begun.end() == 130
    assert "interrupted" in begun.seen
    assert "Traceback" not in begun.seen
    wait_until(lambda: others_in(begun.process.pid) == [], 5.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs ps")
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """Without a terminal, which would tell them."""
    begun = subprocess.Popen(
        [sys.executable, "-m", "fedpact", *SLOW, SHARED],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"FEDPACT_THREADS": "2"},
    )
    wait_until(lambda: pieces(tmp_path) >= 1, 90.0)
    assert len(others_in(begun.pid)) >= 3
    begun.kill()
    assert begun.wait(timeout=60) == -signal.SIGKILL
    wait_until(lambda: others_in(begun.pid) == [], 20.0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a terminal")
def test_the_bar_is_on_terminals_only(run, tmp_path: Path) -> None:
    shown = Terminal(tmp_path, "sweep", *ONE, "-m", "voluntary")
    assert shown.end() == 0
    assert "points" in shown.seen and "2/2" in shown.seen
    piped = run("sweep", *ONE, "-m", "voluntary")
    assert piped.err == ""
    assert "2/2" not in piped.out


def test_a_table_that_was_named_is_replaced_only_where_that_is_said(run, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a,b\n", encoding="utf-8")
    refused = run("sweep", *ONE, "-o", "mine.csv")
    assert refused.code == 2 and "mine.csv exists already; choose another name or say --force" in refused.err
    assert (tmp_path / "mine.csv").read_text(encoding="utf-8") == "a,b\n"
    assert run("sweep", *ONE, "-o", "mine.csv", "--force").code == 0


def test_a_picture_beside_a_named_table_is_not_replaced(run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "mine.png").write_bytes(b"kept")
    refused = run("sweep", *ONE, "-o", "mine.csv")
    assert refused.code == 2 and "mine.png exists already" in refused.err
    assert (tmp_path / "mine.png").read_bytes() == b"kept" and not (tmp_path / "mine.csv").exists()
    assert run("sweep", *ONE, "-o", "mine.csv", "--force").code == 0


def test_what_would_be_recommended_is_looked_at(run, tmp_path: Path) -> None:
    """A budget that Externality exceeds: the fair deal is recommended, and swept too."""
    scenario = example("hospitals")
    tight = scenario.federation.replace(budgets=[np.inf, np.inf, np.inf, np.inf, 30_000.0 / scenario.money.per_payoff])
    fp.save_scenario(replace(scenario, federation=tight), tmp_path / "tight.toml")
    recommended = run("compare", "tight.toml", "--json").record["recommendation"]["mechanism"]
    found = run("sweep", "tight.toml", "--vary", "beta=0.3,0.4", "--json").record["mechanisms"]
    assert list(found) == ["externality", "shapley", recommended]


def test_values_in_another_unit_are_asked_about(run, tmp_path: Path) -> None:
    values = fp.load_scenario("hospitals").federation.values[1]
    for times, asked in ((0.01, True), (1.0, False)):
        vary = f"values[City]={times * values:g},{1.1 * times * values:g}"
        found = run("sweep", "hospitals", "--vary", vary, "-m", "externality", "-o", tmp_path / "t.csv", "--force")
        assert found.code == 0 and ("question: values[City] is" in found.err) is asked


def test_thousands_and_decimals_that_may_be_either_are_asked_about(run, tmp_path: Path) -> None:
    swept = run("sweep", "hospitals", "--vary", "caps[City]=1.000:2.000:3", "-o", tmp_path / "t.csv")
    assert swept.code == 2 and "'1.000' can be read as 1 or as 1000; write 1 or 1000" in swept.err
    assert run("solve", "hospitals", "-o", tmp_path / "deal.json").code == 0
    settled = run("settle", "hospitals", tmp_path / "deal.json", "--delivered", "City=1.000")
    assert settled.code == 2 and "--delivered: '1.000' can be read as 1 or as 1000" in settled.err

"""Exit codes and one-line messages when a command fails, and what only a real pipe shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from edges.command_line import at_odds, crowd, piped
from fedpact.cli.app import MAX_ERRORS
from fedpact.mechanisms import MECHANISMS, resolve_mechanism
from fedpact.scenario import example


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of all sorts."""
    (tmp_path / "malformed.toml").write_text("weights = [[1.0", encoding="utf-8")
    (tmp_path / "misspelled.toml").write_text(
        'wieghts = [[1.0]]\ncosts = 1\n[payoff]\nfamily = "log"', encoding="utf-8"
    )
    (tmp_path / "empty.json").write_text("", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "scenario.yaml").write_text("weights: 1", encoding="utf-8")
    agents = ["agent 0", "agent 1", "agent 2"]
    deal = {"mechanism": "externality", "agents": agents, "contributions": [1.0, 1.0], "payments": [0.0, 0.0, 0.0]}
    (tmp_path / "short.json").write_text(json.dumps(deal), encoding="utf-8")
    (tmp_path / "above.json").write_text(json.dumps(deal | {"contributions": [1.0, 401.0, 1.0]}), encoding="utf-8")
    unbalanced = deal | {"contributions": [1.0] * 3, "payments": [0.5, 0.0, 0.0]}
    (tmp_path / "unbalanced.json").write_text(json.dumps(unbalanced), encoding="utf-8")
    return tmp_path


BAD_INPUT = [
    ("compare missing.toml", "missing.toml: there is no such file"),
    ("compare missing", "there is no file 'missing' and no built-in federation of that name"),
    ("compare " + "long" * 100, "there is no file"),
    ("compare malformed.toml", "malformed.toml: the file is not valid TOML"),
    ("compare misspelled.toml", 'did you mean "weights"?'),
    ("compare empty.json", "empty.json: the file is empty"),
    ("compare list.json", "a scenario must be an object"),
    ("compare scenario.yaml", "must end in .toml or .json"),
    ("compare -m barter", f"mechanism must be one of {', '.join(MECHANISMS)}, got 'barter'"),
    ("solve -m barter", "mechanism must be one of"),
    ("solve --leave some", "leave must be one of all, worst, groups, got 'some'"),
    ("check -c honesty", "--claim must be one of nash, budget-balance"),
    ("check paper-w1 missing.json", "missing.json: there is no such file"),
    (
        "check paper-w1 short.json",
        "short.json: contributions must be a number or one number per member: 3 members, 2 numbers",
    ),
    ("check paper-w1 above.json", "contributions[1] must lie between 0 and the cap 400, got 401"),
    ("check paper-w2 list.json", "a deal must be one JSON object"),
    ("settle --output paid.txt", "paid.txt: the file's name must end in .csv or .json"),
    ("settle -o none/paid.csv", "there is no such folder"),
    ("settle paper-w1 unbalanced.json --unchecked", "payments must sum to zero"),
    ("new empty.json", "empty.json exists already"),
    ("new mine.json", "must end in .toml"),
    ("new none/mine.toml", "there is no such folder"),
    ("new --from banks mine.toml", "there is no built-in federation 'banks'"),
    ("new --names A,,B mine.toml", "--names must be names with commas between them, none of them blank"),
    ("new --names A,A mine.toml", "--names must name each once"),
]


@pytest.mark.parametrize(("command", "message"), BAD_INPUT, ids=[command[:40] for command, _ in BAD_INPUT])
def test_bad_input_is_one_line_and_exit_code_2(run, folder: Path, command: str, message: str) -> None:
    before = sorted(folder.iterdir())
    result = run(*command.split())
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", ["nonsense", "compare --nonsense", "new --agents 0"])
def test_misuse_is_exit_code_2_too(run, command: str) -> None:
    result = run(*command.split())
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err


def test_not_converged_is_exit_code_3(run, tmp_path: Path) -> None:
    path = at_odds(tmp_path / "odds.toml")
    for command in (("solve", path), ("check", path), ("settle", path), ("shapley", path)):
        result = run(*command, "-m", "voluntary")
        assert result.code == 3
        assert result.out == ""
        assert result.err.startswith("error: no free-riding equilibrium was found")
        assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["fair", "nash-bargaining"])
def test_that_there_is_no_such_deal_is_exit_code_1(run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "harm.toml"
    federation = fp.Federation([[1.0, -0.3], [-0.3, 1.0]], costs=0.01, caps=3.0, payoff=fp.Log(), names=["A", "B"])
    with pytest.raises(fp.NoFairDeal) as raised:
        resolve_mechanism(name).solve(federation)
    fp.save_scenario(fp.Scenario(federation=federation), path)
    plain, stated = run("solve", path, "-m", name), run("solve", path, "-m", name, "--json")
    assert plain.code == stated.code == 1
    assert plain.out == ""
    assert plain.err == f"error: there is no such deal: {raised.value}\n"
    assert set(stated.record) == {"error", "groups", "subsidy"}
    assert stated.record["subsidy"] == pytest.approx(raised.value.subsidy)
    assert stated.record["groups"] == [list(group) for group in raised.value.groups]


def test_an_interrupt_is_told(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fp.ExternalityMechanism, "solve", interrupted)
    result = run("solve")
    assert result.code == 130
    assert result.err == "interrupted\n"


@pytest.mark.parametrize("raised", [TypeError("a\nb \x1b[2J"), RecursionError(), np.linalg.LinAlgError("Singular")])
def test_an_error_of_fedpact_itself_asks_for_a_report(run, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr(fp.ExternalityMechanism, "solve", broken)
    result = run("solve")
    assert result.code == 4
    assert result.out == ""
    assert result.err.startswith(f"error: {type(raised).__name__}: ")
    assert "please report it" in result.err
    assert len(result.err.splitlines()) == 1
    assert "\x1b" not in result.err
    monkeypatch.setenv("FEDPACT_TRACEBACK", "1")
    assert "Traceback" in run("solve").err


@pytest.mark.parametrize("raised", [MemoryError(), OSError(28, "No space left on device", "kept.bin")])
def test_what_the_machine_cannot_do_is_exit_code_2(run, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr(fp.ExternalityMechanism, "solve", broken)
    result = run("solve")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert "report" not in result.err


def test_help_lists_the_exit_codes(run) -> None:
    words = " ".join(run("--help").words.replace("│", " ").split())
    assert "0 done, 1 a claim fails, 2 bad input, 3 not converged, 4 an error in fedpact itself" in words


@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_values_of_any_size_end_in_an_answer_or_a_refusal(run, tmp_path: Path, value: float) -> None:
    base = example("hospitals").federation
    fp.save_scenario(fp.Scenario(federation=base.replace(values=value)), tmp_path / "extreme.json")
    for command in ("solve", "solve -m voluntary", "settle"):
        result = run(*command.split(), "extreme.json")
        assert result.code in (0, 3), (command, result.err)
        assert "Warning" not in result.err
        assert result.code == 0 or len(result.err.splitlines()) == 1


def test_version_and_help(run) -> None:
    assert run("--version").out.startswith("fedpact ")
    listing = run("--help")
    assert listing.code == 0
    for command in ("compare", "solve", "check", "shapley", "settle", "new", "sweep", "paper"):
        assert command in listing.out
        described = run(command, "--help")
        assert described.code == 0
        assert described.out.count("\n") > 5


def test_a_folder_does_not_hide_a_built_in_federation(run, tmp_path: Path) -> None:
    (tmp_path / "hospitals").mkdir()
    assert run("settle").code == 0


@pytest.mark.slow
def test_names_are_shown_as_they_are(run, tmp_path: Path) -> None:
    """Square brackets are no markup, and colons make no pictures."""
    names = ["[bold]B[/bold]", ":smile:", "Zürich [/]"]
    federation = fp.Federation(
        np.ones((3, 3)) * 0.5 + np.eye(3) / 2, costs=[0.01, 0.02, 0.03], payoff=fp.Log(), names=names
    )
    money = fp.Money("[red]", 10.0)
    fp.save_scenario(fp.Scenario(federation=federation, title="[i]T[/i]", money=money), tmp_path / "names.toml")
    for command in ("compare", "solve", "settle", "shapley", "check"):
        result = run(command, "names.toml")
        assert result.code == 0
        if command != "check":
            for name in names:
                assert name in result.words, command
            assert "[red]" in result.words
        if command not in ("settle", "shapley"):
            assert "[i]T[/i]" in result.words


def test_names_never_control_the_terminal(run, tmp_path: Path) -> None:
    names = ["\x1b[2JA", "B\x9b31m\u202e", "C\nEvery claim holds"]
    federation = fp.Federation(
        np.ones((3, 3)) * 0.5 + np.eye(3) / 2, costs=[0.01, 0.02, 0.03], payoff=fp.Log(), names=names
    )
    money = fp.Money("\x1b[1m", 10.0)
    fp.save_scenario(fp.Scenario(federation=federation, title="\x1b]0;T\x07", money=money), tmp_path / "names.json")
    for command in ("compare", "solve", "settle", "shapley", "check", "negotiate", "solve --json"):
        result = run(*command.split(), "names.json")
        assert result.code == 0
        shown = result.out + result.err
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), command
        assert command == "check" or not any(line.startswith("Every claim holds") for line in shown.splitlines())
    assert result.record["agents"] == names


# through a pipe


def test_output_that_cannot_be_written_is_exit_code_2(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedpact", "solve"], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("error: ")
    assert line.endswith(": No space left on device")


@pytest.mark.slow
def test_output_fits_eighty_columns_and_has_no_escape_codes(tmp_path: Path) -> None:
    crowd(tmp_path / "crowd.toml")
    commands = [[command, name] for name in ("hospitals", "crowd.toml") for command in ("solve", "settle", "shapley")]
    commands += [
        ["compare"],
        ["compare", "paper-w3"],
        ["compare", "crowd.toml", "-m", "externality", "-m", "voluntary"],
    ]
    commands += [["check", "crowd.toml"], ["solve", "-m", "shapley", "--leave", "worst"], ["--help"]]
    result = piped(tmp_path, *commands)
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert "and 10 more members; --json prints all" in result.stdout
    too_long = [line for line in result.stdout.splitlines() if len(line) > 80]
    assert too_long == []


def test_failure_through_a_real_process(tmp_path: Path) -> None:
    """`python -m fedpact` has the same exit codes, and says one line on standard error."""
    result = subprocess.run(
        [sys.executable, "-m", "fedpact", "compare", "missing.toml"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "error: missing.toml: there is no such file; check the path\n"


@pytest.mark.parametrize("command", [["new", "--schema"], ["--help"], ["shapley"]])
def test_a_reader_that_has_seen_enough_is_no_failed_claim(tmp_path: Path, command: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fedpact", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == -signal.SIGPIPE


def test_commands_leave_the_signal_of_broken_pipes_alone(run) -> None:
    """A program that ends with it would end with the first agent's process that does."""
    before = signal.getsignal(signal.SIGPIPE)
    run("new", "--schema")
    assert signal.getsignal(signal.SIGPIPE) == before == signal.SIG_IGN


def test_all_errors_of_a_federation_are_told_at_once(run) -> None:
    record = {
        "payoff": {"family": "power-law", "beta": -1.0},
        "weights": [[1.0, 0.5], [0.2, -1.0]],
        "costs": [-0.5, 0.1],
        "caps": [10.0, -5.0],
    }
    Path("wrong.json").write_text(json.dumps(record), encoding="utf-8")
    result = run("compare", "wrong.json")
    assert result.code == 2
    places = [line.removeprefix("error: wrong.json: ").split()[0] for line in result.err.splitlines()]
    assert sorted(places) == ["caps[1]", "costs[0]", "payoff.beta", "weights[1,"]


def test_of_many_errors_the_first_are_told(run) -> None:
    record = {
        "payoff": {"family": "log"},
        "weights": np.eye(30).tolist(),
        "costs": [-1.0 - agent for agent in range(30)],
    }
    Path("wrong.json").write_text(json.dumps(record), encoding="utf-8")
    result = run("compare", "wrong.json")
    assert result.code == 2
    lines = result.err.splitlines()
    assert len(lines) == MAX_ERRORS + 1
    assert lines[-1] == f"... and {30 - MAX_ERRORS} more errors"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "command",
    [
        "compare hospitals --force --html out.html",
        "settle hospitals --force -o out.csv",
        "settle hospitals --force -o out.json",
        "new --force out.toml",
        "fit runs.csv --force -o out.toml",
        "fit runs.csv --plot out.png",
        "sweep paper-w3 --vary costs=0.001,0.002 -o out.csv",
        "sweep paper-w3 --vary costs=0.001,0.002 -o numbers.csv --plot out.svg",
        "negotiate hospitals -o out.jsonl",
        "negotiate hospitals --plot out.png",
        "train hospitals -o out",
    ],
)
def test_a_device_or_a_pipe_is_no_place_for_a_file(run, tmp_path: Path, command: str, kind: str) -> None:
    """It is refused before any work is done, and stays what it is."""
    (place,) = (tmp_path / word for word in command.split() if word.startswith("out"))
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(os.devnull)
    (tmp_path / "runs.csv").write_text("s:A,s:B,acc:A,acc:B\n1,1,0.5,0.5\n", encoding="utf-8")
    result = run(*command.split())
    assert result.code == 2
    assert result.err.startswith(f"error: {place.name}: ")
    assert place.is_fifo() if kind == "pipe" else place.is_symlink()


def test_all_errors_of_a_scenario_are_told_at_once(run, tmp_path: Path) -> None:
    lines = ["title = 5", "cap = 4", "valeus = 3", "weights = [[1.0]]", 'costs = "-1 EUR/record"', 'unit = "record"']
    (tmp_path / "wrong.toml").write_text("\n".join([*lines, "[payoff]", 'family = "power"']), encoding="utf-8")
    errors = run("compare", tmp_path / "wrong.toml").err.splitlines()
    parts = [
        "'cap'; did you mean",
        "'valeus'; did you mean",
        "costs must be positive",
        "title must be",
        "payoff.family",
    ]
    assert [part for part, error in zip(parts, errors, strict=True) if part not in error] == []

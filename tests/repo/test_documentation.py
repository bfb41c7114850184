"""What the documentation shows is what happens: commands run, and code prints what stands below it."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from edges.command_line import run_main
from fedpact.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = {"_build", "_generated"}
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts))]
# Their commands take seconds.
LONG_PAGES = {
    *("fitting.md", "from-data-to-a-deal.md", "negotiation.md", "reproduce-the-paper.md"),
    *("second-year.md", "training.md", "verification.md", "members.md", "pay-fair-shares.md", "sweeps.md", "guide.md"),
}
BLOCK = re.compile(r"^```(sh|sh slow|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


SLOW = [(page, text) for page in PAGES for kind, text in blocks(page) if kind == "sh slow"]


def shell(script, folder, environment=None):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path} | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def fedpact(words):
    """Run a command in this process, which has imported it already; what it prints, or the file it is sent to."""
    words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_main(words)
    assert code == 0, err.getvalue()
    if target is not None:
        Path(target).write_text(out.getvalue(), encoding="utf-8")
    return out.getvalue()


def run_commands(script, folder):
    """Run a block, fedpact's lines in this process and the others in a shell; `make` is tested by using it."""
    lines = [line for line in script.replace("\\\n", " ").splitlines() if not line.startswith("make ")]
    for ours, group in groupby(lines, lambda line: line.startswith("fedpact ")):
        if ours:
            for line in group:
                fedpact(shlex.split(line, comments=True)[1:])
        else:
            ran = shell("\n".join(group), folder)
            assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in LONG_PAGES))
        for page in PAGES
        if blocks(page)
    ],
)
def test_blocks_do_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = None
    for kind, text in blocks(page):
        if kind == "sh":
            run_commands(text, tmp_path)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, page.name, "exec"), names)
            printed = out.getvalue()
        elif printed is not None:
            assert printed == text
            printed = None


@pytest.mark.slow
@pytest.mark.parametrize(("page", "script"), SLOW, ids=[f"{page.stem} {text.strip()[:30]}" for page, text in SLOW])
def test_commands_that_take_minutes_run(page, script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_commands(script, tmp_path)


CONSOLE = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


def program_of(words):
    """The words that name a command, up to its first argument."""
    subcommands = {"fedpact": 1, "flwr": 2 if words[1:2] == ["supernode"] else 1}
    return tuple(words[: 1 + subcommands.get(words[0], 0)])


def listening():
    """Commands shown that need nodes or stay open: the options used, by program and page."""
    found = {}
    for page in PAGES:
        for line in CONSOLE.findall(page.read_text(encoding="utf-8")):
            words = shlex.split(line.replace("\\\n", " "))
            if words[0] not in {"pip", "export", "cp"}:
                options = {(page.name, word) for word in words if word.startswith("--")}
                found.setdefault(program_of(words), set()).update(options)
    return found


LISTENING = listening()
HELP = """
import contextlib, io, json, sys
from importlib.metadata import entry_points
told = {}
for program in json.loads(sys.argv[1]):
    (script,) = entry_points(group="console_scripts", name=program[0])
    sys.argv, out = [*program, "--help"], io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        script.load()()
    told[" ".join(program)] = out.getvalue()
print(json.dumps(told))
"""


@pytest.mark.slow
def test_commands_that_need_nodes_or_stay_open_have_the_options_shown(tmp_path):
    """They are run by the tests of the explorer, the simulation and the deployment, with ports of their own."""
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "COLUMNS": "200"}
    asked = shell(shlex.join([sys.executable, "-c", HELP, json.dumps(list(LISTENING))]), tmp_path, quiet)
    assert asked.returncode == 0, asked.stderr
    told = json.loads(asked.stdout)
    missing = [
        (page, *program, option)
        for program, shown in LISTENING.items()
        for page, option in shown
        if option not in told[" ".join(program)]
    ]
    assert missing == []


def test_the_glossary_calls_mechanisms_by_their_plain_names():
    table = (DOCS / "glossary.md").read_text(encoding="utf-8").partition("by their plain names")[2]
    stated = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", table.partition("\n## ")[0], flags=re.MULTILINE))
    stated.pop("name")
    assert stated == {each.title: each.plain_title for each in MECHANISMS.values()}

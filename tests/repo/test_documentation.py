"""What the documentation shows is what happens: commands run, and code prints what stands below it."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = {"_build", "_generated"}
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts))]
BLOCK = re.compile(r"^```(sh|sh slow|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


SLOW = [(page, text) for page in PAGES for kind, text in blocks(page) if kind == "sh slow"]


def run_commands(script, folder):
    """Run the lines that are fedpact's; `make` is tested by using it."""
    lines = [line for line in script.splitlines() if not line.startswith("make ")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
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
def test_commands_that_take_minutes_run(page, script, tmp_path):
    run_commands(script, tmp_path)


CONSOLE = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
LISTENING = [
    (page.name, words)
    for page in PAGES
    for line in CONSOLE.findall(page.read_text(encoding="utf-8"))
    if (words := shlex.split(line.replace("\\\n", " ")))[0] not in {"pip", "export"}
]


def program_of(words):
    """The words that name a command, up to its first argument."""
    subcommands = {"fedpact": 1, "flwr": 2 if words[1:2] == ["supernode"] else 1}
    return words[: 1 + subcommands.get(words[0], 0)]


@pytest.mark.parametrize(
    ("page", "words"), LISTENING, ids=[f"{page} {' '.join(program_of(words))}" for page, words in LISTENING]
)
def test_commands_that_need_nodes_or_stay_open_have_the_options_shown(page, words):
    """They are run by the tests of the explorer, the simulation and the deployment, with ports of their own."""
    program = program_of(words)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "COLUMNS": "200"}
    asked = subprocess.run(
        [*program, "--help"], env=os.environ | quiet | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    missing = [word for word in words if word.startswith("--") and word not in asked.stdout]
    assert missing == []

"""What the documentation shows is what happens: commands run, and code prints what stands below it."""

import contextlib
import io
import os
import re
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

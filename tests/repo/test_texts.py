"""What the repository's texts may hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".md", ".toml", ".txt", ".json", ".css", ".html", ".cfg", ".yml", ".yaml", ".csv", ""}
FOLDERS = ("src", "tests", "docs", "benchmarks", ".ci", "examples")
BUILT = ("_build", "__pycache__", ".egg-info")

# Written so that this file does not hold them.
MACHINE_PATHS = [f"/{folder}/" for folder in ("work", "root")]
REGISTRY = f"/{'simple'}/"


def texts() -> list[Path]:
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # a file in linked worktrees
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*")
    return sorted(
        path
        for path in found
        if path.is_file() and path.suffix in KINDS and not any(part in str(path.relative_to(ROOT)) for part in BUILT)
    )


TEXTS = texts()


def test_there_are_texts() -> None:
    names = {path.name for path in TEXTS}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "federation.py", "constraints.txt"} <= names


@pytest.mark.parametrize("hidden", [*MACHINE_PATHS, REGISTRY])
def test_no_text_names_a_machine_or_a_registry(hidden: str) -> None:
    holders = [str(path.relative_to(ROOT)) for path in TEXTS if hidden in path.read_text(encoding="utf-8")]
    assert holders == []


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.+!-]*", line), line
    names = [line.split("==")[0] for line in pins]
    assert names == sorted(names)
    assert len(set(names)) == len(names)


def test_constraints_pin_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()}
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=,; ]", requirement)[0] for requirement in wanted} - {"fedpact"}
    assert names - pinned == set()

"""Certificates share no code with solvers: what `fedpact.certificates` imports, followed through the package."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from repo.test_imports import imports
from sources import PACKAGE, syntax_tree

ALLOWED = {"certificates", "federation", "utils"}


@cache
def imported(path: Path) -> set[str]:
    """Every module of fedpact a file names in an import, also inside functions; not those for type checkers alone."""
    found = set()
    for node, _ in imports(syntax_tree(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if (node.module or "").split(".")[0] == "fedpact":
                found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        else:
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "fedpact"}
    return found


def files_of(module: str) -> list[Path]:
    """The file of a dotted name, and the packages above it, which Python loads first; the root only re-exports."""
    parts = module.split(".")[1:]
    found = [PACKAGE.joinpath(*parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    if parts:
        found.append(PACKAGE.joinpath(*parts).with_suffix(".py"))
    return [path for path in found if path.is_file()]


def reached(start: Path) -> set[Path]:
    """All files that loading a package loads, directly or not; drawing and printing load theirs when asked to."""
    seen: set[Path] = set()
    waiting = list(start.rglob("*.py"))
    while waiting:
        path = waiting.pop()
        if path in seen or path.relative_to(PACKAGE).parts[0] == "report":
            continue
        seen.add(path)
        waiting += [file for module in imported(path) for file in files_of(module)]
    return seen


def test_certificates_reach_no_solver_and_no_integral_of_another_package() -> None:
    files = reached(PACKAGE / "certificates")
    assert {path.relative_to(PACKAGE).parts[0] for path in files} == ALLOWED


def test_the_walk_finds_what_it_looks_for() -> None:
    """From `solvers` it reaches the integral."""
    names = {str(path.relative_to(PACKAGE)) for path in reached(PACKAGE / "solvers")}
    assert {"shapley/integral.py", "shapley/coalitions.py", "federation/payoffs.py"} <= names

"""Continuous integration runs `make check`, here and elsewhere, on every Python the project names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_both_run_make_check() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script[-1] == "make check"
    (job,) = WORKFLOW["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["make check"]


def test_make_check_is_format_lint_types_installation_tests_and_docs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^check: \$\(VENV\)/\.dev (.*)$", makefile, re.MULTILINE)
    assert recipe is not None
    assert recipe[1].split() == ["lint", "types", "test-extras", "test", "docs"]


def test_every_python_of_the_project_is_checked() -> None:
    (job,) = WORKFLOW["jobs"].values()
    pythons = job["strategy"]["matrix"]["python"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert pythons == named
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    assert {"${{ matrix.python }}"} == {
        step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")
    }

"""The wheel, away from the checkout: it holds all it needs, and the demo and the explorer run from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from edges.browser import explorer

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fedpact"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
CLEAN = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left behind in the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / "src" / "fedpact", ignore=shutil.ignore_patterns("__pycache__"))
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel; what it depends on is borrowed from this one.

    A path in a .pth file is searched last, and .pth files in it are not read: the checkout, if installed as editable,
    is not found through it.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    made = folder / "bin" / "python"
    install = ["install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*PIP, "--python", str(made), *install], check=True, env=CLEAN)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return made


def run(python: Path, *arguments: str, folder: Path) -> str:
    ran = subprocess.run([str(python), *arguments], cwd=folder, env=CLEAN, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_it_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("fedpact/")}
    files = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == files


@pytest.mark.slow
def test_the_demo_and_the_explorer_run_from_it(python: Path, tmp_path: Path) -> None:
    place = Path(run(python, "-c", "import fedpact; print(fedpact.__file__)", folder=tmp_path).strip())
    assert place.is_relative_to(python.parents[1])
    run(python, str(python.parent / "fedpact"), "compare", "hospitals", "--html", "report.html", folder=tmp_path)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Children's" in report.replace("&#x27;", "'").replace("&#39;", "'")
    assert (PACKAGE / "report" / "style.css").read_text(encoding="utf-8").splitlines()[0] in report
    with explorer(tmp_path, "hospitals", python=python, environment=CLEAN) as url:
        browser = build_opener(HTTPCookieProcessor())  # the address has a token, which a cookie keeps
        page = browser.open(url, timeout=60).read().decode()
        assert "University" in page
        linked = set(re.findall(r'(?:href|src)="/?(static/[^"]+)"', page))
        assert {Path(name).suffix for name in linked} >= {".css", ".js"}
        for name in linked:
            assert browser.open(urljoin(url, name), timeout=60).read()

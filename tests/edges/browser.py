"""Chromium, found or installed, and the explorer as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedpact.explorer.app import TOKEN_HEADER

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "apt-get install -y chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def chromium() -> str:
    """Where Chromium is; Debian's is installed where it is missing and we may."""
    found = _found()
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-q"], [*INSTALL.split(), "-q"]):
            subprocess.run(command, capture_output=True, check=False, timeout=600)
        found = _found()
    if found is None:
        pytest.fail(f"there is no Chromium on this machine: {INSTALL}")
    return found


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def axe_source() -> str:
    """The checker of accessibility, which `make test-browser` installs beside Python."""
    file = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        pytest.fail(
            f"{file} is not there: make test-browser installs it, or npm install --prefix {sys.prefix}/axe axe-core"
        )
    return file.read_text(encoding="utf-8")


def to_question(address: str, name: str) -> dict[str, object]:
    """Where a question goes, and with which headers, by the address of the explorer's page."""
    base, _, token = address.partition("?token=")
    return {"url": f"{base}ask/{name}", "headers": {TOKEN_HEADER: token}}


@contextmanager
def explorer(
    folder: Path, *arguments: str, python: str | Path = sys.executable, environment: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """The address of `fedpact explore`, which ends with the block, by its process number."""
    command = [str(python), "-m", "fedpact", "explore", *arguments, "--no-browser", "--json"]
    with (folder / "explorer.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env=environment)
        try:
            assert process.stdout is not None
            said = ""
            while not said.rstrip().endswith("}"):
                line = process.stdout.readline()
                assert line, (folder / "explorer.log").read_text(encoding="utf-8")
                said += line
            yield json.loads(said)["url"]
            assert process.poll() is None, "the explorer ended by itself"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            process.stdout.close()
    complaints = (folder / "explorer.log").read_text(encoding="utf-8")
    assert code == 0, f"exit code {code}: {complaints}"
    assert "Traceback" not in complaints, complaints

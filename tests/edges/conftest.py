"""The command line as a fixture."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edges.command_line import Result
from fedpact.cli import main
from fedpact.cli.common import console


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run `fedpact` with arguments, in an empty folder, as if piped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "_width", 80)

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["fedpact", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Result(code, *capsys.readouterr())

    return call

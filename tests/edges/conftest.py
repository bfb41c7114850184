"""The command line as a fixture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edges.command_line import Result, run_main
from fedpact.cli.screen import console


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Run `fedpact` with arguments, in an empty folder, as if piped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "_width", 80)

    def call(*arguments: object) -> Result:
        code = run_main([*map(str, arguments)])
        return Result(code, *capsys.readouterr())

    return call

"""Running `fedpact`, in this process and in another, and scenarios to run it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedpact as fp
from fedpact.cli import main


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Standard output with its line breaks undone."""
        return " ".join(self.out.split())

    @property
    def record(self) -> Any:
        """The one JSON object on standard output; anything else, NaN included, is refused."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        assert self.out.startswith("{\n")
        record = json.loads(self.out, parse_constant=refuse)
        assert isinstance(record, dict)
        return record


def run_main(arguments: Sequence[str]) -> int:
    """Run `fedpact` in this process; its exit code."""
    given, sys.argv = sys.argv, ["fedpact", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = given
    return 0


def piped(folder: Path, *commands: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Several commands in one other process, its output piped."""
    driver = (
        "import sys, json\nfrom fedpact.cli import main\n"
        "for arguments in json.loads(sys.argv.pop()):\n"
        "    sys.argv = ['fedpact', *arguments]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
    )
    clean = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return subprocess.run(
        [sys.executable, "-c", driver, json.dumps(commands)],
        cwd=folder,
        env=clean | {"PYTHONIOENCODING": "utf-8"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def crowd(path: Path) -> Path:
    """Thirty agents with names that no line holds, and words that look like markup."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((30, 30)) < 0.2, rng.uniform(0.0, 1.0, (30, 30)).round(2), 0.0)
    np.fill_diagonal(weights, 1.0)
    names = [f"The {number}. agent of a [bold]name[/bold] :smile: that goes on and on, " * 2 for number in range(30)]
    federation = fp.Federation(weights, costs=0.05, caps=40.0, payoff=fp.PowerLaw(beta=0.3), names=names)
    scenario = fp.Scenario(
        federation=federation, title="A title " * 20, description="Words " * 40, money=fp.Money("EUR", 1234.5)
    )
    fp.save_scenario(scenario, path)
    return path


def at_odds(path: Path) -> Path:
    """Two agents that harm each other without limit: free riding has no equilibrium."""
    federation = fp.Federation([[1.0, -2.0], [-2.0, 1.0]], costs=0.01, payoff=fp.Log())
    fp.save_scenario(fp.Scenario(federation=federation), path)
    return path

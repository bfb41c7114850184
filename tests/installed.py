"""Start every command of the fedpact that is installed beside this interpreter, which needs nothing but fedpact.

`make test-install` runs it in a new environment that holds the wheel and what it declares, at today's versions.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from fedpact.cli.app import COMMANDS

PROGRAM = Path(sys.executable).with_name("fedpact")
PARTS = [("agent", "check"), ("flower", "new"), ("flower", "keys"), ("flower", "key"), ("flower", "agent")]


def run(folder: str, *arguments: str) -> str:
    ran = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or "Traceback" in ran.stderr:
        sys.exit(f"fedpact {' '.join(arguments)} exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(run(folder, "--version").strip(), "from", PROGRAM)
        described = [(), *((name,) for commands in COMMANDS.values() for name in commands), *PARTS]
        for command in described:
            run(folder, *command, "--help")
        run(folder, "compare", "--html", "report.html")
        deal = run(folder, "solve", "hospitals", "--mechanism", "externality", "--json")
        (Path(folder) / "deal.json").write_text(deal, encoding="utf-8")
        run(folder, "check", "hospitals", "deal.json")
        run(folder, "settle", "hospitals", "deal.json")
    print(f"{len(described)} pages of help, compare, solve, check and settle: all start")


if __name__ == "__main__":
    main()

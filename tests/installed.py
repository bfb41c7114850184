"""Start every command of the fedpact that is installed beside this interpreter, which needs nothing but fedpact.

`make test-install` runs it in a new environment that holds the wheel and what it declares, at today's versions, and
`make test-extras` in one with each optional part. Without any, what needs one says which, and never ends in an error
of fedpact itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedpact.cli.app import COMMANDS

PROGRAM = Path(sys.executable).with_name("fedpact")
PARTS = [("agent", "check"), ("flower", "new"), ("flower", "keys"), ("flower", "key"), ("flower", "agent")]

# What needs an optional part, and which.
OPTIONAL = {
    ("explore", "hospitals"): "explore",
    ("train", "hospitals"): "train",
    ("pilot", "digits"): "pilot",
    ("negotiate", "hospitals", "--protocol", "sums"): "sums",
    ("paper", "fig3", "-o", "fig3"): "plot",
    ("flower", "new", "app"): "flower",
    ("flower", "key", "private.pem", "--name", "City"): "signatures",
}


def run(folder: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode not in codes or "Traceback" in ran.stderr or "error in fedpact itself" in ran.stderr:
        sys.exit(f"fedpact {' '.join(arguments)} exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran


def main() -> None:
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        print(run(folder, "--version").stdout.strip(), "from", PROGRAM)
        described = [(), *((name,) for commands in COMMANDS.values() for name in commands), *PARTS]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda command: run(folder, *command, "--help"), described))
        run(folder, "compare", "--html", "report.html")
        deal = run(folder, "solve", "hospitals", "--mechanism", "externality", "--json").stdout
        (Path(folder) / "deal.json").write_text(deal, encoding="utf-8")
        run(folder, "check", "hospitals", "deal.json")
        run(folder, "settle", "hospitals", "deal.json")
        if not extra:
            for command, needed in OPTIONAL.items():
                said = run(folder, *command, codes=(0, 1, 2)).stderr
                if needed not in said or "is not installed" not in said:
                    sys.exit(f"fedpact {' '.join(command)} does not say that it needs [{needed}]:\n{said}")
    print(f"{len(described)} pages of help, compare, solve, check and settle: all start")


if __name__ == "__main__":
    main()

"""`python -m benchmarks [NAME ...]`: run all benchmarks, or some by name, and print what they measure as ratios."""

import importlib
import os
import sys

from rich.console import Console
from rich.table import Table

NAMES = ("start_up", "shapley", "equilibria")


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.exit(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    console = Console(highlight=False)
    table = Table("what", "against", "ratio", box=None)
    for name in chosen:
        for what, against, ratio, words in importlib.import_module(f"benchmarks.{name}").run():
            console.print(f"{what}: {ratio:,.3g} {words} ({against})")
            table.add_row(what, against, f"{ratio:,.3g} {words}")
    console.print(f"\n{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    console.print(table)


main()

"""`python -m benchmarks [NAME ...]`: run the benchmarks, or some by name, and keep what they measure.

Exit codes: 0 done, 1 a limit is missed, 2 there is no such benchmark or a peer is not installed.
"""

import argparse
import importlib
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import plots, record
from benchmarks.figures import Figure

# A benchmark is a module here with `run()`, which yields figures and curves (`benchmarks.figures`).
USUAL = ["start_up", "shapley", "approximation", "equilibria", "certificates", "delivery", "grids", "explorer"]
ON_REQUEST = ["rounds", "models", "training"]  # minutes each, or with peers of their own: run by name only
NAMES = [*USUAL, *ON_REQUEST]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios against peers, in one run.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="a benchmark; without, all but those on request")
    parser.add_argument("--list", action="store_true", help="say which benchmarks there are")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    if chosen.list:
        show_names()
        return
    try:
        missed = measure(chosen.names or USUAL)
    except ImportError as error:
        parser.error(f"{error}; `make bench` and `make bench-training` make environments with the peers")
    sys.exit(1 if missed else 0)


def show_names() -> None:
    table = Table("name", "what it measures", box=None)
    for name in NAMES:
        words = importlib.import_module(f"benchmarks.{name}").__doc__.splitlines()[0]
        table.add_row(name, words + (" Run by name only." if name in ON_REQUEST else ""))
    Console(highlight=False).print(table)


def measure(names: list[str]) -> list[Figure]:
    """Run benchmarks, say and keep what they found, redraw the plots; the figures that miss their limits."""
    console = Console(highlight=False)
    figures: list[Figure] = []
    for name in names:
        measured = []
        with console.status(name):
            for item in importlib.import_module(f"benchmarks.{name}").run():
                measured.append(item)
                if isinstance(item, Figure):
                    console.print(f"{item.what}: {item} ({item.against})")
        record.keep(name, measured, NAMES)
        figures += [item for item in measured if isinstance(item, Figure)]
    plots.draw()
    show(console, figures)
    return [figure for figure in figures if figure.met is False]


def show(console: Console, figures: list[Figure]) -> None:
    table = Table("what", "against", "figure", "limit", "", box=None)
    words = {True: "met", False: "[red]missed[/red]", None: ""}
    for figure in figures:
        table.add_row(figure.what, figure.against, str(figure), figure.limit, words[figure.met])
    console.print()
    console.print(table)
    console.print(f"\n{record.machine()}, one thread; table and plots in benchmarks/results")


if __name__ == "__main__":
    main()

"""What is kept of a run, in `benchmarks/results/`: `results.json` for programs, `table.md` for people.

`results.json` holds, for each benchmark, its figures, its curves, and where they were measured. Running one benchmark
replaces its entry and leaves the others.
"""

import json
import os
import platform
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.figures import Curve, Figure

FOLDER = Path(__file__).parent / "results"
KEPT = FOLDER / "results.json"
LIBRARIES = (
    "fedpact", "numpy", "scipy", "shapiq", "shap", "pyDVL", "cvxpy", "clarabel", "jax", "torch", "scikit-learn"
)  # fmt: skip


def keep(name: str, measured: list[Figure | Curve], order: list[str]) -> None:
    """Replace what is kept of one benchmark; `order` is that of the table."""
    results = kept() | {
        name: {
            "machine": machine(),
            "versions": versions(),
            "figures": [item.as_data() for item in measured if isinstance(item, Figure)],
            "curves": [_rounded(asdict(item)) for item in measured if isinstance(item, Curve)],
        }
    }
    results = {known: results[known] for known in order if known in results}
    FOLDER.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "table.md").write_text(_table(results), encoding="utf-8")


def kept() -> dict:
    """Everything kept so far, by benchmark."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def curves(plot: str) -> list[Curve]:
    """The curves of one plot, of whatever benchmark."""
    found = (Curve(**curve) for entry in kept().values() for curve in entry["curves"])
    return [curve for curve in found if curve.plot == plot]


def machine() -> str:
    """The machine, without its name."""
    return f"{os.cpu_count()} cores ({platform.system()}, {platform.machine()}), Python {platform.python_version()}"


def versions() -> dict[str, str]:
    """The commit, and the versions of the libraries that are installed."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=FOLDER
    )
    return {"commit": commit.stdout.strip() or "unknown"} | found


def _table(results: dict) -> str:
    lines = ["| benchmark | what | against | figure | limit |", "|---|---|---|---|---|"]
    places: dict[str, list[str]] = {}
    for name, entry in results.items():
        named = ", ".join(f"{library} {number}" for library, number in entry["versions"].items())
        places.setdefault(f"{entry['machine']}, one thread; {named}", []).append(name)
        for data in entry["figures"]:
            met = data.pop("met", None)
            figure = Figure(**data)
            limit = figure.limit + {True: ", met", False: ", **missed**", None: ""}[met]
            lines.append(f"| `{name}` | {figure.what} | {figure.against} | {figure} | {limit} |")
    measured = [f"Measured with {place} ({', '.join(names)})." for place, names in places.items()]
    return "\n".join([*lines, "", *measured, ""])


def _rounded(curve: dict) -> dict:
    return curve | {axis: [float(f"{number:.4g}") for number in curve[axis]] for axis in ("x", "y")}

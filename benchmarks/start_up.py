"""The first second: importing, help, and first use on a fresh installation, against importing what lies below.

First use is with an empty cache of compiled code: every run compiles what it needs.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once

FIFTY = 50
# What a new user tries, with the built-in examples; before, each took so many times as long as importing NumPy.
FIRST_USE = {
    "compare hospitals": 32.8,
    "compare hospitals --html report.html --force": 31.2,
    "solve hospitals -m shapley": 27.7,
    "negotiate hospitals": 32.4,
    "shapley hospitals": 3.69,
    "sweep hospitals --vary caps=20:200:5 -o sweep.csv": 36.6,
}


def run():
    below = in_process("import numpy, scipy.sparse")
    figures = {
        "import fedpact": (in_process("import fedpact"), "import numpy, scipy.sparse", below, 1.3, 3.01),
        "fedpact --help": (command("--help"), "import typer, rich", in_process("import typer, rich"), 1.5, 16.5),
        "fedpact compare, 5 members": (
            command("compare"), "import scipy.optimize, numba", in_process("import scipy.optimize, numba"), None, 3.6
        ),
    }  # fmt: skip
    for what, (ours, against, theirs, at_most, before) in figures.items():
        ratio = best_of(ours)[0] / best_of(theirs)[0]
        yield Figure(what=what, against=against, ratio=ratio, unit="times as long", at_most=at_most, before=before)
    reference, _ = best_of(below)
    for words, before in FIRST_USE.items():
        yield first_use(words, reference, before, at_most=11.0)
    yield first_use("compare fifty.json", reference, 121.0, at_most=27.0)


def first_use(words: str, reference: float, before: float | None, *, at_most: float) -> Figure:
    """A command with nothing compiled before; eleven times the import of NumPy is about four seconds."""
    with tempfile.TemporaryDirectory() as folder:
        if "fifty.json" in words:
            fp.save_scenario(fp.Scenario(federation=fifty()), Path(folder) / "fifty.json")
        seconds, _ = once(command(*words.split(), folder=folder))
    return Figure(
        what=f"first use: fedpact {words}",
        against="import numpy, scipy.sparse",
        ratio=seconds / reference,
        unit="times as long",
        at_most=at_most,
        before=before,
    )


def fifty() -> fp.Federation:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 1.0, (FIFTY, FIFTY)) + np.eye(FIFTY)
    return fp.Federation(weights, costs=rng.uniform(0.05, 0.2, FIFTY), caps=5.0, payoff=fp.PowerLaw(1.5))


def in_process(code: str):
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def command(*arguments: str, folder: str | None = None):
    """The command in a folder, with an empty cache of compiled code if there is one."""
    environment = os.environ | ({} if folder is None else {"NUMBA_CACHE_DIR": os.path.join(folder, "compiled")})
    call = [sys.executable, "-m", "fedpact", *arguments]
    return lambda: subprocess.run(call, check=True, capture_output=True, cwd=folder, env=environment)

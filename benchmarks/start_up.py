"""The first second: importing, help and first use, against importing what lies below."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once

FIFTY = 50
BELOW = "import numpy, scipy.sparse"
FIRST_VALUES = """
import fedpact as fp, numpy as np
weights = np.random.default_rng(0).uniform(0.0, 2.0, (200, 200)) + np.eye(200)
fp.shapley_values(fp.Federation(weights, costs=1.0, payoff=fp.PowerLaw(0.5)), np.ones(200))
"""
# What a new user tries, with the built-in examples and with fifty members.
FIRST_USE = (
    "compare hospitals",
    "compare hospitals --html report.html",
    "solve hospitals -m shapley",
    "negotiate hospitals",
    "shapley hospitals",
    "sweep hospitals --vary caps=20:200:5 -o sweep.csv",
    "compare fifty.json",
)


def run():
    below = in_process(BELOW)
    figures = {
        "import fedpact": (in_process("import fedpact"), BELOW, below, 1.3),
        "fedpact --help": (command("--help"), "import typer, rich", in_process("import typer, rich"), 1.5),
    }
    for what, (ours, against, theirs, at_most) in figures.items():
        ratio = best_of(ours)[0] / best_of(theirs)[0]
        yield Figure(what=what, against=against, ratio=ratio, unit="times as long", at_most=at_most)
    reference, _ = best_of(below)
    first, _ = best_of(in_process(FIRST_VALUES))
    what = "the first Shapley values of 200 members, imports included"
    yield Figure(what=what, against=BELOW, ratio=first / reference, unit="times as long", at_most=3.0)
    for words in FIRST_USE:
        with tempfile.TemporaryDirectory() as folder:
            fp.save_scenario(fp.Scenario(federation=fifty()), Path(folder) / "fifty.json")
            seconds, _ = once(command(*words.split(), folder=folder))
        yield Figure(what=f"fedpact {words}", against=BELOW, ratio=seconds / reference, unit="times as long")


def fifty() -> fp.Federation:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 1.0, (FIFTY, FIFTY)) + np.eye(FIFTY)
    return fp.Federation(weights, costs=rng.uniform(0.05, 0.2, FIFTY), caps=5.0, payoff=fp.PowerLaw(1.5))


def in_process(code: str):
    return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def command(*arguments: str, folder: str | None = None):
    call = [sys.executable, "-m", "fedpact", *arguments]
    return lambda: subprocess.run(call, check=True, capture_output=True, cwd=folder)

"""`fedpact compare` on five agents, against importing the two libraries that take longest to import."""

import subprocess
import sys

from benchmarks.figures import Figure
from benchmarks.timing import best_of


def run():
    def command(*arguments):
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    reference, _ = best_of(command("-c", "import scipy.optimize, numba"))
    ours, _ = best_of(command("-m", "fedpact", "compare"))
    yield Figure(
        what="fedpact compare, 5 agents",
        against="import scipy.optimize, numba",
        ratio=ours / reference,
        unit="times as long",
    )

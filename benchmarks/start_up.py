"""`fedpact compare` on five agents, against importing the two libraries that take longest to import."""

import subprocess
import sys

from benchmarks.timing import best_of


def run():
    def command(*arguments):
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    reference, _ = best_of(command("-c", "import scipy.optimize, numba"))
    ours, _ = best_of(command("-m", "fedpact", "compare"))
    yield "fedpact compare, 5 agents", "import scipy.optimize, numba", ours / reference, "times as long"

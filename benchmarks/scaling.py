"""How the cost of Shapley values grows: dense and sparse weights, a million agents, a hundred thousand of few types."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import fedpact as fp
from benchmarks import games
from benchmarks.figures import Figure
from benchmarks.timing import best_of, once

TOLERANCE = 1e-8
DENSE = (500, 1000, 2000, 4000)
SPARSE = (10_000, 100_000, 1_000_000)
GIB = 2**30
TYPES, CROWD = 20, 100_000


def run():
    yield from _dense()
    yield from _lots()
    yield from _sparse()
    yield from _types()


def _dense():
    fp.shapley_values(*games.dense(DENSE[0]), tolerance=TOLERANCE)  # compiles
    seconds = {}
    for n_agents in DENSE:
        federation, contributions = games.dense(n_agents)
        call = lambda: fp.shapley_values(federation, contributions, tolerance=TOLERANCE)
        seconds[n_agents], _ = best_of(call, warm=False, repeats=3 if n_agents <= 1000 else 1)
    yield Figure(
        what=f"time against n, dense, n = {DENSE[0]} to {DENSE[-1]}",
        against="itself: the slope in log-log",
        ratio=log_slope(seconds),
        unit="(slope)",
        at_most=2.1,
    )


def _lots():
    """Players are agents: several lots each cost hardly more than one."""
    n_agents = 1000
    seconds = {}
    for per_agent in (1, 3):
        federation, contributions = games.lots(n_agents, per_agent) if per_agent > 1 else games.dense(n_agents)
        call = lambda: fp.shapley_values(federation, contributions, tolerance=TOLERANCE)
        seconds[per_agent], _ = best_of(call, warm=True, repeats=3)
    yield Figure(
        what=f"Shapley values, n = {n_agents}, three lots each",
        against="one lot each",
        ratio=seconds[3] / seconds[1],
        unit="times as long",
        at_most=1.5,
    )


def _sparse():
    runs = {n_agents: _in_a_process_of_its_own(n_agents) for n_agents in SPARSE}
    first, last = SPARSE[0], SPARSE[-1]
    yield Figure(
        what=f"time against n, ten neighbours each, n = {first:,} to {last:,}",
        against="itself: the slope in log-log",
        ratio=log_slope({n_agents: ran["seconds"] for n_agents, ran in runs.items()}),
        unit="(slope)",
        at_most=1.1,
    )
    yield Figure(
        what=f"peak memory, ten neighbours each, n = {last:,}",
        against="1 GiB",
        ratio=runs[last]["peak"] / GIB,
        unit="times as much",
        at_most=4.0,
    )


def _types():
    types, contributions = games.dense(TYPES)
    crowd = fp.Population(types, counts=np.full(TYPES, CROWD // TYPES))
    alone = fp.Population(types, counts=np.ones(TYPES))
    ours, _ = best_of(lambda: fp.shapley_values(crowd, contributions), repeats=20)
    reference, _ = best_of(lambda: fp.shapley_values(alone, contributions), repeats=20)
    yield Figure(
        what=f"Shapley values of {CROWD:,} agents of {TYPES} types",
        against=f"those of {TYPES} agents, one of each type",
        ratio=ours / reference,
        unit="times as long",
    )


def log_slope(seconds):
    """The exponent of n that fits best."""
    return float(np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0])


def _in_a_process_of_its_own(n_agents):
    """Seconds and peak memory, of nothing but this."""
    code = f"from benchmarks.scaling import report_sparse; report_sparse({n_agents})"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)


def report_sparse(n_agents):
    """Print seconds and bytes; called in a process of its own."""
    fp.shapley_values(*games.sparse(1000), tolerance=TOLERANCE)  # compiles
    federation, contributions = games.sparse(n_agents)
    seconds, _ = once(lambda: fp.shapley_values(federation, contributions, tolerance=TOLERANCE))
    print(json.dumps({"seconds": seconds, "peak": _peak_memory()}))


def _peak_memory():
    """In bytes. Not getrusage's: that begins with the peak of the process that started this one."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024

"""Exact Shapley values: against the peers' exact computers and enumeration, and how they grow with the members."""

from functools import partial

import numpy as np

import fedpact as fp
from benchmarks import games, peers
from benchmarks.figures import Curve, Figure
from benchmarks.timing import best_of, once

OURS = (4, 8, 12, 16, 20, 50, 100, 200, 500, 1000, 2000)
FEW = (4, 8, 12, 16, 20)
# pyDVL would take a minute at n = 16 and a quarter of an hour at n = 20.
THEIRS = {"shapiq": FEW, "shap": FEW, "pyDVL": FEW[:3]}
AT_LEAST = {("shapiq", 12): 50.0, ("shapiq", 16): 600.0, ("shapiq", 20): 12_000.0, ("shap", 20): 50.0}
SHOWN = 12  # figures from so many agents on
LARGE = 500  # growth is measured from so many on
UNIT = 8  # agents: our time for so many is the unit of the plot


def run():
    ours = _timed(_by_default, OURS, slow=1000)
    unit = ours[UNIT][0]
    yield _curve("fedpact", "", ours, unit)
    enumerated = _timed(_by_enumeration, FEW, slow=16)
    yield _curve("fedpact", "enumeration", enumerated, unit)
    yield from _figures("our enumeration of all coalitions", enumerated, ours)
    for library, sizes in THEIRS.items():
        theirs = _timed(peers.EXACT[library], sizes, slow=16)
        yield _curve(library, "exact", theirs, unit)
        limits = {n: bound for (peer, n), bound in AT_LEAST.items() if peer == library}
        yield from _figures(f"{library}, exact", theirs, ours, limits)
    yield _growth(ours)


def _by_default(federation, contributions):
    return fp.shapley_values(federation, contributions).values


def _by_enumeration(federation, contributions):
    return fp.shapley_values(federation, contributions, method="enumeration").values


def _timed(compute, sizes, *, slow):
    """Seconds and values for each number of agents; from `slow` agents on they are computed once only."""
    calls = {n: partial(compute, *games.dense(n)) for n in sizes}
    return {n: once(call) if n >= slow else best_of(call) for n, call in calls.items()}


def _curve(library, method, timed, unit):
    ratios = [seconds / unit for seconds, _ in timed.values()]
    return Curve(plot="time", panel="", library=library, method=method, x=list(timed), y=ratios)


def _figures(against, theirs, ours, limits=None):
    for n_agents, (seconds, values) in theirs.items():
        if n_agents >= SHOWN:
            difference = float(np.abs(ours[n_agents][1] / values - 1.0).max())
            yield Figure(
                what=f"Shapley values, n = {n_agents} (difference {difference:.0e})",
                against=against,
                ratio=seconds / ours[n_agents][0],
                at_least=(limits or {}).get(n_agents),
            )


def _growth(timed):
    sizes = [n for n in timed if n >= LARGE]
    slope = np.polyfit(np.log(sizes), np.log([timed[n][0] for n in sizes]), 1)[0]
    return Figure(
        what=f"Shapley values: time against n, n = {LARGE} to {sizes[-1]}",
        against="itself: the slope in log-log",
        ratio=float(slope),
        unit="(slope)",
        at_most=2.2,
    )

"""Estimating what was delivered: six members and sixty models of subsets, alone and beside models of earlier runs."""

import numpy as np

import fedpact as fp
from benchmarks.figures import Figure
from benchmarks.timing import best_of

MEMBERS, MODELS, TEST_SIZE = 6, 60, 300
FLOOR, CEILING = 0.1, 0.95
HALF = 0.5  # seconds of processor time: what nobody waits for


def run():
    for n_earlier in (0, 60, 180):
        yield estimate(n_earlier)


def estimate(n_earlier):
    rng = np.random.default_rng(0)
    weights = 0.02 * rng.uniform(0.2, 1.0, (MEMBERS, MEMBERS))
    federation = fp.Federation(weights, costs=1e-4, payoff=fp.PowerLaw(beta=0.7))
    agreed = rng.uniform(50.0, 300.0, MEMBERS)
    calibration = None
    if n_earlier:
        earlier = measured(federation, agreed, n_earlier, rng)
        calibration = fp.calibrate_delivery(federation, agreed, *earlier, TEST_SIZE, FLOOR, CEILING)
    now = measured(federation, agreed * np.append(0.6, np.ones(MEMBERS - 1)), MODELS, rng)
    ends = {"test_sizes": TEST_SIZE, "floor": FLOOR, "ceiling": CEILING}

    def judge():
        found = fp.estimate_delivery(federation, agreed, *now, **ends, calibration=calibration)
        return found.flagged, found.intervals()

    seconds, (flagged, _) = best_of(judge)
    assert "agent 0" in flagged
    beside = f", beside {n_earlier} earlier models" if n_earlier else ""
    return Figure(
        what=f"what {MEMBERS} members delivered, from {MODELS} models of subsets{beside}",
        against="half a second of processor time",
        ratio=seconds / HALF,
        unit="times as long",
        at_most=1.0,
    )


def measured(federation, given, count, rng):
    """Random subsets, and what models made of them score on the members' test data."""
    subsets = rng.random((count, MEMBERS)) < 0.5
    curve = federation.payoff.value((subsets * given) @ federation.weights.T)
    trained = FLOOR + (CEILING - FLOOR) * curve + 0.01 * rng.standard_normal((count, 1))
    return subsets, rng.binomial(TEST_SIZE, np.clip(trained, 0.0, 1.0)) / TEST_SIZE

"""The compiled batch solver ends on every federation, and returns to Python often enough to be interrupted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.programs import batch_solver, kernels
from fedpact.shapley import compiled
from fedpact.shapley import kernels as shapley_kernels

ENDLESS = """
import fedpact as fp
federation = fp.Federation([[1, -1], [.5, 1]], costs=.01, payoff=fp.Exponential(rate=[155, 1]))
for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
    try:
        fp.solve_batch(fp.Batch.of([federation]), mechanism)
    except fp.NotConverged:
        pass
print("ended")
"""
LONG = 300  # seconds, for compiling and solving: a bound for what used not to end


def test_curvature_beyond_all_numbers_does_not_hang() -> None:
    """Steep payoffs below zero: e^(155 y) overflows, no ridge makes the curvature positive definite."""
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=LONG, check=False)
    assert done.stdout.strip() == "ended", done.stderr


def test_numbers_that_are_none_end_the_climb() -> None:
    """Straight to the kernel, with a curvature that is infinite wherever it is looked at."""
    one = np.ones((1, 2))
    contributions, gains = one.copy(), np.zeros(1)
    kernels.climb_all(
        np.array([[[1.0, -1e200], [0.5, 1e200]]]), one, one * 1e200, one * 1e200, one * np.inf, one * 0.01, one * 0.0,
        one * 1e200, np.ones(1), np.ones((1, 2)) > 0, np.ones(1), contributions, gains,
    )  # fmt: skip
    assert not gains[0] <= 1e-10, "what could not be solved is not called solved"


def test_a_large_batch_is_solved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, right = [], kernels.climb_all

    def counted(*given: Any) -> None:
        sizes.append(len(given[-1]))
        right(*given)

    monkeypatch.setattr(kernels, "climb_all", counted)
    monkeypatch.setattr(batch_solver, "MAX_COALITIONS_AT_A_TIME", 30)
    rng = np.random.default_rng(1)
    federations = [
        fp.Federation(rng.uniform(0.1, 1.0, (3, 3)), costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.3)) for _ in range(40)
    ]
    batch = fp.Batch.of(federations)
    pieces = {each.name: fp.solve_batch(batch, each) for each in (fp.ExternalityMechanism(), fp.ShapleyMechanism())}
    # One coalition each for the optimum, seven for the equilibrium.
    assert sizes == [30, 10] + [4] * 10
    monkeypatch.undo()
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        whole = fp.solve_batch(batch, mechanism)
        np.testing.assert_array_equal(pieces[mechanism.name].contributions, whole.contributions)


def test_a_large_integral_is_summed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, right = [], shapley_kernels.sum_entries

    def counted(*given: Any) -> None:
        sizes.append(len(given[1]))
        right(*given)

    weights = np.random.default_rng(2).uniform(0.1, 1.0, (40, 40))
    federation = fp.Federation(weights, costs=0.01, payoff=fp.Log())
    whole = fp.shapley_values(federation, 1.0)
    monkeypatch.setattr(shapley_kernels, "sum_entries", counted)
    monkeypatch.setattr(compiled, "MAX_ENTRIES_AT_A_TIME", 500)
    pieces = fp.shapley_values(federation, 1.0)
    assert max(sizes) <= 500 and sum(sizes) == 1600
    # The nodes are chosen by piece: each is good to about 1e-12.
    np.testing.assert_allclose(pieces.values, whole.values, rtol=1e-11)
    share = compiled.own_coefficients
    rows, precision = compiled.receiver_rows(federation), compiled.Precision.reaching(1e-10)
    split = share(rows, np.ones(40), 3, np.zeros(40), precision)
    monkeypatch.undo()
    together = share(rows, np.ones(40), 3, np.zeros(40), precision)
    values = [np.exp(logs) @ -np.expm1(-rates * 1.5) for logs, rates, _ in (split, together)]
    np.testing.assert_allclose(*values, rtol=1e-11)

"""The compiled batch solver ends on every federation, and returns to Python often enough to be interrupted."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.programs import batch_solver, kernels
from fedpact.programs.small_batches import Programs
from fedpact.shapley import compiled, receiver_rows
from fedpact.shapley import kernels as shapley_kernels
from fedpact.utils import compiling
from fedpact.utils.compiling import expecting_many
from random_cases import cases

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


@pytest.mark.slow
def test_curvature_beyond_all_numbers_does_not_hang() -> None:
    """Steep payoffs below zero: e^(155 y) overflows, no ridge makes the curvature positive definite."""
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=LONG, check=False)
    assert done.stdout.strip() == "ended", done.stderr


def test_numbers_that_are_none_end_the_climb() -> None:
    """Straight to the kernel, with a curvature that is infinite wherever it is looked at."""
    one = np.ones((1, 2))
    contributions, gains = one.copy(), np.zeros(1)
    numbers = np.stack([one * 1e200, one * 1e200, one * np.inf, one * 0.01, one * 0.0, one * 1e200], axis=1)
    weights = np.array([[[1.0, -1e200], [0.5, 1e200]]])
    kernels.climb_all(0, 1, weights, numbers, np.ones(1), np.ones((1, 2)) > 0, np.ones(1), contributions, gains)
    assert not gains[0] <= 1e-10, "what could not be solved is not called solved"


def random_programs(rng: np.random.Generator, blocks: int, n_agents: int, coalitions: int) -> Programs:
    """Of all families side by side: with harm, caps of zero, quadratic costs and some that are not worth a thing."""

    def draw(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, (blocks, n_agents))

    weights = rng.uniform(-0.2, 1.0, (blocks, n_agents, n_agents)) + np.eye(n_agents)
    members = (np.arange(coalitions)[:, None] >> np.arange(n_agents)) & 1 if coalitions > 1 else np.ones((1, n_agents))
    return Programs(
        weights=weights,
        values=draw(0.5, 2.0),
        steepness=draw(0.5, 3.0),
        decay=draw(0.5, 3.0),
        width=np.where(draw(0.0, 1.0) < 0.5, np.inf, draw(0.2, 3.0)),
        linear=draw(0.05, 0.8),
        quadratic=np.where(draw(0.0, 1.0) < 0.5, 0.0, draw(0.0, 0.3)),
        upper=np.where(draw(0.0, 1.0) < 0.15, 0.0, draw(0.1, 4.0)),
        scale=np.where(rng.uniform(size=blocks) < 0.05, 0.0, rng.uniform(1.0, 5.0, blocks)),
        members=members.astype(np.float64),
        shares=rng.dirichlet(np.ones(coalitions)),
    )


@pytest.mark.parametrize("all_coalitions", [False, True])
def test_small_batches_come_out_the_same_without_compiled_code(all_coalitions: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(cases(27, few=6)):
        n_agents, blocks = int(rng.integers(1, 6)), int(rng.integers(1, 30))
        programs = random_programs(rng, blocks, n_agents, 2**n_agents if all_coalitions else 1)
        start = rng.uniform(0.0, 1.0, (blocks, n_agents))
        found = []
        for way in (expecting_many, nullcontext):
            contributions, gains = start.copy(), np.zeros(blocks)
            with way():
                batch_solver.climb(programs, contributions, gains)
            found.append((contributions, gains))
        (compiled_ones, compiled_gains), (small_ones, small_gains) = found
        np.testing.assert_allclose(small_ones, compiled_ones, rtol=0.0, atol=1e-7)
        np.testing.assert_allclose(small_gains, compiled_gains, rtol=0.0, atol=1e-11)


def test_a_large_batch_is_solved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, right = [], kernels.climb_all

    def counted(*given: Any) -> None:
        sizes.append(given[1] - given[0])
        right(*given)

    monkeypatch.setattr(compiling, "SMALL_WORK", 0)
    monkeypatch.setattr(kernels, "climb_all", counted)
    monkeypatch.setattr(batch_solver, "MAX_COALITIONS_AT_A_TIME", 30)
    rng = np.random.default_rng(1)
    federations = [
        fp.Federation(rng.uniform(0.1, 1.0, (3, 3)), costs=0.01, caps=50.0, payoff=fp.PowerLaw(0.3)) for _ in range(40)
    ]
    batch = fp.Batch.of(federations)
    pieces = {each.name: fp.solve_batch(batch, each) for each in (fp.ExternalityMechanism(), fp.ShapleyMechanism())}
    # One coalition each for the optimum, seven for the equilibrium.
    assert max(sizes[:2]) <= 30 and sizes[2:] == [4] * 10 and sum(sizes) == 80
    monkeypatch.setattr(batch_solver, "MAX_COALITIONS_AT_A_TIME", 10**6)
    for mechanism in (fp.ExternalityMechanism(), fp.ShapleyMechanism()):
        whole = fp.solve_batch(batch, mechanism)
        np.testing.assert_array_equal(pieces[mechanism.name].contributions, whole.contributions)


@pytest.mark.slow
def test_a_large_integral_is_summed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, right = [], shapley_kernels.sum_helped

    def counted(*given: Any) -> None:
        starts = given[1]
        sizes.append(int(sum(starts[i + 1] - starts[i] for i in given[0])))
        right(*given)

    weights = np.random.default_rng(2).uniform(0.1, 1.0, (40, 40))
    federation = fp.Federation(weights, costs=0.01, payoff=fp.Log())
    whole = fp.shapley_values(federation, 1.0)
    monkeypatch.setattr(shapley_kernels, "sum_helped", counted)
    monkeypatch.setattr(receiver_rows, "MAX_ENTRIES_AT_A_TIME", 500)
    with expecting_many():  # as compiled code would, for more members
        pieces = fp.shapley_values(federation, 1.0)
    assert max(sizes) <= 500 and sum(sizes) == 1600
    # The nodes are chosen by piece: each is good to about 1e-12.
    np.testing.assert_allclose(pieces.values, whole.values, rtol=1e-11)
    share = compiled.own_coefficients
    rows, precision = receiver_rows.receiver_rows(federation), compiled.Precision.reaching(1e-10)
    split = share(rows, np.ones(40), 3, np.zeros(40), precision)
    monkeypatch.undo()
    together = share(rows, np.ones(40), 3, np.zeros(40), precision)
    values = [np.exp(logs) @ -np.expm1(-rates * 1.5) for logs, rates, _ in (split, together)]
    np.testing.assert_allclose(*values, rtol=1e-11)

"""Newton systems: sparse ones by conjugate gradients give what dense ones give by factorisation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from fedpact.programs.curvature import DenseCurvature, SparseCurvature, solve_systems

N_AGENTS = 60
EXACTLY, SOLVED = 1e-10, 1e-8  # the residual of conjugate gradients; the systems are conditioned to about a hundred


@pytest.fixture
def pair(monkeypatch) -> tuple[SparseCurvature, DenseCurvature]:
    for name in ("CG_TOLERANCE", "CG_TOLERANCE_ON_THE_WAY"):
        monkeypatch.setattr(f"fedpact.programs.curvature.{name}", EXACTLY)
    rng = np.random.default_rng(1)
    weights = sp.random_array((N_AGENTS, N_AGENTS), density=0.1, rng=rng, format="csr") + sp.eye_array(N_AGENTS)
    bends, plain, size = rng.uniform(0.1, 1.0, N_AGENTS), rng.uniform(0.0, 0.1, N_AGENTS), rng.uniform(0.5, 2, N_AGENTS)
    weights = sp.csr_array(weights)
    sparse = SparseCurvature(weights, weights.power(2), bends, plain, 0.3 * size, size)
    dense = weights.toarray()
    curved = np.outer(0.3 * size, size) * (dense.T @ (bends[:, None] * dense))
    return sparse, DenseCurvature(curved + np.diag(plain))


@pytest.mark.parametrize("spread", [0.0, 14.0])
def test_both_solve_a_barrier_system(pair, spread: float) -> None:
    """Barriers put numbers of any size on the diagonal."""
    diagonal = 10.0 ** np.linspace(-spread / 2, spread / 2, N_AGENTS)
    right = np.random.default_rng(2).standard_normal(N_AGENTS)
    sparse, dense = (each.solve(diagonal, right) for each in pair)
    np.testing.assert_allclose(sparse * np.sqrt(diagonal), dense * np.sqrt(diagonal), rtol=0, atol=SOLVED)


def test_both_leave_held_coordinates_alone(pair) -> None:
    held = np.arange(N_AGENTS) % 3 == 0
    right = np.random.default_rng(3).standard_normal(N_AGENTS)
    sparse, dense = (each.solve_free(held, right) for each in pair)
    assert (sparse[held] == 0).all()
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=SOLVED * np.abs(dense).max())


def test_nothing_to_solve_is_zero(pair) -> None:
    np.testing.assert_array_equal(pair[0].solve(np.ones(N_AGENTS), np.zeros(N_AGENTS)), 0.0)


def test_a_singular_system_has_no_solution_and_leaves_the_others_theirs() -> None:
    matrices, right = np.stack([np.eye(2), np.zeros((2, 2)), 2.0 * np.eye(2)]), np.ones((3, 2))
    np.testing.assert_array_equal(solve_systems(matrices, right), [[1.0, 1.0], [np.nan, np.nan], [0.5, 0.5]])

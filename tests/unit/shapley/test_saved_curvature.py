"""Newton steps on the potential of many agents: a sample of receivers far away, one Hessian close by."""

import numpy as np
import pytest
from fedpact.programs.shapley_equilibrium import shapley_optimum
from fedpact.programs.solver import GAIN_TOLERANCE
from fedpact.shapley.potential import ROUGH_TOLERANCE, SAMPLED_RECEIVERS, CompiledPotential
from fedpact.shapley.receiver_rows import receiver_rows

import fedpact as fp
from fedpact.shapley import potential

N_AGENTS = 2 * SAMPLED_RECEIVERS + 2


def _federation(values=1.0):
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.0, 2.0, (N_AGENTS, N_AGENTS)) + np.eye(N_AGENTS)
    costs = rng.uniform(0.02, 0.1, N_AGENTS)
    return fp.Federation(weights, costs=costs, caps=40.0, payoff=fp.PowerLaw(0.3), values=values)


def test_a_sample_stands_for_all_values():
    rng = np.random.default_rng(6)
    rows = receiver_rows(_federation(rng.lognormal(0.0, 2.0, N_AGENTS)))
    sample = rows.sample(SAMPLED_RECEIVERS)
    assert SAMPLED_RECEIVERS <= sample.n_receivers <= SAMPLED_RECEIVERS + 2
    np.testing.assert_allclose(sample.values.sum(), rows.values.sum(), rtol=1e-12)
    lengths = np.diff(sample.starts)
    assert (lengths == N_AGENTS).all()
    full = rows.weights.reshape(N_AGENTS, N_AGENTS)
    assert all((row == full).all(axis=1).any() for row in sample.weights.reshape(-1, N_AGENTS))


def test_sparse_and_harmed_rows_are_not_sampled():
    weights = np.array(_federation().weights)
    harmed = weights.copy()
    harmed[0, 1] = -0.001
    sparse = np.where(np.abs(np.subtract.outer(np.arange(N_AGENTS), np.arange(N_AGENTS))) < 4, weights, 0.0)
    for matrix, expected in ((weights, True), (harmed, False), (sparse, False)):
        rows = receiver_rows(fp.Federation(matrix, costs=0.05, caps=1.0, payoff=fp.PowerLaw(0.3)))
        assert rows.can_be_sampled is expected


@pytest.mark.slow
def test_a_sampled_hessian_is_definite_and_near_the_full_one():
    federation, contributions = _federation(), np.linspace(0.1, 5.0, N_AGENTS)
    rough = CompiledPotential(federation, tolerance=ROUGH_TOLERANCE).hessian(contributions)
    full = CompiledPotential(federation).hessian(contributions)
    assert np.linalg.eigvalsh(rough).max() < 0
    assert np.linalg.norm(rough - full, 2) < 0.2 * np.linalg.norm(full, 2)


@pytest.mark.slow
def test_an_equilibrium_takes_few_integrals_and_two_full_hessians_at_most(monkeypatch):
    """With all of them: some 25 integrals, three of them dear, and as many Hessians of all receivers."""
    integrals, hessians = [], []
    integrate, curvature = potential.integrate, potential.potential_curvature

    def count_integrals(rows, contributions, precision, **options):
        integrals.append(precision.per_octave)
        return integrate(rows, contributions, precision, **options)

    def count_hessians(rows, contributions):
        hessians.append(rows.n_receivers)
        return curvature(rows, contributions)

    monkeypatch.setattr(potential, "integrate", count_integrals)
    monkeypatch.setattr(potential, "potential_curvature", count_hessians)
    assert shapley_optimum(_federation()).kkt_residual <= GAIN_TOLERANCE
    assert hessians.count(N_AGENTS) <= 2
    assert integrals.count(max(integrals)) <= 9
    assert len(integrals) <= 40

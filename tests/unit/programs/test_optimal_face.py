"""The set of welfare optima: its dimension, its vertices, its point of smallest norm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import fedpact as fp
from cases import W1, W2, answers, table_1, welfare_total
from fedpact.programs.least_norm import nearest_to_zero
from fedpact.programs.social_optimum import _row_space, social_optimum
from strategies import random_federations

# Equal welfare at two optima: rounding of the payoffs.
SAME_WELFARE = 1e-13


@pytest.mark.parametrize("case", answers("externality"), ids=lambda case: case.name)
def test_dimension_of_known_faces(case):
    optimum = social_optimum(case.federation)
    assert optimum.face.dimension == case.dimension
    np.testing.assert_allclose(optimum.contributions, case.equilibria["externality"], rtol=0, atol=case.atol)


@pytest.mark.parametrize("n_agents", [2, 4, 7])
def test_equal_agents_leave_all_but_the_total_open(n_agents):
    fed = fp.Federation(np.ones((n_agents, n_agents)), costs=0.1, payoff=fp.Log())
    assert social_optimum(fed).face.dimension == n_agents - 1


def test_low_rank_weights_leave_their_null_space_open():
    """W = sum of two outer products, costs a combination of its rows: rank 2, five agents, dimension 3."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2.0, (5, 2)) @ rng.uniform(0.5, 2.0, (2, 5))
    s = np.full(5, 2.0)
    fed = fp.Federation(weights, costs=weights.T @ (1.0 / (1.0 + weights @ s)), payoff=fp.Log())
    assert social_optimum(fed).face.dimension == 3


def test_rising_costs_leave_nothing_open():
    for fed in random_federations(51, 10, n_agents=4, harm=False):
        bent = fed.replace(weights=np.ones((4, 4)), costs=fp.Quadratic(0.01, 0.001))
        assert social_optimum(bent).face.is_point


def test_full_rank_leaves_nothing_open():
    assert social_optimum(table_1(W2)).face.dimension == 0


def test_caps_can_leave_a_single_point():
    """Every agent must give all it has to reach the optimal total."""
    total = welfare_total(3, 0.02, 0.001)
    fed = fp.Federation(W1, costs=0.001, caps=total / 3.0, payoff=fp.PowerLaw(0.02))
    optimum = social_optimum(fed)
    np.testing.assert_allclose(optimum.contributions, total / 3.0, rtol=1e-9)
    assert optimum.face.dimension == 0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_dimension_does_not_depend_on_the_unit_of_data(unit):
    fed = fp.Federation(np.array(W1) / unit, costs=0.001 / unit, caps=400.0 * unit, payoff=fp.PowerLaw(0.02))
    optimum = social_optimum(fed)
    assert optimum.face.dimension == 2
    np.testing.assert_allclose(optimum.contributions, unit * welfare_total(3, 0.02, 0.001) / 3.0, rtol=1e-9)


def test_vertices_are_optima_and_go_furthest():
    optimum = social_optimum(table_1(W1))
    for agent in range(3):
        vertex = optimum.face.vertex(np.eye(3)[agent])
        np.testing.assert_allclose(vertex[agent], welfare_total(3, 0.02, 0.001), rtol=1e-9)
        np.testing.assert_allclose(table_1(W1).welfare(vertex), optimum.welfare, rtol=SAME_WELFARE * 100)


def test_least_norm_point_does_not_depend_on_the_optimum_found_first():
    face = social_optimum(table_1(W1)).face
    for direction in np.vstack([np.eye(3), -np.eye(3)]):
        moved = replace(face, point=face.vertex(direction))
        np.testing.assert_allclose(moved.least_norm(), social_optimum(table_1(W1)).contributions, rtol=1e-9)


def test_least_norm_point_with_a_binding_cap():
    """The optima are (3, 0, 3, 2) + t (-1/2, 1, -2/3, -1), t in [0, 1]; the norm falls up to t = 2.04, so t = 1."""
    weights = np.array([[2.0, 1.0, 0.0, 0.0], [0.0, 3.0, 3.0, 1.0], [0.0, 2.0, 3.0, 0.0], [0.0, 3.0, 3.0, 1.0]])
    costs = weights.T @ (1.0 / (1.0 + weights @ np.array([3.0, 0.0, 3.0, 2.0])))
    fed = fp.Federation(weights, costs=costs, caps=[5.0, 1.0, 5.0, 4.0], payoff=fp.Log())
    optimum = social_optimum(fed)
    assert optimum.face.dimension == 1
    np.testing.assert_allclose(optimum.contributions, [2.5, 1.0, 7.0 / 3.0, 1.0], atol=1e-7)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_rows_of_any_size_span_the_same_space(size):
    columns = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    basis = _row_space(columns, np.full(3, size))
    np.testing.assert_allclose(np.abs(basis[:, 0]), np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0), rtol=1e-12)


@pytest.mark.parametrize(("size", "rank"), [(60, 5), (90, 30)])
def test_least_norm_of_many_is_the_same_guessed_or_released_one_by_one(size, rank, monkeypatch):
    rng = np.random.default_rng(size)
    normals, _ = np.linalg.qr(rng.normal(size=(size, rank)) + 1.0)
    caps = rng.uniform(0.5, 2.0, size)
    point = np.clip(rng.uniform(-1.0, 2.0, size), 0.0, caps)
    guessed = nearest_to_zero(normals, point, caps)
    monkeypatch.setattr("fedpact.programs.least_norm.MAX_RELEASED_ONE_BY_ONE", size)
    np.testing.assert_allclose(guessed, nearest_to_zero(normals, point, caps), atol=1e-11)
    np.testing.assert_allclose(normals.T @ guessed, normals.T @ point, atol=1e-12)
    assert np.linalg.norm(guessed) < np.linalg.norm(point)


@pytest.mark.parametrize(("together", "n_undecided"), [(1.0, 12), (0.5, 0)])
def test_among_very_many_it_is_said_how_many_may_differ(monkeypatch, together, n_undecided):
    """Pairs of members: those whose data serve alike may share out what they bring, others may not."""
    monkeypatch.setattr("fedpact.programs.social_optimum.MAX_FACE_AGENTS", 10)
    pairs = sp.kron(sp.eye_array(6), np.array([[1.0, together], [together, 1.0]]), format="csr")
    federation = fp.Federation(sp.csr_array(pairs), costs=0.1, caps=50.0, payoff=fp.PowerLaw(0.5))
    found = social_optimum(federation)
    assert found.n_undecided == n_undecided
    assert (found.face is None) == (n_undecided > 0)
    equilibria = fp.ExternalityMechanism().solve(federation).equilibria
    assert equilibria.unique is (None if n_undecided else True)


def test_one_part_of_very_many_is_not_looked_into(monkeypatch):
    monkeypatch.setattr("fedpact.programs.social_optimum.MAX_FACE_AGENTS", 3)
    weights = np.random.default_rng(0).uniform(0.1, 1.0, (5, 5)) + np.eye(5)
    found = social_optimum(fp.Federation(weights, costs=0.1, payoff=fp.PowerLaw(0.5)))
    inside = int((found.contributions > 0).sum())
    assert found.n_undecided == (inside if inside > 3 else 0)

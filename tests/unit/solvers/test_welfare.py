"""Welfare optima: many at once as one by one, by parts as in one piece, and the face of all of them."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.solvers.groups import standalone_optimum
from fedpact.solvers.interior_point import maximise
from fedpact.solvers.welfare import WelfareProgram, maximise_welfare, optimum_at, social_optimum
from random_cases import cases
from strategies import random_lots


def test_a_member_alone_is_a_federation_of_one():
    rng = np.random.default_rng(2)
    for _ in range(cases(30)):
        federation = random_lots(rng, n_agents=3)
        contributions, utilities = standalone_optimum(federation)
        for agent in range(3):
            if federation.lots_of(agent).size and federation.tasks_of(agent).size:
                optimum = social_optimum(federation.take([agent]))
                assert utilities[agent] == pytest.approx(optimum.welfare, rel=1e-9, abs=1e-14)
                own, size = contributions[federation.lots_of(agent)], max(float(optimum.contributions.max()), 1e-300)
                np.testing.assert_allclose(own, optimum.contributions, rtol=0, atol=1e-7 * size)
            else:
                assert utilities[agent] == 0


@pytest.mark.parametrize("n_agents", [120, 400])
def test_many_members_by_parts_and_in_one_piece(n_agents):
    rng = np.random.default_rng(n_agents)
    weights = rng.uniform(0.0, 1.0, (n_agents, n_agents)) + np.eye(n_agents)
    rates = rng.uniform(0.5, 2.0, n_agents) * 1e-2
    federation = fp.Federation(weights, costs=rates, caps=30.0, payoff=fp.PowerLaw(beta=0.1))
    program = WelfareProgram(federation.arrays)
    by_parts, whole = maximise_welfare(program), maximise(program)
    assert by_parts.converged.all() and whole.converged.all()
    np.testing.assert_allclose(by_parts.contributions, whole.contributions, rtol=0, atol=1e-7 * 30.0)


def test_equal_members_form_a_face_and_contribute_alike():
    caps = np.array([1.0, 400.0, 400.0, 400.0])
    federation = fp.Federation(np.ones((4, 4)), costs=0.001, caps=caps, payoff=fp.PowerLaw(beta=0.02))
    optimum = social_optimum(federation)
    total = optimum.contributions.sum()
    np.testing.assert_allclose(optimum.contributions, [1.0, *[(total - 1.0) / 3] * 3], rtol=1e-12)
    face = optimum.face
    assert (face.dimension, face.is_point) == (3, False)
    corner = face.vertex(np.array([0.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(corner, [0.0, total, 0.0, 0.0], atol=1e-6)
    assert face.holds(corner) and not face.holds(1.01 * corner)
    for near in (corner, 1.01 * corner):
        np.testing.assert_allclose(optimum_at(federation, near).contributions, optimum.contributions, rtol=1e-9)

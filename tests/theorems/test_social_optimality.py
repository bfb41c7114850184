"""Theorem 1 and Corollary 1, solved from scratch: against every optimum, and where they end."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

import fedpact as fp
from fedpact.paper.theorems import homogeneous_shapley, shapley_equilibrium, stakes, welfare_missed
from fedpact.solvers.welfare import OptimalFace
from random_cases import cases
from theorems.claims import draw_meeting, many

# Of the payoffs at stake; the instances lose far more.
STRICTLY = 1e-9


def most_modest_excess(contributions: np.ndarray, face: OptimalFace) -> float:
    """The smallest, over all optima, of the largest amount by which an agent contributes more than at the optimum."""
    n_agents = contributions.size
    held = np.setdiff1d(np.arange(n_agents), face.free)
    equal = np.zeros((held.size + face.normals.shape[1], n_agents + 1))
    equal[np.arange(held.size), held] = 1.0
    equal[held.size :, face.free] = face.normals.T
    answer = linprog(
        np.append(np.zeros(n_agents), 1.0),
        A_ub=np.hstack([-np.eye(n_agents), -np.ones((n_agents, 1))]),
        b_ub=-contributions,
        A_eq=equal,
        b_eq=np.append(face.point[held], face.normals.T @ face.point[face.free]),
        bounds=[*((0.0, cap) for cap in face.upper), (None, None)],
    )
    assert answer.status == 0
    return float(answer.fun)


def test_somebody_contributes_more_than_at_any_optimum() -> None:
    for draw in (shapley_equilibrium, draw_meeting, homogeneous_shapley):
        for instance in many(draw, seed=1, count=cases(12)):
            optimum = fp.social_optimum(instance.federation)
            lost = optimum.welfare - instance.federation.welfare(instance.contributions)
            assert lost > STRICTLY * stakes(instance)
            assert lost >= (welfare_missed(instance) - 1e-9) * stakes(instance)
            excess = most_modest_excess(instance.contributions, optimum.face)
            assert excess > STRICTLY * instance.contributions.max()

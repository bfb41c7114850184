"""All the welfare optima at once, and the one that treats equals alike.

Payoffs are strictly concave in the data reached, so the reach xi* is the same at every optimum, but several profiles
may give it: the optimal set is the face

    { s in the box : W s = xi* - 1,  s_j = s_j* for each agent whose marginal welfare is not zero or whose cost bends }

Its least-norm point is the canonical equilibrium: it is unique, so renaming the agents permutes it, identical agents
contribute alike, and where a solver started does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.federation import Federation
from fedpact.programs.bounds import contribution_bounds

__all__ = ["OptimalFace", "optimal_face"]

# An agent is free to trade when moving it through its whole range changes welfare by less than this share of the scale.
FREE_TOLERANCE = 1e-10
# Directions the weights shrink by more than this are taken not to change anybody's reach.
RANK_TOLERANCE = 1e-11
MOST_STEPS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalFace:
    """The welfare optima around `point`.

    Attributes
    ----------
    point
        One optimum.
    free
        The agents that may contribute differently at another optimum.
    normals
        Orthonormal (free, rank): s + d is an optimum too, while in the box, if normals.T @ d[free] = 0.
    caps
        The agents' caps.
    """

    point: FloatArray
    free: np.ndarray
    normals: FloatArray
    caps: FloatArray

    @property
    def is_point(self) -> bool:
        """Whether the optimum is unique."""
        return self.free.size == self.normals.shape[1]

    @cached_property
    def dimension(self) -> int:
        """The dimension of the set of optima."""
        if self.is_point:
            return 0
        moves = np.array([self._range_of(place) > 1e-9 * self._size for place in range(self.free.size)])
        if not moves.any():
            return 0
        still = np.linalg.matrix_rank(self.normals[moves], tol=1e-9)
        return int(moves.sum() - still)

    def least_norm(self) -> FloatArray:
        """The optimum of smallest Euclidean norm."""
        if self.is_point:
            return self.point
        best = self.point.copy()
        best[self.free] = _nearest_to_zero(self.normals, self.point[self.free], self.caps[self.free])
        return best

    def vertex(self, direction: FloatArray) -> FloatArray:
        """An optimum that goes furthest along `direction`, given per agent."""
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the unique case

        target = self.normals.T @ self.point[self.free]
        bounds = [(0.0, None if np.isinf(cap) else cap) for cap in self.caps[self.free]]
        answer = linprog(-direction[self.free], A_eq=self.normals.T, b_eq=target, bounds=bounds, method="highs")
        furthest = self.point.copy()
        if answer.x is not None:
            furthest[self.free] = np.clip(answer.x, 0.0, self.caps[self.free])
        return furthest

    @property
    def _size(self) -> float:
        return float(np.abs(self.point[self.free]).max())

    def _range_of(self, place: int) -> float:
        agent = self.free[place]
        direction = np.zeros(self.point.size)
        direction[agent] = 1.0
        return float(self.vertex(direction)[agent] - self.vertex(-direction)[agent])


def optimal_face(federation: Federation, contributions: FloatArray) -> OptimalFace:
    """The face of optima that holds an optimal profile. Cost: one SVD of the free agents' columns."""
    upper, scale = contribution_bounds(federation)
    slopes = federation.marginal_payoffs(contributions)
    marginal = np.asarray(federation.weights.T @ slopes) - federation.costs.slope(contributions)
    indifferent = np.abs(marginal) * upper <= FREE_TOLERANCE * scale
    free = np.flatnonzero(indifferent & (federation.costs.quadratic == 0) & (upper > 0))
    columns = np.asarray(federation.weights[:, free].todense() if federation.is_sparse else federation.weights[:, free])
    return OptimalFace(point=contributions, free=free, normals=_row_space(columns, upper[free]), caps=federation.caps)


def _row_space(columns: FloatArray, size: FloatArray) -> FloatArray:
    """Orthonormal basis (free, rank) of the directions that change somebody's reach."""
    if columns.shape[1] == 0:
        return np.zeros((0, 0))
    scaled = columns * size
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled = scaled[norms[:, 0] > 0] / norms[norms[:, 0] > 0]
    _, singular, rows = np.linalg.svd(scaled, full_matrices=False)
    rank = int((singular > RANK_TOLERANCE * singular[0]).sum()) if singular.size else 0
    if rank == columns.shape[1]:
        return np.eye(rank)
    basis, _ = np.linalg.qr((rows[:rank] / size).T)
    return basis


def _nearest_to_zero(normals: FloatArray, point: FloatArray, caps: FloatArray) -> FloatArray:
    """min |s|^2 over normals.T s = normals.T point, 0 <= s <= caps.

    The minimiser is clip(normals m, 0, caps) for some multipliers m: a piecewise linear system, solved by Newton steps
    on the concave dual with a line search; the last step is exact once the clipped agents are right.
    """
    target = normals.T @ point
    multipliers = target.copy()
    size = max(float(np.abs(point).max()), np.finfo(float).tiny)

    def state(m: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        raw = normals @ m
        clipped = np.clip(raw, 0.0, caps)
        dual = float(target @ m - (clipped * raw - 0.5 * clipped**2).sum())
        return clipped, target - normals.T @ clipped, dual

    clipped, residual, dual = state(multipliers)
    for _ in range(MOST_STEPS):
        if np.abs(residual).max() <= 1e-14 * size:
            break
        raw = normals @ multipliers
        inside = (raw > 0) & (raw < caps)
        jacobian = normals[inside].T @ normals[inside]
        step = np.linalg.solve(jacobian + 1e-12 * np.eye(target.size), residual)
        length = 1.0
        while length > 1e-10:
            tried = multipliers + length * step
            new = state(tried)
            if (
                new[2] >= dual + 1e-4 * length * float(residual @ step)
                or np.abs(new[1]).max() < 0.5 * np.abs(residual).max()
            ):
                break
            length /= 2.0
        else:
            break
        multipliers, (clipped, residual, dual) = tried, new
    return clipped if np.abs(residual).max() <= 1e-10 * size else point

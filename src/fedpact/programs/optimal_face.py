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
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.federation.bounds import contribution_bounds
from fedpact.federation.validation import Weights
from fedpact.utils.arrays import FloatArray

# An agent is free to trade when moving it through its whole range changes welfare by less than this share of the scale.
FREE_TOLERANCE = 1e-10
# Directions the weights shrink by more than this are taken not to change anybody's reach.
RANK_TOLERANCE = 1e-11
MAX_STEPS_PER_AGENT = 20
MULTIPLIER_TOLERANCE = 1e-12
FACE_TOLERANCE = 1e-6  # of the largest contribution


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

        if self.free.size == 0:
            return self.point
        target = self.normals.T @ self.point[self.free]
        bounds = [(0.0, None if np.isinf(cap) else cap) for cap in self.caps[self.free]]
        answer = linprog(-direction[self.free], A_eq=self.normals.T, b_eq=target, bounds=bounds, method="highs")
        furthest = self.point.copy()
        if answer.x is not None:
            furthest[self.free] = np.clip(answer.x, 0.0, self.caps[self.free])
        return furthest

    def holds(self, contributions: FloatArray) -> bool:
        """Whether a profile lies on the face, up to rounding."""
        moved = contributions - self.point
        size = FACE_TOLERANCE * max(float(np.abs(self.point).max()), np.finfo(float).tiny)
        fixed = np.delete(moved, self.free)
        return bool((np.abs(fixed) <= size).all() and (np.abs(self.normals.T @ moved[self.free]) <= size).all())

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
    return face_from(
        weights=federation.weights,
        point=contributions,
        marginal=marginal,
        upper=upper,
        scale=scale,
        bends=federation.costs.quadratic > 0,
        caps=federation.caps,
    )


def face_from(
    *,
    weights: Weights,
    point: FloatArray,
    marginal: FloatArray,
    upper: FloatArray,
    scale: float,
    bends: NDArray[np.bool_],
    caps: FloatArray,
) -> OptimalFace:
    """The face from the weights, or any matrix with the rows scaled, and the marginal welfare at an optimum."""
    free = np.flatnonzero((np.abs(marginal) * upper <= FREE_TOLERANCE * scale) & ~bends & (upper > 0))
    columns = weights[:, free]
    columns = columns if isinstance(columns, np.ndarray) else columns.toarray()
    return OptimalFace(point=point, free=free, normals=_row_space(columns, upper[free]), caps=caps)


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
    """min |s|^2 over normals.T s = normals.T point, 0 <= s <= caps, by an active set that starts at `point`.

    With some coordinates held at a bound, the others' minimiser is a least-norm solution; go there, or as far as the
    box allows and hold what blocks; at the minimiser release the held coordinate whose multiplier is most wrong.
    """
    point = np.clip(point, 0.0, caps)
    target = normals.T @ point
    size = max(float(point.max()), np.finfo(float).tiny)
    low, high = point <= 0.0, point >= caps
    for _ in range(MAX_STEPS_PER_AGENT * point.size):
        free = ~(low | high)
        wanted = np.where(high, caps, 0.0)
        multipliers = np.linalg.lstsq(normals[free].T @ normals[free], target - normals.T @ wanted, rcond=1e-13)[0]
        wanted[free] = normals[free] @ multipliers
        step = wanted - point
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, -point / step, np.where(step > 0, (caps - point) / step, np.inf))
        room[~free] = np.inf
        blocking = int(np.argmin(room))
        if room[blocking] < 1.0:
            point = np.clip(point + room[blocking] * step, 0.0, caps)
            low[blocking], high[blocking] = step[blocking] < 0, step[blocking] > 0
            continue
        point = np.clip(wanted, 0.0, caps)
        pull = normals @ multipliers  # where a held coordinate would go
        wrong = np.where(low, pull, np.where(high, caps - pull, -np.inf))
        worst = int(np.argmax(wrong))
        if wrong[worst] <= MULTIPLIER_TOLERANCE * size:
            break
        low[worst] = high[worst] = False
    return point


def faces_possible(
    weights: FloatArray,
    marginal: FloatArray,
    upper: FloatArray,
    scale: FloatArray,
    linear: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Which of many federations may have more than one optimum: those whose free agents' columns are not independent.

    `weights` is (federations, n, n), `marginal` the marginal welfare at an optimum and `linear` whether costs do not
    bend, both (federations, n).
    """
    free = (np.abs(marginal) * upper <= FREE_TOLERANCE * scale[:, None]) & linear & (upper > 0)
    several = np.flatnonzero(free.sum(axis=1) > 1)
    columns = np.where(free[several, None, :], weights[several] * upper[several, None, :], 0.0)
    norms = np.linalg.norm(columns, axis=2, keepdims=True)
    singular = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    rank = (singular > RANK_TOLERANCE * singular[:, :1]).sum(axis=1)
    return several[rank < free[several].sum(axis=1)]

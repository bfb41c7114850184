"""The set of all welfare optima, and its least-norm point.

Around an optimum s*, with p the prices of shared caps, a lot is *free* if its marginal welfare less p is zero and its
cost is not curved. The optima are the points of the box with

    weights @ s = weights @ s*,      s_l = s_l* where l is not free,      full shared caps full, the others kept.

The rows of the first and third condition, on the free lots, are held as an orthonormal basis (`normals`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray

FREE_TOLERANCE = 1e-10  # of the scale: what moving a free lot through its whole range changes at most
RANK_TOLERANCE = 1e-11  # of the largest singular value: smaller ones change nobody's data
FACE_TOLERANCE = 1e-6  # of the largest contribution: a profile so close to the face is on it
AWAY = 1e-6  # of the largest contribution: a lot so far from its bounds is away from them
MAX_DUAL_STEPS = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalFace:
    """The welfare optima around `point`.

    Attributes
    ----------
    point
        One optimum.
    free
        The lots of which another optimum may hold more or less.
    normals
        Orthonormal (free, rank): s + d is an optimum too, while within all caps, if normals.T @ d[free] = 0.
    upper
        What may be brought of every lot.
    shared, shared_limits
        The rows (shared caps, free) of the shared caps that are not full, and what the other lots leave of them.
    """

    point: FloatArray
    free: NDArray[np.intp]
    normals: FloatArray
    upper: FloatArray
    shared: FloatArray
    shared_limits: FloatArray

    @property
    def is_point(self) -> bool:
        """Whether the optimum is unique."""
        return bool(self.free.size == self.normals.shape[1])

    @cached_property
    def dimension(self) -> int:
        """The dimension of the set of optima."""
        if self.is_point:
            return 0
        inside = self._inside()
        return int(inside.sum() - np.linalg.matrix_rank(self.normals[inside], tol=1e-9)) if inside.any() else 0

    def only_point(self) -> OptimalFace:
        """The face that holds nothing but its point."""
        return replace(self, free=self.free[:0], normals=self.normals[:0, :0], shared=self.shared[:, :0])

    def holds(self, contributions: FloatArray) -> bool:
        """Whether a profile lies on the face, up to rounding."""
        moved = contributions - self.point
        size = FACE_TOLERANCE * max(float(np.abs(self.point).max(initial=0.0)), np.finfo(float).tiny)
        fixed = np.delete(moved, self.free)
        return bool((np.abs(fixed) <= size).all() and (np.abs(self.normals.T @ moved[self.free]) <= size).all())

    def least_norm(self) -> FloatArray:
        """The optimum of smallest Euclidean norm."""
        best = self.point.copy()
        if not self.is_point:
            size = float(self.point[self.free].max())
            if size <= 0:  # nothing is brought: no point has a smaller norm
                return best
            here, upper = self.point[self.free] / size, self.upper[self.free] / size
            found = size * _least_norm(self.normals.T, here, upper, self.shared, self.shared_limits / size)
            best[self.free] = np.minimum(found, self.upper[self.free])  # rounding of the size
        return best

    def vertex(self, direction: FloatArray) -> FloatArray:
        """An optimum that goes furthest along `direction`, given per lot."""
        furthest = self.point.copy()
        if not self.is_point:
            found = self._minimise(-direction[self.free])
            if found is not None:
                furthest[self.free] = np.clip(found, 0.0, self.upper[self.free])
        return furthest

    def _inside(self) -> NDArray[np.bool_]:
        """Which of the free lots are away from their bounds in the middle of the face.

        Each linear program goes as far as it can away from the bounds where lots still stand; in the mean of all points
        found so, every lot is away that can be.
        """
        size = max(float(self.point[self.free].max()), np.finfo(float).tiny)
        here, upper = self.point[self.free], self.upper[self.free]
        inside = (here > AWAY * size) & (here < upper - AWAY * size)
        while not inside.all():
            outward = np.where(inside, 0.0, np.where(here > AWAY * size, 1.0, -1.0))
            found = self._minimise(outward)
            away = np.zeros_like(inside) if found is None else (np.abs(found - here) > AWAY * size) & ~inside
            if not away.any():
                break
            inside |= away
        return inside

    def _minimise(self, costs: FloatArray) -> Any:
        """The free lots' amounts that minimise linear costs over the face; None where rounding leaves none."""
        from scipy.optimize import linprog  # noqa: PLC0415 - heavy, and only needed off the unique case

        return linprog(
            costs,
            A_ub=self.shared if self.shared.size else None,
            b_ub=self.shared_limits if self.shared.size else None,
            A_eq=self.normals.T,
            b_eq=self.normals.T @ self.point[self.free],
            bounds=np.column_stack([np.zeros(self.free.size), self.upper[self.free]]),
            method="highs",
        ).x


def optimal_face(
    arrays: FederationArrays,
    point: FloatArray,
    gradient: FloatArray,
    *,
    upper: FloatArray,
    scale: float,
    prices: FloatArray | None = None,
) -> OptimalFace:
    """The face that holds an optimum of one federation, from the gradient there and the prices of shared caps.

    Cost: one singular value decomposition of the free lots' columns.
    """
    prices = np.zeros(len(arrays.shared)) if prices is None else prices
    full = prices * arrays.shared_limits > FREE_TOLERANCE * scale
    free = np.flatnonzero(_is_free(gradient - prices @ arrays.shared, arrays.quadratic, upper, scale))
    columns = arrays.weights[:, free]
    columns = columns if isinstance(columns, np.ndarray) else columns.toarray()
    shared = arrays.shared[~full]
    left = arrays.shared_limits[~full] - np.delete(shared, free, axis=1) @ np.delete(point, free)
    matters = np.isfinite(left)
    return OptimalFace(
        point=point,
        free=free,
        normals=_row_space(np.concatenate([columns, arrays.shared[full][:, free]]), upper[free]),
        upper=upper,
        shared=shared[matters][:, free],
        shared_limits=left[matters],
    )


def may_have_several(
    arrays: FederationArrays, gradients: FloatArray, upper: FloatArray, scale: FloatArray
) -> NDArray[np.bool_]:
    """Which of many federations may have more than one optimum: those whose free lots' columns are not independent.

    With shared caps all are looked into.
    """
    if arrays.shared.size:
        return np.ones(len(scale), dtype=np.bool_)
    free = _is_free(gradients, arrays.quadratic, upper, scale[:, None])
    several = np.zeros(len(scale), dtype=np.bool_)
    candidates = np.flatnonzero(free.sum(axis=-1) > 1)
    weights = np.broadcast_to(arrays.weights, (len(scale), *arrays.weights.shape[-2:]))[candidates]
    columns = np.where(free[candidates, None, :], weights * upper[candidates, None, :], 0.0)
    norms = np.linalg.norm(columns, axis=-1, keepdims=True)
    singular = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), compute_uv=False)
    rank = (singular > RANK_TOLERANCE * singular[:, :1]).sum(axis=-1)
    several[candidates] = rank < free[candidates].sum(axis=-1)
    return several


def _is_free(
    gradient: FloatArray, quadratic: FloatArray, upper: FloatArray, scale: FloatArray | float
) -> NDArray[np.bool_]:
    return np.asarray((np.abs(gradient) * upper <= FREE_TOLERANCE * scale) & (quadratic == 0) & (upper > 0))


def _row_space(rows: FloatArray, size: FloatArray) -> FloatArray:
    """An orthonormal basis (free, rank) of the directions that change somebody's data."""
    if rows.shape[1] == 0:
        return np.zeros((0, 0))
    scaled = rows * (size / size.max())
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    _, singular, basis = np.linalg.svd(scaled[norms[:, 0] > 0] / norms[norms[:, 0] > 0], full_matrices=False)
    rank = int((singular > RANK_TOLERANCE * singular[:1]).sum())
    if rank == rows.shape[1]:
        return np.eye(rank)
    return np.linalg.qr((basis[:rank] * (size.min() / size)).T)[0]


def _least_norm(
    equal: FloatArray, point: FloatArray, upper: FloatArray, below: FloatArray, limits: FloatArray
) -> FloatArray:
    """min |s|^2 over equal @ s = equal @ point, below @ s <= limits, 0 <= s <= upper; `point` if that fails.

    The minimiser is clip(m @ rows, 0, upper) with multipliers m, at most zero for `below`, at which it meets the
    constraints: the maximiser of a concave function of m made of quadratic pieces, by Newton's method. It ends when the
    set of clipped coordinates stays, and then is a least-norm solution on that set.
    """
    rows, target = np.concatenate([equal, below]), np.concatenate([equal @ point, limits])
    is_equal = np.arange(len(rows)) < len(equal)
    multipliers = np.where(is_equal, np.append(equal @ point, 0.0 * limits), 0.0)
    for _ in range(MAX_DUAL_STEPS):
        missed, taking_part, loose = _dual_gradient(rows, target, upper, is_equal, multipliers)
        if np.abs(missed).max(initial=0.0) <= 1e-12:
            break
        part = rows[np.ix_(taking_part, loose)]
        system = part @ part.T + 1e-12 * np.eye(len(part))
        step = np.zeros(len(rows))
        step[taking_part] = np.linalg.solve(system, missed[taking_part])
        length = 1.0
        while length > 1e-16:  # past the maximum along the step? where all it touches is clipped, far past it
            tried = np.where(is_equal, multipliers + length * step, np.minimum(multipliers + length * step, 0.0))
            ahead = _dual_gradient(rows, target, upper, is_equal, tried)[0]
            if ahead @ (tried - multipliers) >= 0 or np.abs(ahead).max() <= 1e-12:
                break
            length *= 0.5
        multipliers = tried
    _, taking_part, loose = _dual_gradient(rows, target, upper, is_equal, multipliers)
    found = np.clip(multipliers @ rows, 0.0, upper)
    fixed = np.where(loose, 0.0, found)
    part = rows[np.ix_(taking_part, loose)]
    found[loose] = np.linalg.lstsq(part, (target - rows @ fixed)[taking_part], rcond=1e-13)[0]
    found = np.clip(found, 0.0, upper)
    met = np.abs(equal @ (found - point)).max(initial=0.0) <= 1e-9 and (below @ found <= limits * (1.0 + 1e-12)).all()
    return found if met else point


def _dual_gradient(
    rows: FloatArray,
    target: FloatArray,
    upper: FloatArray,
    is_equal: NDArray[np.bool_],
    multipliers: FloatArray,
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """What the constraints miss, which of them take part, and which coordinates are not clipped."""
    reached = multipliers @ rows
    missed = target - rows @ np.clip(reached, 0.0, upper)
    taking_part = is_equal | (multipliers < 0) | (missed < 0)
    return np.where(taking_part, missed, 0.0), taking_part, (reached > 0) & (reached < upper)

"""The set of all welfare optima, and its least-norm point.

Around an optimum s*, with p the prices of shared caps, a lot is *free* if its marginal welfare less p is zero and its
cost is not curved. The optima are the points of the box with

    weights @ s = weights @ s*,      s_l = s_l* where l is not free,      full shared caps full, the others kept.

The rows of the first and third condition, on the free lots, are held as an orthonormal basis (`normals`).

`nearest_point` of a polyhedron to a target, by non-negative least squares: with y = x - target, the least |y| with
G y >= h is y = -r / r_0, where (r, r_0) = (G' u, h' u - 1) is the residual of

    the u >= 0 with the least |G' u|^2 + (h' u - 1)^2,

and no point exists where that is zero (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). The
constraints with u > 0 bind, so that y is the least-norm solution of these, to rounding.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalFace:
    """The welfare optima around `point`: of the `free` lots another optimum may hold more or less.

    With orthonormal `normals` (free, rank), s + d is an optimum too, while within `upper` and the shared caps, if
    normals.T @ d[free] = 0. `shared` are the rows (shared caps, free) of the shared caps that are not full, and
    `shared_limits` what the other lots leave of them.
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
        best, size = self.point.copy(), float(self.point[self.free].max(initial=0.0))
        if self.is_point or size <= 0:  # where nothing is brought, no point has a smaller norm
            return best
        upper, eye = self.upper[self.free], np.eye(self.free.size)
        found = nearest_point(
            self.normals @ (self.normals.T @ self.point[self.free]) / size,
            np.concatenate([eye, -eye, -self.shared]),
            np.concatenate([0.0 * upper, -upper / size, -self.shared_limits / size]),
            self.normals,
        )
        if found is not None:
            best[self.free] = np.clip(size * found, 0.0, upper)
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
    triangle = np.linalg.qr(scaled[norms[:, 0] > 0] / norms[norms[:, 0] > 0], mode="r")
    singular = np.linalg.svd(triangle, compute_uv=False)
    rank = int((singular > RANK_TOLERANCE * singular[:1]).sum())
    if rank == rows.shape[1]:
        return np.eye(rank)
    basis = np.linalg.svd(triangle, full_matrices=False)[2]
    return np.linalg.qr((basis[:rank] * (size.min() / size)).T)[0]


MOVABLE = 1e-5  # of a row: what is left of it along the plane, where x can be moved to meet it
VIOLATION_TOLERANCE = 1e-12
NO_POINT = 1e-10  # -r_0 is 1 / (1 + |y|^2): below this no point is near


def nearest_point(
    target: FloatArray, rows: FloatArray, limits: FloatArray, normals: FloatArray, *, tolerance: float = 0.0
) -> FloatArray | None:
    """The x nearest to the target with rows @ x >= limits and normals.T @ (x - target) = 0; None where there is none.

    `normals` are orthonormal columns; numbers should be of the size of one. What a limit is missed by counts up to the
    `tolerance`.
    """
    along = rows - (rows @ normals) @ normals.T
    movable = np.linalg.norm(along, axis=1) > MOVABLE * np.linalg.norm(rows, axis=1)
    along, missing = along[movable], (limits - rows @ target)[movable] - tolerance
    if (missing <= VIOLATION_TOLERANCE).all():
        return target
    from scipy.optimize import nnls  # noqa: PLC0415 - heavy, and only where something binds

    system, right = np.concatenate([along.T, missing[None]]), np.append(np.zeros(target.size), 1.0)
    multipliers = nnls(system, right, maxiter=100 * missing.size)[0]
    if 1.0 - missing @ multipliers < NO_POINT:
        return None
    binding = multipliers > 0
    moved = np.linalg.lstsq(along[binding], missing[binding], rcond=1e-12)[0]
    return target + moved if (missing - along @ moved).max() <= VIOLATION_TOLERANCE else None

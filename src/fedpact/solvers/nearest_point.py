"""The point of a polyhedron nearest to a target, by non-negative least squares.

With y = x - target, the least |y| with G y >= h is y = -r / r_0, where (r, r_0) = (G' u, h' u - 1) is the residual of

    the u >= 0 with the least |G' u|^2 + (h' u - 1)^2,

and no point exists where that is zero (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). The
constraints with u > 0 bind, so that y is the least-norm solution of these, to rounding.
"""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

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

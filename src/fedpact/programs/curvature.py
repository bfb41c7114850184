"""Newton systems: (curvature + diagonal) d = r, dense or sparse, one or a stack of them.

A dense curvature may be a stack of matrices, one per program of a batch: all arrays may carry leading batch axes, and
one call solves many programs of the same size side by side. A sparse one is never formed: with weights W and bends
b >= 0 it is W^T diag(b) W + diag(d), a product costs two passes over the non-zeros, and conjugate gradients solve the
system.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

# Ridge of systems without a barrier, per coordinate: picks a step where there is no curvature.
NEWTON_RIDGE = 1e-13
CHOLESKY_SIZE = 48  # from this size on a single dense system is factorised as symmetric
# Of conjugate gradients: a step on the way need not be exact, only those that finish more nearly so.
CG_TOLERANCE_ON_THE_WAY, CG_TOLERANCE = 0.1, 1e-2
MAX_CG_STEPS = 400


class Curvature:
    """What the interior point asks of a curvature."""

    @property
    def diagonal(self) -> FloatArray:
        """How much every coordinate bends by itself."""
        raise NotImplementedError

    def solve(self, diagonal: FloatArray, right: FloatArray) -> FloatArray:
        """(curvature + diagonal)^-1 right."""
        raise NotImplementedError

    def solve_free(self, held: NDArray[np.bool_], right: FloatArray) -> FloatArray:
        """The same without a diagonal, over the coordinates that are not held; held ones get 0."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class DenseCurvature(Curvature):
    """A matrix, or a stack of them, (..., n, n)."""

    matrix: FloatArray

    @classmethod
    def scaled(cls, hessian: FloatArray, left: FloatArray, right: FloatArray) -> DenseCurvature:
        """-left hessian right."""
        return cls(-left[..., :, None] * hessian * right[..., None, :])

    @property
    def diagonal(self) -> FloatArray:
        return np.diagonal(self.matrix, axis1=-2, axis2=-1)

    def solve(self, diagonal: FloatArray, right: FloatArray) -> FloatArray:
        return solve_systems(_add_diagonal(self.matrix, diagonal), right)

    def solve_free(self, held: NDArray[np.bool_], right: FloatArray) -> FloatArray:
        loose = ~(held[..., :, None] | held[..., None, :])
        ridge = NEWTON_RIDGE * (1.0 + np.abs(self.diagonal))
        matrix = _add_diagonal(np.where(loose, self.matrix, 0.0), np.where(held, 1.0, ridge))
        return np.where(held, 0.0, solve_systems(matrix, np.where(held, 0.0, right)))


@dataclass(frozen=True, eq=False)
class SparseCurvature(Curvature):
    """left^T W^T diag(bends) W right + diag(plain): `left` and `right` scale the coordinates.

    `squares` are the weights squared, entry by entry.
    """

    weights: sp.csr_array
    squares: sp.csr_array
    bends: FloatArray
    plain: FloatArray
    left: FloatArray
    right: FloatArray

    @cached_property
    def diagonal(self) -> FloatArray:
        return self.left * self.right * (self.squares.T @ self.bends) + self.plain

    def solve(self, diagonal: FloatArray, right: FloatArray) -> FloatArray:
        return self._conjugate_gradients(diagonal, right, np.ones(right.size), CG_TOLERANCE_ON_THE_WAY)

    def solve_free(self, held: NDArray[np.bool_], right: FloatArray) -> FloatArray:
        free = np.where(held, 0.0, 1.0)
        return self._conjugate_gradients(np.where(held, 1.0, NEWTON_RIDGE), right * free, free, CG_TOLERANCE)

    def _conjugate_gradients(
        self, diagonal: FloatArray, right: FloatArray, free: FloatArray, tolerance: float
    ) -> FloatArray:
        """Scaled to a unit diagonal, which barriers spread over many orders of magnitude."""
        from scipy.sparse.linalg import LinearOperator, cg  # noqa: PLC0415 - for large sparse systems only

        unit = 1.0 / np.sqrt(np.where(free > 0, self.diagonal, 0.0) + diagonal)
        plain = np.where(free > 0, self.plain, 0.0) + diagonal

        def product(direction: FloatArray) -> FloatArray:
            scaled = unit * direction.ravel()
            reached = self.weights.T @ (self.bends * (self.weights @ (self.right * scaled)))
            return unit * (free * (self.left * reached) + plain * scaled)

        operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
        solution, _ = cg(operator, unit * right, rtol=tolerance, atol=0.0, maxiter=MAX_CG_STEPS)
        return np.asarray(unit * solution)


def solve_systems(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """The solutions of one or many dense systems, symmetric ones; NaN where they are singular."""
    if matrix.ndim == 2 and matrix.shape[0] >= CHOLESKY_SIZE and np.isfinite(matrix).all():
        from scipy.linalg import LinAlgError, cho_factor, cho_solve  # noqa: PLC0415 - for large systems only

        try:
            return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False))
        except LinAlgError:  # not positive definite by rounding
            pass
    try:
        return np.asarray(np.linalg.solve(matrix, right[..., None])[..., 0], dtype=np.float64)
    except np.linalg.LinAlgError:
        if matrix.ndim == 2:
            return np.full_like(right, np.nan)
        return np.array([solve_systems(one, other) for one, other in zip(matrix, right, strict=True)])


def _add_diagonal(matrix: FloatArray, diagonal: FloatArray) -> FloatArray:
    total = matrix.copy()
    index = np.arange(matrix.shape[-1])
    total[..., index, index] += diagonal
    return total

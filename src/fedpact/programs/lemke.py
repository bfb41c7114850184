"""Lemke's method for the linear complementarity problem: find z >= 0 with w = M z + q >= 0 and z.w = 0.

It follows a path of almost complementary solutions and, for copositive M such as non-negative matrices with a positive
diagonal, ends at a solution (Cottle, Pang and Stone, The Linear Complementarity Problem, section 4.4). Ties are broken
lexicographically, so it does not cycle. Cost: a few n pivots of n^2 each.
"""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

__all__ = ["lemke"]

MOST_PIVOTS_PER_VARIABLE = 50
SMALLEST_PIVOT = 1e-11


def lemke(matrix: FloatArray, constants: FloatArray) -> FloatArray | None:
    """A solution z, or None if the path ends in a ray or takes too long."""
    size = constants.size
    if (constants >= 0).all():
        return np.zeros(size)
    # Columns: w (the identity), z, the artificial variable, the constants.
    tableau = np.hstack([np.eye(size), -matrix, -np.ones((size, 1)), constants[:, None]])
    artificial = 2 * size
    basis = np.arange(size)
    row = int(np.argmin(constants))
    entering = artificial
    for _ in range(MOST_PIVOTS_PER_VARIABLE * size):
        leaving = int(basis[row])
        _pivot(tableau, row, entering)
        basis[row] = entering
        if leaving == artificial:
            solution = np.zeros(2 * size + 1)
            solution[basis] = tableau[:, -1]
            return np.maximum(solution[size : 2 * size], 0.0)
        entering = leaving + size if leaving < size else leaving - size
        column = tableau[:, entering]
        rows = np.flatnonzero(column > SMALLEST_PIVOT * max(1.0, float(np.abs(column).max())))
        if rows.size == 0:
            return None
        row = _first_to_vanish(tableau, rows, column, basis, artificial)
    return None


def _pivot(tableau: FloatArray, row: int, column: int) -> None:
    tableau[row] /= tableau[row, column]
    factors = tableau[:, column].copy()
    factors[row] = 0.0
    tableau -= np.outer(factors, tableau[row])


def _first_to_vanish(tableau: FloatArray, rows: np.ndarray, column: FloatArray, basis: np.ndarray, last: int) -> int:
    """The row of the smallest ratio; among equals the artificial variable's, else the lexicographically smallest."""
    ratios = tableau[rows, -1] / column[rows]
    tied = rows[ratios <= ratios.min() + 1e-12 * max(1.0, abs(float(ratios.min())))]
    if tied.size > 1:
        if (basis[tied] == last).any():
            return int(tied[basis[tied] == last][0])
        keys = tableau[tied, : basis.size] / column[tied][:, None]
        return int(tied[np.lexsort(keys.T[::-1])[0]])
    return int(tied[0])

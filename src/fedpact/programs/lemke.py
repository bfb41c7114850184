"""Lemke's method for linear complementarity problems over a box, which finds a solution whatever the matrix is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

MAX_PIVOTS_PER_VARIABLE = 50
PIVOTS_PER_FACTORISATION = 20
MIN_PIVOT = 1e-11
TIE_DIGITS = 9  # of numbers about one, by which rows of equal ratios are told apart


def box_lemke(
    matrix: FloatArray, constants: FloatArray, caps: FloatArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Who is at zero and who at its cap in a solution of  w = M z + q,  z in [0, caps],  w >= 0 at 0, <= 0 at caps.

    Lemke's path of the solutions with q + theta: from z = 0 at a large theta down to theta = 0. Since z is bounded and
    z = caps is the only solution at a very negative theta, the path must cross zero: a solution is found whatever M is
    (Cottle, Pang and Stone, The Linear Complementarity Problem, section 4.4). Ties are broken lexicographically, so it
    does not cycle. None if it takes too many pivots. Cost: a few n pivots of n^2 each. SciPy has no such solver.
    """
    n_agents = constants.size
    size = 2 * n_agents
    block = np.zeros((size, size))
    block[:n_agents, :n_agents] = matrix
    block[:n_agents, n_agents:], block[n_agents:, :n_agents] = np.eye(n_agents), -np.eye(n_agents)
    # Columns: the slacks (the identity), z and the slope at the caps, theta, the constants.
    theta = 2 * size
    lowered = np.concatenate([np.ones(n_agents), np.zeros(n_agents)])
    given = np.hstack([np.eye(size), -block, -lowered[:, None], np.concatenate([constants, caps])[:, None]])
    tableau, basis = given.copy(), np.arange(size)
    row, entering = int(np.argmin(constants)), theta
    if constants[row] >= 0:
        return np.full(n_agents, True), np.full(n_agents, False)
    for pivot in range(1, MAX_PIVOTS_PER_VARIABLE * size):
        leaving = int(basis[row])
        _pivot(tableau, row, entering)
        basis[row] = entering
        if leaving == theta:
            inside = np.isin(np.arange(2 * size), basis)
            return ~inside[size : size + n_agents], inside[size + n_agents : 2 * size]
        if pivot % PIVOTS_PER_FACTORISATION == 0:
            tableau = np.linalg.solve(given[:, basis], given)
        entering = leaving + size if leaving < size else leaving - size
        column = tableau[:, entering]
        rows = np.flatnonzero(column > MIN_PIVOT * max(1.0, float(np.abs(column).max())))
        if rows.size == 0:
            return None
        row = _first_to_vanish(tableau, rows, column, basis, theta)
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
        keys = np.round(tableau[tied, : basis.size] / column[tied][:, None], TIE_DIGITS)
        return int(tied[np.lexsort(keys.T[::-1])[0]])
    return int(tied[0])

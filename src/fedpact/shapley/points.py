"""A few points that stand for many numbers: Chebyshev interpolation on a scale that is linear near zero, then log.

Smooth functions h of data x are known from their values at P points: h(x) = sum_p b_p(x) h(point_p), with the Lagrange
polynomials b_p at Chebyshev points of z = asinh(x / unit). So sums over members become sums over points, with

    sum_k h(x_k) = sum_p counts_p h(point_p),      counts_p = sum_k b_p(x_k).

Functions of t x, t up to 1 / unit, are smooth in z from the largest to the smallest x and through zero.

With baby steps T_b, b < B, and giant steps T_aB of the Chebyshev polynomials of z, every T_k is a combination of the
products T_aB T_b, since T_(aB+b) = 2 T_aB T_b - T_(aB-b). So are the b_p: P of them cost about 2 sqrt(P) numbers for
every x, and one matrix product with a matrix that depends on P alone.
"""

from __future__ import annotations

import copy
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

BABY_STEPS = 8


class Points:
    """Points for the data x, (receivers, members), of either sign and zero included; `at` (P,) is where they are."""

    def __init__(self, x: FloatArray, unit: float, per_unit: float) -> None:
        self.unit = unit
        z = np.arcsinh(x / unit)
        low, high = float(z.min()), float(z.max())
        middle, half = 0.5 * (low + high), max(0.5 * (high - low), 1e-6 * abs(high)) or 1.0
        self.n_points = int(np.ceil(8 + per_unit * (high - low)))
        angles = (2 * np.arange(self.n_points) + 1) * np.pi / (2 * self.n_points)
        self.at = unit * np.sinh(middle + half * np.cos(angles))
        self._products = _lagrange_of_products(self.n_points)
        n_giant = -(-self.n_points // BABY_STEPS)
        place = np.clip((z - middle) / half, -1.0, 1.0)
        self._baby = np.empty((len(x), BABY_STEPS, x.shape[1]))
        last = _chebyshev(place, self._baby)
        self._giant = np.empty((len(x), n_giant, x.shape[1]))
        _chebyshev(last, self._giant)

    def take(self, receivers: NDArray[np.intp]) -> Points:
        """The points with the data of some of the receivers."""
        taken = copy.copy(self)
        taken._baby, taken._giant = self._baby[receivers], self._giant[receivers]
        return taken

    def counts(self, weights: FloatArray) -> FloatArray:
        """(receivers, P): sums over the members, by their weights, of what each point counts for."""
        together = np.matmul(self._giant * weights[:, None, :], np.swapaxes(self._baby, 1, 2))
        return np.asarray(together.reshape(len(together), -1) @ self._products)

    def interpolate(self, values: FloatArray) -> FloatArray:
        """(receivers, functions, members): functions, (receivers, functions, P) at the points, at every x."""
        products = (values @ self._products.T).reshape(*values.shape[:2], -1, BABY_STEPS)
        found = np.zeros((*values.shape[:2], self._baby.shape[2]))
        for step in range(products.shape[2]):
            found += np.matmul(products[:, :, step], self._baby) * self._giant[:, step, None]
        return found


def _chebyshev(z: FloatArray, found: FloatArray) -> FloatArray:
    """Fill (receivers, K, members) with T_0(z) to T_(K-1)(z); T_K(z)."""
    before, last = np.ones_like(z), z
    for k in range(found.shape[1]):
        found[:, k] = before
        before, last = last, 2.0 * z * last - before
    return before


@lru_cache(maxsize=64)
def _lagrange_of_products(n_points: int) -> FloatArray:
    """(giant x baby steps, P): the Lagrange polynomials as combinations of the products T_aB T_b."""
    n_giant = -(-n_points // BABY_STEPS)
    chebyshev = np.zeros((n_giant * BABY_STEPS, n_giant * BABY_STEPS))  # row k: T_k
    for k in range(n_points):
        a, b = divmod(k, BABY_STEPS)
        chebyshev[k, k] = 1.0 if a == 0 or b == 0 else 2.0
        if a and b:
            chebyshev[k] -= chebyshev[k - 2 * b]
    angles = (2 * np.arange(n_points) + 1) * np.pi / (2 * n_points)
    orders = np.arange(n_points)
    coefficients = np.where(orders == 0, 1.0, 2.0)[:, None] / n_points * np.cos(orders[:, None] * angles)
    return np.asarray(chebyshev[:n_points].T @ coefficients)

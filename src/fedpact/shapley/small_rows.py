"""The integrals of `fedpact.shapley.kernels` in NumPy, all receivers side by side: for tens of agents.

Nothing is compiled and nothing loaded. Receivers whom somebody harms are left to the kernels. As there, the times near
zero are dealt with all at once, by polynomials in x (`fedpact.shapley.kernels_near_zero`), and the others one after the
other by the product at every q, divided by each agent's factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedpact.utils.arrays import FloatArray

# Up to this largest t x, m = 1 - e^{-t x} is a polynomial in t x of this degree to the last digit.
MAX_SMALL_EXPONENT, DEGREE = 0.01, 9
NUMBERS_AT_A_TIME = 1 << 16
Rule = tuple[FloatArray, FloatArray]


def powers_of_m(degree: int) -> FloatArray:
    """Row p: the coefficients of (1 - e^{-u})^p in powers of u, up to a degree."""
    m = np.array([0.0] + [-((-1.0) ** j) / math.factorial(j) for j in range(1, degree + 1)])
    rows = np.zeros((degree + 1, degree + 1))
    rows[0, 0] = 1.0
    for p in range(1, degree + 1):
        rows[p] = np.convolve(rows[p - 1], m)[: degree + 1]
    return rows


POWERS_OF_M = powers_of_m(DEGREE)


class SmallRows:
    """Receivers that nobody harms, as matrices (receivers, entries), filled up with entries that count for nothing.

    `exact` are nodes on [0, 1] for as few factors as there are; if it is empty, `roots` are nodes in sqrt(q), up to
    where the integrand has fallen by `living` e-foldings.
    """

    def __init__(
        self, starts: np.ndarray, x: FloatArray, counts: FloatArray, *, exact: Rule, roots: Rule, living: float
    ) -> None:
        lengths = np.diff(starts)
        self.there = np.arange(lengths.max(initial=0)) < lengths[:, None]
        self.x, self.counts = self.spread(x), self.spread(counts)
        self._repeated = bool((counts != 1.0).any())
        self._living = living if not exact[0].size else np.inf
        self._q, self._q_weights = exact if exact[0].size else (roots[0] ** 2, 2.0 * roots[0] * roots[1])
        self._factors = np.empty((0, 0, 0))

    def spread(self, entries: FloatArray) -> FloatArray:
        """The entries as a matrix."""
        matrix = np.zeros(self.there.shape)
        matrix[self.there] = entries
        return matrix

    def sums(self, times: FloatArray, log_masses: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What every entry is credited with, and its first and second derivatives, the second negated."""
        largest = np.maximum(self.x.max(axis=1, initial=0.0), np.finfo(float).tiny)
        near = int((times * largest[:, None] <= MAX_SMALL_EXPONENT).all(axis=0).sum())
        found, shares = np.zeros((3, *self.x.shape)), _powers(self.x / largest[:, None], DEGREE)
        for some in self._pieces(0, near, 4 * self.x.shape[0]):  # several such arrays are in use at a time
            found += self._near_zero(shares, largest, times[:, some], np.exp(log_masses[:, some]))
        value, slope, bend = found
        for some in self._pieces(near, times.shape[1], self.x.size):
            t, m, e = self._exponentials(times[:, some])
            factors, part, _ = self._products(m, np.exp(log_masses[:, some]))
            total = np.einsum("krq->rk", np.divide(part, factors, out=factors)).reshape(m.shape)
            value += (total * m).sum(axis=1)
            rate = total * e * t
            slope += rate.sum(axis=1)
            bend += (rate * t).sum(axis=1)
        return value[self.there], slope[self.there], bend[self.there]

    def curvature(self, times: FloatArray, log_masses: FloatArray, weights: FloatArray) -> FloatArray:
        """(times, entries): rows b, one per receiver and time, with sum b b^T = minus the potential's Hessian.

        Off its diagonal; as `fedpact.shapley.kernels.curvature_helped` has them, at the mean of q under its weight.
        """
        rows, spread = np.zeros((times.shape[1], *self.x.shape)), self.spread(weights)[:, None, :]
        for some in self._pieces(0, times.shape[1], self.x.size):
            t, m, e = self._exponentials(times[:, some])
            _, part, q = self._products(m, np.exp(log_masses[:, some]))
            first = (part * q).sum(axis=1)
            mean = (part * q * q).sum(axis=1) / np.where(first > 0.0, first, 1.0)
            size, mean = np.sqrt(first).reshape(t.shape), mean.reshape(t.shape)
            rows[some] = (size * t * spread * e / (1.0 - mean * m)).transpose(1, 0, 2)
        return rows[:, self.there]

    def _pieces(self, first: int, last: int, each: int) -> Iterator[slice]:
        """Times that are dealt with together: as many as the nearest memory holds, with `each` numbers at every q."""
        size = max(1, NUMBERS_AT_A_TIME // max(1, each * self._q.size))
        return (slice(start, min(start + size, last)) for start in range(first, last, size))

    def _exponentials(self, times: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """t, (receivers, times, 1); m = 1 - e^{-t x} and e^{-t x}, (receivers, times, entries)."""
        t = times[:, :, None]
        exponents = -t * self.x[:, None, :]
        return t, -np.expm1(exponents), np.exp(exponents)

    def _products(self, m: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The factors, (entries, rows, q), a row per receiver and time; level x weight x their product, and q."""
        end = self._end((self.counts[:, None, :] * m).sum(axis=2).ravel())
        q = end[:, None] * self._q
        columns = m.reshape(q.shape[0], -1).T[:, :, None]
        if self._factors.shape[1] != q.shape[0]:
            self._factors = np.empty((*columns.shape[:2], q.shape[1]))
        factors = np.multiply(columns, q, out=self._factors)  # memory that is used again: fresh pages take long
        np.subtract(1.0, factors, out=factors)
        if self._repeated:
            logs = np.repeat(self.counts, m.shape[1], axis=0).T[:, :, None] * np.log(factors)
            product = np.exp(logs.sum(axis=0))
        else:
            product = np.multiply.reduce(factors, axis=0)
        return factors, (levels.ravel() * end)[:, None] * self._q_weights * product, q

    def _end(self, mass: FloatArray) -> FloatArray:
        """Up to where q goes."""
        return np.ones_like(mass) if np.isinf(self._living) else self._living / np.maximum(mass, self._living)

    def _near_zero(self, shares: FloatArray, largest: FloatArray, times: FloatArray, levels: FloatArray) -> FloatArray:
        """Times with t x small for everybody: every sum is one of polynomials, (powers, receivers x times).

        `shares` are the powers of each x / largest. What `sums` returns, one above the other.
        """
        scaled = _powers(times * largest[:, None], DEGREE)
        sums = scaled * (self.counts * shares).sum(axis=2)[:, :, None]
        series = POWERS_OF_M[:DEGREE] @ sums.reshape(DEGREE + 1, -1)  # row p: the sum over k of counts_k m_k^p
        end = self._end(series[1])
        ends, nodes = _powers(end, DEGREE - 1), _powers(self._q, DEGREE - 1)
        exponents = (nodes[1:] / np.arange(1, DEGREE)[:, None]).T @ (series[1:] * ends[1:])
        part = self._q_weights[:, None] * np.exp(-exponents, out=exponents)
        moments = (nodes @ part) * (ends * end * levels.ravel())
        worth, rate = (each.T @ moments for each in (POWERS_OF_M[1:], POWERS_OF_M[:DEGREE] - POWERS_OF_M[1:]))
        rate = rate.reshape(scaled.shape) * scaled * times
        credited = (worth.reshape(scaled.shape) * scaled, rate, rate * times)
        return np.stack([np.einsum("jrk,jr->rk", shares, each.sum(axis=2)) for each in credited])


def _powers(numbers: FloatArray, highest: int) -> FloatArray:
    """(highest + 1, ...): the numbers to the powers 0, 1, 2, ..."""
    found = np.ones((highest + 1, *numbers.shape))
    for power in range(highest):
        np.multiply(found[power], numbers, out=found[power + 1])
    return found

"""One receiver's integral over t and q, for `fedpact.certificates.shapley_check`: in NumPy, with nodes of its own.

At every t the product over all senders of 1 - q m, m = 1 - e^{-t x}, is formed on the nodes in q and divided by each
sender's factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

# Gauss-Legendre nodes in q by the sum M of all m; beyond, as many as a product needs that has fallen by e^-LIVING.
Q_LADDER = ((1e-3, 2), (1.0, 5), (6.0, 9), (np.inf, 20))
Q_NODES, LIVING = 20, 30.0
GRID_NODES, PEAK_NODES = 65, 64  # where the product has a peak: the grid it is looked for on, and the nodes around it
ZOOMS = 2
MAX_FACTORS = 60_000  # of the product, worked out at once


def weighted_gains(log_left: FloatArray, exponents: FloatArray) -> FloatArray:
    """left (1 - e^exponent); left and e^exponent may each be out of range."""
    left = np.exp(log_left)
    near = left * -np.expm1(np.minimum(exponents, 1.0))
    return np.where(exponents > 1.0, left - np.exp(log_left + exponents), near)


def sender_credits(times: FloatArray, log_masses: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of a receiver whom nobody harms: what it credits everybody with, and what more data of theirs would add.

    Those who bring nothing have a factor of one: what is left without them is the same for all of them.
    """
    active, masses = np.flatnonzero(x), np.exp(log_masses)
    nobody = np.zeros(active.size, dtype=np.bool_)
    pulls = x[active]
    damped = np.exp(-times[:, None] * pulls)
    m = -np.expm1(-times[:, None] * pulls)
    left, left_to_idle = np.empty(m.shape), np.empty(times.size)
    for rows, count in _ladder(m.sum(axis=1), active.size):
        left[rows], left_to_idle[rows] = _integrals_over_q(m[rows], nobody, slice(None), count)
    values, rates = np.zeros(x.size), np.full(x.size, float((times * masses) @ left_to_idle))
    values[active] = masses @ (left * m)
    rates[active] = (times * masses) @ (left * damped)
    return values, rates


def _ladder(mass: FloatArray, n_factors: int) -> Iterator[tuple[NDArray[np.intp], int | None]]:
    """The rows with as many nodes in q as they need, a few at a time; None where the product may be peaked."""
    below = -1.0
    for limit, count in Q_LADDER:
        rows = np.flatnonzero((mass > below) & (mass <= limit))
        below = limit
        size = max(1, MAX_FACTORS // (count * max(n_factors, 1)))
        for first in range(0, rows.size, size):
            yield rows[first : first + size], count if np.isfinite(limit) else None


def log_left_without(
    times: FloatArray, x: FloatArray, chosen: NDArray[np.intp], probability: float | None
) -> FloatArray:
    """log of int_0^1 dq prod_{k != j} (1 - q + q e^{-t x_k}), one row per t and one column per chosen j.

    With m = 1 - e^{-t |x|} a factor is 1 - q m, or e^{t |x|} (1 - (1 - q) m) where x is harm. With a `probability`
    that is the only q.
    """
    harm = np.maximum(-x, 0.0)
    m = -np.expm1(-times[:, None] * np.abs(x))
    if probability is not None:
        logs = np.log(_factors(m, harm > 0, np.full((times.size, 1), probability)))[:, 0]
        return logs.sum(axis=1, keepdims=True) - logs[:, chosen] + times[:, None] * (harm.sum() - harm[chosen])
    # A polynomial in q whose coefficients fall like M^d / d!; around the middle, where harm counts from, like (2 M)^d.
    mass = m.sum(axis=1) * (2.0 if harm.any() else 1.0)
    left = np.empty((times.size, chosen.size))
    for rows, count in _ladder(mass, x.size):
        left[rows] = _sum_over_q(m[rows], harm > 0, chosen, count)
    return left + times[:, None] * (harm.sum() - harm[chosen])


def _sum_over_q(m: FloatArray, harms: NDArray[np.bool_], chosen: NDArray[np.intp], count: int | None) -> FloatArray:
    """log of the integral of the product without each chosen factor, by `count` nodes; None where it may be peaked."""
    if not harms.any():
        return np.log(_integrals_over_q(m, harms, chosen, count)[0])
    factors, weights = _on_nodes(m, harms, count)
    level = np.log(factors).sum(axis=2)  # out of range as a product
    peak = level.max(axis=1, keepdims=True)
    return peak + np.log(np.einsum("tq,tqj->tj", weights * np.exp(level - peak), 1.0 / factors[:, :, chosen]))


def _integrals_over_q(
    m: FloatArray, harms: NDArray[np.bool_], chosen: NDArray[np.intp] | slice, count: int | None
) -> tuple[FloatArray, FloatArray]:
    """The integral of the product without each chosen factor, and with all of them, where nobody harms."""
    factors, weights = _on_nodes(m, harms, count)
    products = weights * factors.prod(axis=2)
    return np.einsum("tq,tqj->tj", products, 1.0 / factors[:, :, chosen]), products.sum(axis=1)


def _on_nodes(m: FloatArray, harms: NDArray[np.bool_], count: int | None) -> tuple[FloatArray, FloatArray]:
    """The factors (T, Q, K) on the nodes in q, and the weights (T, Q) of these."""
    start, end = np.zeros(m.shape[0]), np.ones(m.shape[0])
    if count is None:
        exact = harms.size // 2 + 2  # nodes for a polynomial of this degree
        count = min(exact, PEAK_NODES if harms.any() else Q_NODES)
        if exact > count and harms.any():
            for _ in range(ZOOMS):
                start, end = _zoom(m, harms, start, end)
        elif exact > count:
            end = np.minimum(LIVING / m.sum(axis=1), 1.0)
    nodes, weights = _gauss_legendre(count)
    width = (end - start)[:, None]
    return _factors(m, harms, start[:, None] + width * nodes), width * weights


def _zoom(m: FloatArray, harms: NDArray[np.bool_], start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The part of [start, end] on which the log-concave product is within `LIVING` e-foldings of its peak."""
    grid = start[:, None] + (end - start)[:, None] * np.linspace(0.0, 1.0, GRID_NODES)
    level = np.log(_factors(m, harms, grid)).sum(axis=2)
    lives = level >= level.max(axis=1, keepdims=True) - LIVING
    first = np.maximum(lives.argmax(axis=1) - 1, 0)
    last = np.minimum(GRID_NODES - lives[:, ::-1].argmax(axis=1), GRID_NODES - 1)
    rows = np.arange(grid.shape[0])
    return grid[rows, first], grid[rows, last]


def _factors(m: FloatArray, harms: NDArray[np.bool_], q: FloatArray) -> FloatArray:
    """1 - q m, or 1 - (1 - q) m for those who harm: (T, Q, K)."""
    part = q[:, :, None]
    return 1.0 - (np.where(harms, 1.0 - part, part) if harms.any() else part) * m[:, None, :]


@lru_cache(maxsize=64)
def _gauss_legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0

"""The part of the quadrature near t = 0, for a receiver that nobody harms: all these t at the cost of one.

Where t x is small for everybody, m = 1 - e^{-t x} and its powers are polynomials in x. The power sums of m then follow
from those of x, and what the agents are credited with adds up to one polynomial in x, evaluated once per agent.
"""

# The loops are written out for the compiler.
from __future__ import annotations

import math

import numba as nb
import numpy as np

from fedpact.shapley.small_rows import powers_of_m

FAST = {"reassoc", "contract", "nsz", "arcp"}
# Up to this largest t x, m is a polynomial in t x of this degree to the last digit.
MAX_EXPONENT_NEAR_ZERO, DEGREE = 0.004, 9
POWERS_OF_M = powers_of_m(DEGREE)


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def lay_q(mass, exact_nodes, exact_weights, roots, root_weights, living, q, q_weights):
    """Nodes on [0, 1]: exact for few agents, else Gauss-Legendre in sqrt(q) up to where the integrand lives.

    Returns the end of the range.
    """
    if exact_nodes.size:
        for i in range(exact_nodes.size):
            q[i] = exact_nodes[i]
            q_weights[i] = exact_weights[i]
        return 1.0
    end = math.sqrt(living / mass) if mass > living else 1.0
    for i in range(roots.size):
        root = end * roots[i]
        q[i] = root * root
        q_weights[i] = 2.0 * root * end * root_weights[i]
    return end * end


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _near_zero(x, largest, counts, times, log_masses, roots, living, tol, q, q_weights, part, value, slope, bend):
    """All t with t x small for everybody, at the cost of one: sums over agents and credits are polynomials in x.

    Fills `value`, `slope` and `bend`; returns how many of the times, which rise, were dealt with.
    """
    sums, credits = np.zeros(DEGREE + 1), np.zeros((3, DEGREE + 1))
    for k in range(x.size):
        raised = counts[k]
        for j in range(1, DEGREE + 1):
            raised *= x[k] / largest
            sums[j] += raised
    moments, scaled, series = np.empty(DEGREE + 1), np.empty(DEGREE + 1), np.empty(DEGREE + 1)
    place = 0
    while place < times.size and times[place] * largest <= MAX_EXPONENT_NEAR_ZERO:
        t = times[place]
        level = math.exp(log_masses[place])
        scaled[0] = 1.0
        for j in range(1, DEGREE + 1):
            scaled[j] = scaled[j - 1] * t * largest
        mass = 0.0
        for j in range(1, DEGREE + 1):
            mass += POWERS_OF_M[1, j] * scaled[j] * sums[j]
        end = lay_q(mass, q[:0], q[:0], roots[0], roots[1], living, q, q_weights)
        top = end * t * largest
        terms = 2 if top < 1e-12 else min(int(math.log(tol) / math.log(top)) + 2, DEGREE - 1)
        for p in range(1, terms + 1):
            series[p] = 0.0
            for j in range(p, DEGREE + 1):
                series[p] += POWERS_OF_M[p, j] * scaled[j] * sums[j]
            series[p] /= p
        for i in range(q_weights.size):
            exponent = 0.0
            for p in range(terms, 0, -1):
                exponent = (exponent + series[p]) * q[i]
            part[i] = level * q_weights[i] * math.exp(-exponent)
        for p in range(terms + 1):
            moments[p] = 0.0
            for i in range(q_weights.size):
                moments[p] += part[i]
                part[i] *= q[i]
        for j in range(DEGREE + 1):
            worth, rate = 0.0, 0.0
            for p in range(terms + 1):
                worth += moments[p] * POWERS_OF_M[p + 1, j]
                rate += moments[p] * (POWERS_OF_M[p, j] - POWERS_OF_M[p + 1, j])
            credits[0, j] += worth * scaled[j]
            credits[1, j] += rate * scaled[j] * t
            credits[2, j] += rate * scaled[j] * t * t
        place += 1
    for k in range(x.size):
        z = x[k] / largest
        worth, rate, turn = 0.0, 0.0, 0.0
        for j in range(DEGREE, -1, -1):
            worth = worth * z + credits[0, j]
            rate = rate * z + credits[1, j]
            turn = turn * z + credits[2, j]
        value[k] = worth
        slope[k] = rate
        bend[k] = turn
    return place


@nb.njit(cache=True, nogil=True, error_model="numpy")
def sum_near_zero(receivers, starts, x, counts, times, log_masses, roots, living, tol, done, value, slope, bend):
    """The integrals of the receivers up to the time `done[i]`, which is filled, as `value`, `slope` and `bend` are."""
    n_q = roots[0].size
    q, q_weights, part = np.empty(n_q), np.empty(n_q), np.empty(n_q)
    for i in receivers:
        own = slice(starts[i], starts[i + 1])
        largest = 0.0
        for k in range(starts[i], starts[i + 1]):
            largest = max(largest, x[k])
        if largest > 0.0:
            done[i] = _near_zero(
                x[own], largest, counts[own], times[i], log_masses[i], roots, living, tol, q, q_weights, part,
                value[own], slope[own], bend[own],
            )  # fmt: skip

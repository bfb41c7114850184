"""The compiled heart of the quadrature: one receiver's integral over t and q, for every agent whose data reaches it.

With m_k = 1 - e^{-t x_k}, x_k = w_ik s_k, a receiver credits agent j with

    sum over t, q of weight x m_j x prod_{k != j} (1 - q m_k).

The nodes t are spaced by a fixed fraction of an octave, so m at 2t follows from m at t as m (2 - m), without another
exponential; from e = 1 - m < 1/2 on, e is squared instead, which keeps the digits of both. The product does not depend
on j once divided by its j-th factor, so it is formed once per t. Where q m is small, as in all large federations, its
logarithm is a short series in the power sums of m, and the sum over q a polynomial in m_j: then neither products nor
quotients are formed per agent at all.

A receiver that is harmed (some x_k < 0) has factors above one; it goes a slower way in logarithms, which cannot
overflow. On [0, 1] its integrand is log-concave in q: the q nodes are laid around its peak.

Agents may stand for several identical ones (`counts`): factors are then raised to that power.
"""

# The loops are written out for the compiler, which turns those over agents into vector instructions.
from __future__ import annotations

import math

import numba as nb
import numpy as np

from fedpact.shapley.kernels_near_zero import FAST, lay_q
from fedpact.utils.compiling import announce_compiling

announce_compiling()

MAX_SERIES_TERMS = 38
CACHE_BLOCK = 512  # agents
SMALL_PRODUCT = 1e-200  # far from underflow
MAX_SERIES_STEP = 0.3  # the series is used up to this largest q m
BRIEF_FACTORS = 12  # as many as the nodes are exact for with which a product that hardly changes in q is summed


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _advance(e, m):
    """From t to 2t."""
    for k in range(m.size):
        squared = e[k] * e[k]
        doubled = m[k] * (2.0 - m[k])
        if squared < 0.5:
            doubled = 1.0 - squared
        else:
            squared = 1.0 - doubled
        e[k] = squared
        m[k] = doubled


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _add_power_sums(terms, m, counts, power, sums):
    """sums[p] += sum_k counts_k m_k^p."""
    n_agents = m.size
    for k in range(n_agents):
        power[k] = counts[k]
    for p in range(1, terms + 1):
        total = 0.0
        for k in range(n_agents):
            raised = power[k] * m[k]
            power[k] = raised
            total += raised
        sums[p] += total


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _add_polynomials(terms, moments, t, m, e, power, value, slope, bend):
    """What every agent is credited with: its polynomial in m with the moments as coefficients."""
    n_agents = m.size
    for k in range(n_agents):
        power[k] = moments[terms]
    for p in range(terms - 1, -1, -1):
        moment = moments[p]
        for k in range(n_agents):
            power[k] = power[k] * m[k] + moment
    for k in range(n_agents):
        value[k] += power[k] * m[k]
        rate = power[k] * e[k] * t
        slope[k] += rate
        bend[k] += rate * t


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _by_series(terms, level, m, e, t, counts, q, q_weights, power, part, sums, moments, value, slope, bend):
    """One t, by power sums: log prod = -sum_p q^p S_p / p, and 1 / (1 - q m) = sum_p q^p m^p.

    Agents go through all powers in blocks that stay in the nearest cache.
    """
    n_agents, n_q = m.size, q_weights.size
    for p in range(1, terms + 1):
        sums[p] = 0.0
    for start in range(0, n_agents, CACHE_BLOCK):
        some = slice(start, min(start + CACHE_BLOCK, n_agents))
        _add_power_sums(terms, m[some], counts[some], power[some], sums)
    for i in range(n_q):
        exponent = 0.0
        for p in range(terms, 0, -1):
            exponent = (exponent + sums[p] / p) * q[i]
        part[i] = level * q_weights[i] * math.exp(-exponent)
    for p in range(terms + 1):
        total = 0.0
        for i in range(n_q):
            total += part[i]
            part[i] *= q[i]
        moments[p] = total
    for start in range(0, n_agents, CACHE_BLOCK):
        some = slice(start, min(start + CACHE_BLOCK, n_agents))
        _add_polynomials(terms, moments, t, m[some], e[some], power[some], value[some], slope[some], bend[some])


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _product(level, m, counts, q, q_weights, part):
    """level x weight x prod_k (1 - q m_k)^counts_k at every q."""
    for i in range(q_weights.size):
        part[i] = level * q_weights[i]
    for k in range(m.size):
        if counts[k] == 1.0:
            for i in range(q_weights.size):
                part[i] *= 1.0 - q[i] * m[k]
        elif m[k] > 0.0:
            for i in range(q_weights.size):
                part[i] *= math.exp(counts[k] * math.log1p(-q[i] * m[k]))


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _by_products(m, e, t, q, part, value, slope, bend):
    """One t, by the product at every q divided by each agent's factor."""
    for k in range(m.size):
        total = 0.0
        for i in range(part.size):
            total += part[i] / (1.0 - q[i] * m[k])
        value[k] += total * m[k]
        rate = total * e[k] * t
        slope[k] += rate
        bend[k] += rate * t


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _helped(done, x, counts, times, per_octave, log_masses, exact, roots, living, tol, value, slope, bend):
    """A receiver that nobody harms, from the time `done` on."""
    n_agents = x.size
    exact_nodes, exact_weights = exact
    n_q = exact_nodes.size if exact_nodes.size else roots[0].size
    m, e, power = np.empty(n_agents), np.empty(n_agents), np.empty(n_agents)
    q, q_weights, part = np.empty(n_q), np.empty(n_q), np.empty(n_q)
    sums, moments = np.empty(MAX_SERIES_TERMS + 2), np.empty(MAX_SERIES_TERMS + 2)
    for first in range(done, min(done + per_octave, times.size)):
        for place in range(first, times.size, per_octave):
            t = times[place]
            if place == first or per_octave == times.size:
                for k in range(n_agents):
                    m[k] = -math.expm1(-t * x[k])
                    e[k] = math.exp(-t * x[k])
            else:
                _advance(e, m)
            level = math.exp(log_masses[place])
            if level == 0.0:
                continue
            mass, top = 0.0, 0.0
            for k in range(n_agents):
                mass += counts[k] * m[k]
                if m[k] > top:
                    top = m[k]
            end = lay_q(mass, exact_nodes, exact_weights, roots[0], roots[1], living, q, q_weights)
            terms = 0
            if not exact_nodes.size and end * top < MAX_SERIES_STEP:
                terms = 2 if end * top < 1e-12 else int(math.log(tol) / math.log(end * top)) + 2
            if 0 < terms <= MAX_SERIES_TERMS:
                _by_series(terms, level, m, e, t, counts, q, q_weights, power, part, sums, moments, value, slope, bend)
            else:
                _product(level, m, counts, q, q_weights, part)
                _by_products(m, e, t, q, part, value, slope, bend)


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _split(t, x, first, last):
    """Fill in the factors 1 - q + q e at q = 0 and at q = 1, both divided by e where e is above one."""
    for k in range(x.size):
        damped = math.exp(-abs(t * x[k]))
        first[k] = damped if x[k] < 0.0 else 1.0
        last[k] = 1.0 if x[k] < 0.0 else damped


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _slope_in_q(first, last, counts, q):
    """Derivative of the log of the product: falling in q."""
    total = 0.0
    for k in range(first.size):
        total += counts[k] * (last[k] - first[k]) / ((1.0 - q) * first[k] + q * last[k])
    return total


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _level_in_q(first, last, counts, q):
    """Log of the product of the factors."""
    total, block = 0.0, 1.0
    for k in range(first.size):
        factor = (1.0 - q) * first[k] + q * last[k]
        if counts[k] == 1.0:
            block *= factor
            if block < SMALL_PRODUCT:
                total += math.log(block)
                block = 1.0
        else:
            total += counts[k] * math.log(factor)
    return total + math.log(block)


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _levels(first, last, counts, q, block, levels):
    """The same at every q, which rises, with `block` to work in; logs are taken when a product may become small."""
    for i in range(q.size):
        block[i] = 1.0
        levels[i] = 0.0
    least = 1.0
    for k in range(first.size):
        start, rise = first[k], last[k] - first[k]
        if counts[k] != 1.0:
            for i in range(q.size):
                levels[i] += counts[k] * math.log(start + q[i] * rise)
            continue
        lowest = start + (q[0] if rise > 0.0 else q[q.size - 1]) * rise
        if least * lowest < SMALL_PRODUCT:
            for i in range(q.size):
                levels[i] += math.log(block[i])
                block[i] = 1.0
            least = 1.0
        least *= lowest
        for i in range(q.size):
            block[i] *= start + q[i] * rise
    for i in range(q.size):
        levels[i] += math.log(block[i])


@nb.njit(cache=True, error_model="numpy")
def _peak(first, last, counts):
    """Where the log-concave product is largest, closely enough to lay nodes around it."""
    low, high = 0.0, 1.0
    if _slope_in_q(first, last, counts, 1e-300) <= 0.0:
        return 0.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        if _slope_in_q(first, last, counts, middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@nb.njit(cache=True, error_model="numpy")
def _where_fallen(first, last, counts, peak, bound, floor):
    """The q between `peak` and `bound` at which the log of the product has fallen to `floor`, or `bound`."""
    if _level_in_q(first, last, counts, bound) >= floor:
        return bound
    inside, outside = peak, bound
    for _ in range(14):
        middle = 0.5 * (inside + outside)
        if _level_in_q(first, last, counts, middle) >= floor:
            inside = middle
        else:
            outside = middle
    return outside


@nb.njit(cache=True, error_model="numpy")
def _lay_around_peak(first, last, counts, exact, window, living, q, q_weights):
    """Nodes on [0, 1]: exact for few agents, else Gauss-Legendre around the peak. Returns how many."""
    if exact[0].size:
        for i in range(exact[0].size):  # an assignment of slices takes seconds to compile
            q[i] = exact[0][i]
            q_weights[i] = exact[1][i]
        return exact[0].size
    peak = _peak(first, last, counts)
    floor = _level_in_q(first, last, counts, peak) - living
    start = _where_fallen(first, last, counts, peak, 1e-300, floor)
    end = _where_fallen(first, last, counts, peak, 1.0, floor)
    for i in range(window[0].size):
        q[i] = start + (end - start) * window[0][i]
        q_weights[i] = (end - start) * window[1][i]
    return window[0].size


@nb.njit(cache=True, fastmath=FAST, error_model="numpy")
def _harmed(x, counts, times, log_masses, brief, exact, window, living, value, slope, bend):
    """A receiver that somebody harms; `brief` are the q nodes for small t, where the product hardly bends in q."""
    n_agents = x.size
    most = max(exact[0].size, window[0].size)
    first, last = np.empty(n_agents), np.empty(n_agents)
    q, q_weights, part, block = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    harm, size = 0.0, 0.0
    for k in range(n_agents):
        harm += counts[k] * max(-x[k], 0.0)
        size += counts[k] * abs(x[k])
    for place in range(times.size):
        t = times[place]
        if log_masses[place] == -np.inf:
            continue
        _split(t, x, first, last)
        rule = brief if t * size <= 1.0 else exact
        n_q = _lay_around_peak(first, last, counts, rule, window, living, q, q_weights)
        _levels(first, last, counts, q[:n_q], block, part)
        for i in range(n_q):
            part[i] = math.exp(log_masses[place] + t * harm + part[i]) * q_weights[i]
        for k in range(n_agents):
            total, start, rise = 0.0, first[k], last[k] - first[k]
            for i in range(n_q):
                total += part[i] / (start + q[i] * rise)
            missed = -math.expm1(-abs(t * x[k]))
            value[k] += total * (missed if x[k] >= 0.0 else -missed)
            rate = total * t * last[k]
            slope[k] += rate
            bend[k] += rate * t


@nb.njit(cache=True, error_model="numpy")
def _exact_rule(n_factors, nodes, weights, starts):
    """The Gauss-Legendre rule that integrates a polynomial of degree n - 1 exactly, or an empty one."""
    half = (n_factors + 1) // 2
    if half < starts.size - 1:
        return nodes[starts[half] : starts[half + 1]], weights[starts[half] : starts[half + 1]]
    return nodes[:0], weights[:0]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def sum_helped(
    receivers, starts, x, counts, factors, times, per_octave, log_masses, exact, roots, living, tol, done,
    value, slope, bend,
):  # fmt: skip
    """Integrals of every entry of the receivers, whom nobody harms, added to `value`, `slope` / w and `bend` / w^2.

    Receiver i owns the entries starts[i] to starts[i + 1] of `x` and `counts`; `factors[i]` is how many factors its
    product has, `times[i]` and `log_masses[i]` its t nodes, per_octave of them to each doubling, the first `done[i]`
    of them dealt with before.
    """
    for i in receivers:
        own = slice(starts[i], starts[i + 1])
        rule = _exact_rule(factors[i], exact[0], exact[1], exact[2])
        _helped(
            done[i], x[own], counts[own], times[i], per_octave, log_masses[i], rule, roots, living, tol,
            value[own], slope[own], bend[own],
        )  # fmt: skip


@nb.njit(cache=True, nogil=True, error_model="numpy")
def sum_harmed(receivers, starts, x, counts, factors, times, log_masses, exact, window, living, value, slope, bend):
    """The same of receivers whom somebody harms."""
    for i in receivers:
        own = slice(starts[i], starts[i + 1])
        rule = _exact_rule(factors[i], exact[0], exact[1], exact[2])
        brief = _exact_rule(min(factors[i], BRIEF_FACTORS), exact[0], exact[1], exact[2])
        _harmed(
            x[own], counts[own], times[i], log_masses[i], brief, rule, window, living,
            value[own], slope[own], bend[own],
        )  # fmt: skip


@nb.njit(cache=True, nogil=True, error_model="numpy")
def own_coefficients(
    receivers, starts, places, x, counts, factors, times, log_masses, exact, window, living, log_coefficients
):
    """The log of what multiplies (1 - e^{-t w x}) in one agent's value, per receiver and t.

    That is the others' product, summed over q.

    `places[i]` is the agent's entry in receiver i, or -1. The agent's own contribution does not enter.
    """
    for i in receivers:
        if places[i] < 0:
            for j in range(times.shape[1]):
                log_coefficients[i, j] = -np.inf
            continue
        own = slice(starts[i], starts[i + 1])
        others = counts[own].copy()
        others[places[i] - starts[i]] -= 1.0
        rule = _exact_rule(factors[i], exact[0], exact[1], exact[2])
        most = max(rule[0].size, window[0].size)
        first, last = np.empty(others.size), np.empty(others.size)
        q, q_weights, block, levels = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
        harm = 0.0
        for k in range(others.size):
            harm += others[k] * max(-x[own][k], 0.0)
        for j in range(times.shape[1]):
            _split(times[i, j], x[own], first, last)
            n_q = _lay_around_peak(first, last, others, rule, window, living, q, q_weights)
            _levels(first, last, others, q[:n_q], block, levels)
            highest = -np.inf
            for a in range(n_q):
                levels[a] += math.log(q_weights[a])
                highest = max(highest, levels[a])
            total = 0.0
            for a in range(n_q):
                total += math.exp(levels[a] - highest)
            log_coefficients[i, j] = log_masses[i, j] + times[i, j] * harm + highest + math.log(total)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def curvature_helped(
    receivers, starts, agents, x, weights, counts, factors, times, log_masses, exact, window, living, rows
):
    """Rows b with sum b b^T = minus the Hessian of the potential off its diagonal: `slots` per receiver and t.

    The pair (j, l) is credited with sum over q of level q r_j r_l, where r = t w e / (1 - q m): one row per q. For a
    receiver that nobody harms one row is enough, with r at the mean of q under the weight level q. Agent k owns the
    column agents[k].
    """
    slots = rows.shape[0] // times.size
    n_times = times.shape[1]
    for i in receivers:
        own = slice(starts[i], starts[i + 1])
        rule = _exact_rule(factors[i], exact[0], exact[1], exact[2])
        n_q = rule[0].size if rule[0].size else window[0].size
        damped, m = np.empty(x[own].size), np.empty(x[own].size)
        q, q_weights, part = np.empty(n_q), np.empty(n_q), np.empty(n_q)
        for j in range(n_times):
            t = times[i, j]
            mass = 0.0
            for k in range(m.size):
                damped[k] = math.exp(-t * x[own][k])
                m[k] = 1.0 - damped[k]
                mass += counts[own][k] * m[k]
            lay_q(mass, rule[0], rule[1], window[0], window[1], living, q, q_weights)
            _product(math.exp(log_masses[i, j]), m, counts[own], q, q_weights, part)
            first, second = 0.0, 0.0
            for a in range(n_q):
                first += part[a] * q[a]
                second += part[a] * q[a] * q[a]
            if first == 0.0:
                continue
            mean = second / first
            size = math.sqrt(first * first / second * mean) * t
            for k in range(damped.size):
                rows[(i * n_times + j) * slots, agents[own][k]] += (
                    size * weights[own][k] * damped[k] / (1.0 - mean * m[k])
                )


@nb.njit(cache=True, nogil=True, error_model="numpy")
def curvature_harmed(
    receivers, starts, agents, x, weights, counts, factors, times, log_masses, exact, window, living, rows, bend
):
    """The same of receivers whom somebody harms, with what they add to the diagonal, over w^2, in `bend`."""
    slots = rows.shape[0] // times.size
    n_times = times.shape[1]
    for i in receivers:
        own = slice(starts[i], starts[i + 1])
        rule = _exact_rule(factors[i], exact[0], exact[1], exact[2])
        most = max(rule[0].size, window[0].size)
        pulls, columns, each, own_bend = x[own], agents[own], weights[own], bend[own]
        first, last = np.empty(pulls.size), np.empty(pulls.size)
        q, q_weights, block, levels = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
        harm = 0.0
        for k in range(pulls.size):
            harm += counts[own][k] * max(-pulls[k], 0.0)
        for j in range(n_times):
            t = times[i, j]
            if log_masses[i, j] == -np.inf:
                continue
            _split(t, pulls, first, last)
            n_q = _lay_around_peak(first, last, counts[own], rule, window, living, q, q_weights)
            _levels(first, last, counts[own], q[:n_q], block, levels)
            for a in range(n_q):
                level = q_weights[a] * math.exp(log_masses[i, j] + t * harm + levels[a])
                size = math.sqrt(level * q[a]) * t
                row = rows[(i * n_times + j) * slots + a]
                for k in range(pulls.size):
                    rate = last[k] / ((1.0 - q[a]) * first[k] + q[a] * last[k])
                    row[columns[k]] += size * each[k] * rate
                    own_bend[k] += level * t * t * rate

"""The compiled heart of `fedpact.programs.batch_solver`: one instance after the other, every core its own.

In x = s / upper and with f in units of payoff. A payoff comes as (steepness, decay, width), see `Payoff.hyperbola`.
"""

# The loops are written out for the compiler.
from __future__ import annotations

import math

import numba as nb
import numpy as np

from fedpact.programs.small_batches import (
    FIRST_RIDGE,
    MAX_HALVINGS,
    MAX_NEWTON_STEPS,
    MAX_RIDGE,
    MAX_WAIT,
    NO_GAIN,
    OBJECTIVE_ROUNDING,
    SMALL_GAIN,
    SUFFICIENT_RISE,
)
from fedpact.utils.compiling import announce_compiling

announce_compiling()


@nb.njit(cache=True, error_model="numpy")
def _objective(
    x, weights, values, steepness, decay, width, linear, quadratic, upper, members, shares, slopes, bends, gradient
):  # fmt: skip
    """f at s = upper x, minus infinity outside the domain; fills df/dx and, per coalition and receiver, both slopes."""
    n_agents = x.size
    total = 0.0
    for j in range(n_agents):
        s = upper[j] * x[j]
        total -= (linear[j] + quadratic[j] * s) * s
        gradient[j] = -(linear[j] + 2.0 * quadratic[j] * s)
    for c in range(shares.size):
        for i in range(n_agents):
            y = 0.0
            for j in range(n_agents):
                if members[c, j]:
                    y += weights[i, j] * upper[j] * x[j]
            if y <= -width[i]:
                return -math.inf
            worth = shares[c] * values[i] * steepness[i]
            if math.isinf(width[i]):
                slope = worth * math.exp(-decay[i] * y)
                bend = decay[i] * slope
                total -= worth / decay[i] * math.expm1(-decay[i] * y)
            else:
                length = math.log1p(y / width[i])
                power = decay[i] * width[i]
                reach = 1.0 + y / width[i]
                slope = worth * math.exp(-power * length)
                bend = decay[i] * slope / reach
                if power == 1.0:
                    total += worth * width[i] * length
                else:
                    total += (worth - slope * reach) * width[i] / (power - 1.0)  # digits enough to compare steps by
            slopes[c, i] = slope
            bends[c, i] = bend
            for j in range(n_agents):
                if members[c, j]:
                    gradient[j] += slope * weights[i, j]
    for j in range(n_agents):
        gradient[j] *= upper[j]
    return total


@nb.njit(cache=True, error_model="numpy")
def _curvature(weights, quadratic, upper, members, shares, bends, matrix):
    """-d2f/dx2, lower triangle."""
    n_agents = upper.size
    for j in range(n_agents):
        for k in range(j + 1):
            matrix[j, k] = 0.0
        matrix[j, j] = 2.0 * quadratic[j]
    for c in range(shares.size):
        for i in range(n_agents):
            for j in range(n_agents):
                if members[c, j]:
                    part = bends[c, i] * weights[i, j]
                    for k in range(j + 1):
                        if members[c, k]:
                            matrix[j, k] += part * weights[i, k]
    for j in range(n_agents):
        for k in range(j + 1):
            matrix[j, k] *= upper[j] * upper[k]


@nb.njit(cache=True, error_model="numpy")
def _newton(matrix, gradient, held, ridge, factor, step):
    """step = (matrix + ridge)^-1 gradient for those not held; False if not positive definite."""
    n_agents = gradient.size
    for j in range(n_agents):
        for k in range(j + 1):
            if held[j] or held[k]:
                factor[j, k] = 1.0 if j == k else 0.0
            else:
                factor[j, k] = matrix[j, k]
        if not held[j]:
            factor[j, j] += ridge * (1e-300 + matrix[j, j])
    for j in range(n_agents):
        for k in range(j + 1):
            rest = factor[j, k]
            for m in range(k):
                rest -= factor[j, m] * factor[k, m]
            if k < j:
                factor[j, k] = rest / factor[k, k]
            elif rest > 0.0:
                factor[j, j] = math.sqrt(rest)
            else:
                return False
    for j in range(n_agents):
        rest = 0.0 if held[j] else gradient[j]
        for m in range(j):
            rest -= factor[j, m] * step[m]
        step[j] = rest / factor[j, j]
    for j in range(n_agents - 1, -1, -1):
        rest = step[j]
        for m in range(j + 1, n_agents):
            rest -= factor[m, j] * step[m]
        step[j] = rest / factor[j, j]
    return True


@nb.njit(cache=True, error_model="numpy")
def _gain(x, gradient):
    """The linearised gain; infinite where the gradient is not finite."""
    total = 0.0
    for j in range(x.size):
        total += max(gradient[j] * (1.0 - x[j]), -gradient[j] * x[j])
    return total if math.isfinite(total) else math.inf


@nb.njit(cache=True, nogil=True, error_model="numpy")
def climb_all(
    first, last, weights, values, steepness, decay, width, linear, quadratic, upper, scale, members, shares,
    contributions, gains,
):  # fmt: skip
    """Fills rows `first` to `last` of `contributions` (blocks, n) and `gains`, the linearised gain each is left with.

    The contributions given are where to begin; where that is outside the domain, it begins at zero.
    """
    n_agents = upper.shape[1]
    x, trial, step = np.empty(n_agents), np.empty(n_agents), np.empty(n_agents)
    gradient, ahead = np.empty(n_agents), np.empty(n_agents)
    held = np.empty(n_agents, dtype=np.bool_)
    matrix, factor = np.empty((n_agents, n_agents)), np.empty((n_agents, n_agents))
    slopes, bends = np.empty((shares.size, n_agents)), np.empty((shares.size, n_agents))
    for b in range(first, last):
        own = (weights[b], values[b], steepness[b], decay[b], width[b], linear[b], quadratic[b], upper[b])
        gains[b] = _climb(
            own, scale[b], members, shares, x, trial, step, gradient, ahead, held, matrix, factor, slopes, bends,
            contributions[b],
        )  # fmt: skip


@nb.njit(cache=True, error_model="numpy")
def _climb(
    own, scale, members, shares, x, trial, step, gradient, ahead, held, matrix, factor, slopes, bends, best
):  # fmt: skip
    """One instance: fills the best point found and returns its linearised gain in units of the scale."""
    weights, values, steepness, decay, width, linear, quadratic, upper = own
    n_agents = x.size
    if scale <= 0.0:
        best[:] = 0.0
        return 0.0
    for j in range(n_agents):
        x[j] = min(max(best[j] / upper[j], 0.0), 1.0) if upper[j] > 0.0 else 0.0
    level = _objective(
        x, weights, values, steepness, decay, width, linear, quadratic, upper, members, shares, slopes, bends, gradient
    )  # fmt: skip
    if not level > -math.inf:
        x[:] = 0.0
        level = _objective(
            x, weights, values, steepness, decay, width, linear, quadratic, upper, members, shares, slopes, bends,
            gradient,
        )  # fmt: skip
    best_gain, waited = math.inf, 0
    for _ in range(MAX_NEWTON_STEPS):
        gain = _gain(x, gradient)
        if gain < best_gain:
            waited = waited if gain > 0.5 * best_gain else 0
            best_gain = gain
            for j in range(n_agents):
                best[j] = upper[j] if x[j] >= 1.0 else upper[j] * x[j]
        waited += 1
        if best_gain <= NO_GAIN * scale or (waited > MAX_WAIT and best_gain <= SMALL_GAIN * scale):
            break
        _curvature(weights, quadratic, upper, members, shares, bends, matrix)
        for j in range(n_agents):
            held[j] = (x[j] <= 0.0 and gradient[j] <= 0.0) or (x[j] >= 1.0 and gradient[j] >= 0.0) or upper[j] <= 0.0
        ridge = FIRST_RIDGE
        while not _newton(matrix, gradient, held, ridge, factor, step):
            ridge *= 100.0
            if ridge > MAX_RIDGE:
                return best_gain / scale
        longest = 0.0
        for j in range(n_agents):
            longest = max(longest, abs(step[j]))
        length = 1.0 / longest if longest > 1.0 else 1.0
        moved = False
        for _ in range(MAX_HALVINGS):
            promised = 0.0
            for j in range(n_agents):
                trial[j] = min(max(x[j] + length * step[j], 0.0), 1.0)
                promised += gradient[j] * (trial[j] - x[j])
            height = _objective(
                trial, weights, values, steepness, decay, width, linear, quadratic, upper, members, shares, slopes,
                bends, ahead,
            )  # fmt: skip
            if height >= level + SUFFICIENT_RISE * promised or (
                height > level - OBJECTIVE_ROUNDING * scale and _gain(trial, ahead) < 0.5 * gain
            ):
                for j in range(n_agents):
                    moved = moved or trial[j] != x[j]
                break
            length *= 0.5
        if not moved:
            break
        level = height
        for j in range(n_agents):
            x[j] = trial[j]
            gradient[j] = ahead[j]
    return best_gain / scale

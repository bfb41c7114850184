"""The compiled heart of `fedpact.programs.batch_solver`: one instance after the other, every core its own.

In x = s / upper and with f in units of payoff. A payoff comes as (steepness, decay, width), see `Payoff.hyperbola`.
What a program has of every agent comes in the rows of one array, and every function is called in one place: the
compiler takes seconds, and longer for each array it is handed and each call it writes out.
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

WORTH, DECAY, WIDTH, LINEAR, QUADRATIC, UPPER = range(6)  # rows of `numbers`; worth is value x steepness


@nb.njit(cache=True, error_model="numpy")
def _objective(x, weights, numbers, members, shares, bends, gradient):
    """f at s = upper x, minus infinity outside the domain; fills df/dx and, per coalition and receiver, the bends."""
    n_agents = x.size
    total = 0.0
    for j in range(n_agents):
        s = numbers[UPPER, j] * x[j]
        total -= (numbers[LINEAR, j] + numbers[QUADRATIC, j] * s) * s
        gradient[j] = -(numbers[LINEAR, j] + 2.0 * numbers[QUADRATIC, j] * s)
    for c in range(shares.size):
        for i in range(n_agents):
            y = 0.0
            for j in range(n_agents):
                if members[c, j]:
                    y += weights[i, j] * numbers[UPPER, j] * x[j]
            decay, width = numbers[DECAY, i], numbers[WIDTH, i]
            if y <= -width:
                return -math.inf
            worth = shares[c] * numbers[WORTH, i]
            if math.isinf(width):
                slope = worth * math.exp(-decay * y)
                bends[c, i] = decay * slope
                total -= worth / decay * math.expm1(-decay * y)
            else:
                length = math.log1p(y / width)
                power = decay * width
                reach = 1.0 + y / width
                slope = worth * math.exp(-power * length)
                bends[c, i] = decay * slope / reach
                if power == 1.0:
                    total += worth * width * length
                else:
                    total += (worth - slope * reach) * width / (power - 1.0)  # digits enough to compare steps by
            for j in range(n_agents):
                if members[c, j]:
                    gradient[j] += slope * weights[i, j]
    for j in range(n_agents):
        gradient[j] *= numbers[UPPER, j]
    return total


@nb.njit(cache=True, error_model="numpy")
def _curvature(weights, numbers, members, shares, bends, matrix):
    """-d2f/dx2, lower triangle."""
    n_agents = weights.shape[0]
    for j in range(n_agents):
        for k in range(j + 1):
            matrix[j, k] = 0.0
        matrix[j, j] = 2.0 * numbers[QUADRATIC, j]
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
            matrix[j, k] *= numbers[UPPER, j] * numbers[UPPER, k]


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
def climb_all(first, last, weights, numbers, scale, members, shares, contributions, gains):
    """Fills rows `first` to `last` of `contributions` (blocks, n) and `gains`, the linearised gain each is left with.

    The contributions given are where to begin; where that is outside the domain, it begins at zero.
    """
    n_agents = weights.shape[1]
    points = np.empty((5, n_agents))
    held = np.empty(n_agents, dtype=np.bool_)
    matrix, factor = np.empty((n_agents, n_agents)), np.empty((n_agents, n_agents))
    bends = np.empty((shares.size, n_agents))
    for b in range(first, last):
        gains[b] = _climb(
            weights[b], numbers[b], scale[b], members, shares, points, held, matrix, factor, bends, contributions[b]
        )


@nb.njit(cache=True, error_model="numpy")
def _climb(weights, numbers, scale, members, shares, points, held, matrix, factor, bends, best):
    """One instance: fills the best point found and returns its linearised gain in units of the scale."""
    x, trial, step, gradient, ahead = points[0], points[1], points[2], points[3], points[4]
    upper = numbers[UPPER]
    n_agents = x.size
    if scale <= 0.0:
        best[:] = 0.0
        return 0.0
    for j in range(n_agents):
        trial[j] = min(max(best[j] / upper[j], 0.0), 1.0) if upper[j] > 0.0 else 0.0
    gain, best_gain, level, length = math.inf, math.inf, -math.inf, 0.0
    waited, halvings, newton_steps = 0, 0, 0
    while newton_steps < MAX_NEWTON_STEPS and halvings < MAX_HALVINGS:
        height = _objective(trial, weights, numbers, members, shares, bends, ahead)
        trial_gain = _gain(trial, ahead)
        if newton_steps == 0:
            if not height > -math.inf and halvings == 0:
                trial[:] = 0.0
                halvings = 1
                continue
        else:
            promised, moved = 0.0, False
            for j in range(n_agents):
                promised += gradient[j] * (trial[j] - x[j])
                moved = moved or trial[j] != x[j]
            rises = height >= level + SUFFICIENT_RISE * promised or (
                height > level - OBJECTIVE_ROUNDING * scale and trial_gain < 0.5 * gain
            )
            if not rises:
                halvings += 1
                length *= 0.5
                for j in range(n_agents):
                    trial[j] = min(max(x[j] + length * step[j], 0.0), 1.0)
                continue
            if not moved:
                break
        gain, level, halvings = trial_gain, height, 0
        for j in range(n_agents):
            x[j] = trial[j]
            gradient[j] = ahead[j]
        if gain < best_gain:
            waited = waited if gain > 0.5 * best_gain else 0
            best_gain = gain
            for j in range(n_agents):
                best[j] = upper[j] if x[j] >= 1.0 else upper[j] * x[j]
        waited += 1
        if best_gain <= NO_GAIN * scale or (waited > MAX_WAIT and best_gain <= SMALL_GAIN * scale):
            break
        _curvature(weights, numbers, members, shares, bends, matrix)
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
        for j in range(n_agents):
            trial[j] = min(max(x[j] + length * step[j], 0.0), 1.0)
        newton_steps += 1
    return best_gain / scale

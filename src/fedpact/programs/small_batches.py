"""The steps of `fedpact.programs.kernels` in NumPy, all programs side by side: for few and small ones.

Nothing is compiled and nothing loaded: five members' groups are solved before the compiler would have begun. Every line
says for all programs at once what the kernels say for one, with the same constants, so the two can be held against
each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedpact.utils.arrays import FloatArray

NO_GAIN = 1e-15  # a linearised gain that counts as none, in units of the scale
SMALL_GAIN = 1e-11  # from this linearised gain on, a step that does not lower it is the last but a few
MAX_NEWTON_STEPS = 200
MAX_HALVINGS = 60
MAX_WAIT = 2
FIRST_RIDGE = 1e-14
MAX_RIDGE = 1e6  # relative to the curvature: beyond it, a matrix that is not definite is not finite
SUFFICIENT_RISE = 1e-4  # of the rise the slope promises
OBJECTIVE_ROUNDING = 1e-12


OWN = ("weights", "values", "steepness", "decay", "width", "linear", "quadratic", "upper", "scale")


@dataclass(frozen=True, kw_only=True, eq=False)
class Programs:
    """Programs side by side: a row each. `members` (coalitions, n) and `shares` are the same for all."""

    weights: FloatArray
    values: FloatArray
    steepness: FloatArray
    decay: FloatArray
    width: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    upper: FloatArray
    scale: FloatArray
    members: FloatArray
    shares: FloatArray

    def take(self, rows: np.ndarray) -> Programs:
        """Some of them."""
        return replace(self, **{name: getattr(self, name)[rows] for name in OWN})

    def evaluate(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """f at s = upper x, minus infinity outside the domain; df/dx; and the bends per receiver and coalition."""
        s = self.upper * x
        y = (self.weights * s[:, None, :]) @ self.members.T
        decay, width = self.decay[:, :, None], self.width[:, :, None]
        outside = (y <= -width).any(axis=(1, 2))
        worth = (self.values * self.steepness)[:, :, None] * self.shares
        wide = np.isinf(width)
        with np.errstate(all="ignore"):
            bound = np.where(wide, 1.0, width)
            reach, length, power = 1.0 + y / bound, np.log1p(y / bound), decay * bound
            slopes = worth * np.exp(np.where(wide, -decay * y, -power * length))
            bends = decay * slopes / np.where(wide, 1.0, reach)
            curved = np.where(power == 1.0, worth * bound * length, (worth - slopes * reach) * bound / (power - 1.0))
            payoffs = np.where(wide, -worth / decay * np.expm1(-decay * y), curved)
            total = payoffs.sum(axis=(1, 2)) - ((self.linear + self.quadratic * s) * s).sum(axis=1)
            gains = ((slopes @ self.members) * self.weights).sum(axis=1)
            gradient = self.upper * (gains - self.linear - 2.0 * self.quadratic * s)
        return np.where(outside, -np.inf, total), gradient, bends

    def curvature(self, bends: FloatArray) -> FloatArray:
        """-d2f/dx2."""
        n_agents = self.upper.shape[1]
        if self.members.all():
            matrix = (self.weights * bends.sum(axis=2)[:, :, None]).transpose(0, 2, 1) @ self.weights
        else:
            matrix = self._curvature_of_coalitions(bends)
        matrix += 2.0 * self.quadratic[:, :, None] * np.eye(n_agents)
        with np.errstate(over="ignore"):  # where caps are beyond all measure the single solver is asked
            return matrix * self.upper[:, :, None] * self.upper[:, None, :]

    def _curvature_of_coalitions(self, bends: FloatArray) -> FloatArray:
        n_agents = self.upper.shape[1]
        together = (self.members[:, :, None] * self.members[:, None, :]).reshape(-1, n_agents * n_agents)
        per_pair = (bends @ together).reshape(-1, n_agents, n_agents, n_agents)
        return np.asarray(np.einsum("bij,bik,bijk->bjk", self.weights, self.weights, per_pair))


def climb_small(programs: Programs, contributions: FloatArray, gains: FloatArray) -> None:
    """Fills `contributions` (blocks, n) and `gains` (blocks,), as `fedpact.programs.kernels.climb_all` does."""
    upper = programs.upper
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(upper > 0.0, np.clip(contributions / upper, 0.0, 1.0), 0.0)
    level, gradient, bends = programs.evaluate(x)
    lost = ~(level > -np.inf)
    if lost.any():
        x[lost] = 0.0
        level, gradient, bends = programs.evaluate(x)
    best = np.where(programs.scale > 0.0, np.inf, 0.0)
    contributions[programs.scale <= 0.0] = 0.0
    waited = np.zeros(best.size)
    rows = np.flatnonzero(programs.scale > 0.0)
    for _ in range(MAX_NEWTON_STEPS):
        gain = _linearised_gain(x[rows], gradient[rows])
        better = rows[gain < best[rows]]
        waited[better] = np.where(gain[gain < best[rows]] > 0.5 * best[better], waited[better], 0.0)
        best[better] = gain[gain < best[rows]]
        contributions[better] = np.where(x[better] >= 1.0, upper[better], upper[better] * x[better])
        waited[rows] += 1
        scale = programs.scale[rows]
        done = (best[rows] <= NO_GAIN * scale) | ((waited[rows] > MAX_WAIT) & (best[rows] <= SMALL_GAIN * scale))
        rows, gain = rows[~done], gain[~done]
        if not rows.size:
            break
        some = programs.take(rows)
        step = _newton_step(some, x[rows], gradient[rows], bends[rows])
        trial, height, ahead, bent, moved = _line_search(
            some, x[rows], step, level=level[rows], gradient=gradient[rows], gain=gain
        )
        rows = rows[moved]
        x[rows], level[rows], gradient[rows], bends[rows] = trial[moved], height[moved], ahead[moved], bent[moved]
    with np.errstate(divide="ignore", invalid="ignore"):
        gains[:] = np.where(programs.scale > 0.0, best / programs.scale, 0.0)


def _linearised_gain(x: FloatArray, gradient: FloatArray) -> FloatArray:
    """Per program; infinite where the gradient is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.maximum(gradient * (1.0 - x), -gradient * x).sum(axis=1)
    return np.where(np.isfinite(total), total, np.inf)


def _newton_step(programs: Programs, x: FloatArray, gradient: FloatArray, bends: FloatArray) -> FloatArray:
    """Newton's step of those not held at a bound; not a number where no ridge makes the curvature definite."""
    matrix = programs.curvature(bends)
    held = ((x <= 0.0) & (gradient <= 0.0)) | ((x >= 1.0) & (gradient >= 0.0)) | (programs.upper <= 0.0)
    diagonal = np.einsum("bjj->bj", matrix)
    sizes = np.where(held, 0.0, 1e-300 + diagonal)
    matrix = np.where(held[:, :, None] | held[:, None, :], 0.0, matrix)
    pushed = np.where(held, 0.0, gradient)
    identity = np.eye(x.shape[1])
    step, ridge = np.full_like(x, np.nan), FIRST_RIDGE
    rest = np.flatnonzero(np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(pushed).all(axis=1))
    while rest.size and ridge <= MAX_RIDGE:
        raised = matrix[rest] + (np.where(held[rest], 1.0, ridge * sizes[rest]))[:, :, None] * identity
        definite = _definite(raised)
        step[rest[definite]] = np.linalg.solve(raised[definite], pushed[rest[definite]][:, :, None])[:, :, 0]
        rest, ridge = rest[~definite], ridge * 100.0
    return step


def _definite(matrices: FloatArray) -> np.ndarray:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.zeros(1, dtype=bool)
        half = len(matrices) // 2
        return np.concatenate([_definite(matrices[:half]), _definite(matrices[half:])])
    return np.ones(len(matrices), dtype=bool)


def _line_search(
    programs: Programs, x: FloatArray, step: FloatArray, *, level: FloatArray, gradient: FloatArray, gain: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, np.ndarray]:
    """Where each step leads, halved until f rises: the points, f, its slopes and bends there, and whether it moved."""
    trial, height, ahead = np.array(x), np.array(level), np.array(gradient)
    bent = np.empty((*x.shape, programs.shares.size))
    with np.errstate(invalid="ignore"):
        longest = np.abs(step).max(axis=1)
        length = np.where(longest > 1.0, 1.0 / longest, 1.0)
    moved = np.zeros(len(x), dtype=bool)
    rows = np.flatnonzero(np.isfinite(longest))
    for _ in range(MAX_HALVINGS):
        if not rows.size:
            break
        point = np.clip(x[rows] + length[rows, None] * step[rows], 0.0, 1.0)
        some = programs.take(rows)
        found, slopes, bends = some.evaluate(point)
        promised = (gradient[rows] * (point - x[rows])).sum(axis=1)
        rises = (found >= level[rows] + SUFFICIENT_RISE * promised) | (
            (found > level[rows] - OBJECTIVE_ROUNDING * some.scale)
            & (_linearised_gain(point, slopes) < 0.5 * gain[rows])
        )
        taken = rows[rises]
        trial[taken], height[taken], ahead[taken], bent[taken] = point[rises], found[rises], slopes[rises], bends[rises]
        moved[taken] = (trial[taken] != x[taken]).any(axis=1)
        rows = rows[~rises]
        length[rows] *= 0.5
    return trial, height, ahead, bent, moved

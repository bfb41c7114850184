"""Free-riding equilibria of many federations of one size at once, where costs are linear.

The path of `fedpact.programs.free_riding`: the solutions of W s + k s = t, complementary to the bounds, as k falls to
zero, here with the matrices of all federations side by side in one array. Where a federation's path turns back, or does
not end at an equilibrium, it is left out, to be solved by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Batch
from fedpact.programs.best_response import standalone_optimum
from fedpact.programs.free_riding import DATA_TOLERANCE, LAST_STIFFNESS
from fedpact.utils.arrays import FloatArray

MAX_PATH_STEPS = 40  # of Newton, for one k
STEP_TOLERANCE = 1e-13  # of a contribution
PATH_RANK_TOLERANCE = 1e-13  # of the largest singular value, as of the path of one federation


def follows_together(batch: Batch) -> bool:
    """Whether these federations can be worked on at once: linear costs, and everybody has something to give."""
    federation = batch.joined
    linear = np.asarray(federation.costs.linear) > 0
    return bool(not np.any(federation.costs.quadratic) and linear.all() and (federation.caps > 0).all())


def free_riding_equilibria(batch: Batch) -> FloatArray:
    """One equilibrium of each federation, (federations, n); NaN where the path does not lead to one."""
    found = np.full((len(batch), batch.n_agents), np.nan)
    with np.errstate(all="ignore"):
        paths, contributions = _Paths.of(batch), batch.split(standalone_optimum(batch.joined)[0])
        places, rows = np.arange(len(batch)), np.abs(batch.weights).sum(axis=2)
        stiffness, last = rows.max(axis=1), LAST_STIFFNESS * rows.min(axis=1)
        while places.size:
            stiffness = np.where(stiffness > last, stiffness, 0.0)  # the end of the path
            contributions = paths.solve(contributions, stiffness)
            solved = paths.are_solved(contributions, stiffness)
            found[places[solved & (stiffness == 0)]] = contributions[solved & (stiffness == 0)]
            going = np.flatnonzero(solved & (stiffness > 0))
            places, paths, contributions = places[going], paths.take(going), contributions[going]
            stiffness, last = stiffness[going] / 2.0, last[going]
    data = batch.split(batch.joined.data(np.nan_to_num(found).ravel()))
    floor = batch.split(np.broadcast_to(batch.joined.payoff.floor, batch.joined.n_agents))
    return np.where((data > floor).all(axis=1, keepdims=True), found, np.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Paths:
    """Weights (federations, n, n), caps and the data that members want, (federations, n)."""

    weights: FloatArray
    caps: FloatArray
    wanted: FloatArray

    @classmethod
    def of(cls, batch: Batch) -> _Paths:
        federation = batch.joined
        marginal = federation.costs.slope(0.0 * federation.caps) / (federation.values * federation.own_weights)
        wanted = federation.payoff.inverse_slope(marginal)
        return cls(weights=batch.weights, caps=batch.split(federation.caps), wanted=batch.split(wanted))

    def take(self, places: NDArray[np.intp]) -> _Paths:
        """Those of some federations."""
        return _Paths(weights=self.weights[places], caps=self.caps[places], wanted=self.wanted[places])

    def excess(self, contributions: FloatArray, stiffness: FloatArray) -> FloatArray:
        """By how much everybody has more data than it wants, k s counted as data."""
        return np.asarray(_times(self.weights, contributions) + stiffness[:, None] * contributions - self.wanted)

    def solve(self, contributions: FloatArray, stiffness: FloatArray) -> FloatArray:
        """Newton steps on the pieces: guess who is at a bound, solve for the others, guess again."""
        own = np.diagonal(self.weights, axis1=1, axis2=2)
        for _ in range(MAX_PATH_STEPS):
            aim = contributions - self.excess(contributions, stiffness) / (own + stiffness[:, None])
            ahead = self._at_bounds(aim <= 0.0, aim >= self.caps, stiffness)
            moved = ~(np.abs(ahead - contributions) <= STEP_TOLERANCE * np.maximum(ahead, contributions))
            contributions = ahead
            if not moved.any():
                break
        return np.clip(contributions, 0.0, self.caps)

    def _at_bounds(self, low: np.ndarray, high: np.ndarray, stiffness: FloatArray) -> FloatArray:
        """What the others contribute where these are at zero and at their caps; of several answers the smallest."""
        held, at, eye = low | high, np.where(high, self.caps, 0.0), np.eye(low.shape[1])
        matrix = self.weights + stiffness[:, None, None] * eye
        target = np.where(held, 0.0, self.wanted - _times(matrix, at))
        matrix = np.where(held[:, :, None] | held[:, None, :], eye * matrix, matrix)
        solved: FloatArray = np.full(target.shape, np.nan)
        sound = np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(target).all(axis=1)
        stiff = sound & (stiffness > 0)
        try:
            solved[stiff] = np.linalg.solve(matrix[stiff], target[stiff, :, None])[..., 0]
        except np.linalg.LinAlgError:  # one of them is singular
            stiff = np.zeros_like(stiff)
        others = sound & ~stiff
        inverse: FloatArray = np.asarray(np.linalg.pinv(matrix[others], rcond=PATH_RANK_TOLERANCE), dtype=np.float64)
        solved[others] = _times(inverse, target[others])
        solved[others] += _times(inverse, target[others] - _times(matrix[others], solved[others]))  # lost digits
        return np.maximum(np.where(held, at, solved), 0.0)

    def are_solved(self, contributions: FloatArray, stiffness: FloatArray) -> np.ndarray:
        """(federations,): whether everybody has the data it wants, or is at the bound that keeps it from having it."""
        excess = self.excess(contributions, stiffness)
        allowed = _times(np.abs(self.weights), contributions) + stiffness[:, None] * contributions
        allowed = DATA_TOLERANCE * (allowed + np.abs(self.wanted))
        short, spare = (excess < -allowed) & (contributions < self.caps), (excess > allowed) & (contributions > 0)
        return np.asarray(np.isfinite(excess).all(axis=1) & ~(short | spare).any(axis=1))


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """The product of each matrix with its vector."""
    return np.asarray(np.matmul(matrices, vectors[..., None])[..., 0])

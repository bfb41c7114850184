"""The nearest point that keeps linear constraints: a dual active-set method (Goldfarb and Idnani, 1983).

It begins at the target and takes in one violated constraint after the other, so constraints may become known on the
way: what was worked out before stays right.
"""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged

VIOLATION_TOLERANCE = 1e-12  # a constraint violated by less is kept
INDEPENDENCE_TOLERANCE = 1e-10  # of a normal's squared length: what is left of it beside those already binding
MAX_PROJECTION_STEPS = 10_000


def nearest_point(target: FloatArray, rows: FloatArray, limits: FloatArray, total: float) -> FloatArray | None:
    """The point x nearest to the target with rows @ x >= limits and this sum; None where they contradict each other.

    It begins at the nearest point with the sum. Each step takes in the constraint violated most and moves straight
    towards it, as far as the multipliers of those that bind stay at least zero; one whose multiplier would not is let
    go. Stops when no constraint is violated by more than `VIOLATION_TOLERANCE`.
    """
    projection = Projection(target + (total - target.sum()) / target.size, np.ones(target.size))
    projection.append(rows, limits)
    return projection.point if projection.run() else None


class Projection:
    """The state of the method: the point, the constraints known, what binds there, and its multipliers.

    The point stays in the plane with the normal `plane` in which it begins.
    """

    def __init__(self, point: FloatArray, plane: FloatArray) -> None:
        self.point, self._plane = point, plane
        self.rows, self.limits = np.zeros((0, point.size)), np.zeros(0)
        self._normals, self._fixed = np.zeros((0, point.size)), np.zeros(0, dtype=np.bool_)
        self._binding: list[int] = []
        self._multipliers = np.zeros(0)

    @property
    def binding(self) -> list[int]:
        """Places of the constraints that bind."""
        return list(self._binding)

    def append(self, rows: FloatArray, limits: FloatArray) -> None:
        """Constraints rows @ point >= limits, to be kept from now on."""
        normals = rows - (rows @ self._plane)[:, None] * (self._plane / (self._plane @ self._plane))
        lengths = np.einsum("ij,ij->i", normals, normals)
        self.rows, self.limits = np.concatenate([self.rows, rows]), np.append(self.limits, limits)
        self._normals = np.concatenate([self._normals, normals])
        # Those along the plane, such as everybody together, whose sum is given.
        self._fixed = np.append(self._fixed, lengths <= INDEPENDENCE_TOLERANCE)

    def run(self, tolerance: float = VIOLATION_TOLERANCE, max_steps: int = MAX_PROJECTION_STEPS) -> bool:
        """Move to the nearest point that keeps all constraints; False where they contradict each other."""
        for _ in range(max_steps):
            worst = self._most_violated(tolerance)
            if worst is None:
                return True
            if not self._take_in(worst):
                return False
        raise NotConverged(f"the nearest point was not found in {max_steps} steps", result=self.point)

    def _most_violated(self, tolerance: float) -> int | None:
        lacking = self.limits - self.rows @ self.point
        lacking[self._fixed] = -np.inf
        lacking[self._binding] = -np.inf
        worst = int(np.argmax(lacking))
        return worst if lacking[worst] > tolerance else None

    def _take_in(self, added: int) -> bool:
        """Move to where one more constraint binds; False where there is no such point."""
        normal, own = self._normals[added], 0.0
        while True:
            held = self._normals[self._binding]
            along = np.linalg.lstsq(held.T, normal, rcond=None)[0] if self._binding else np.zeros(0)
            direction = normal - held.T @ along
            free = float(direction @ direction)
            is_free = free > INDEPENDENCE_TOLERANCE * float(normal @ normal)
            full = (self.limits[added] - self.rows[added] @ self.point) / free if is_free else np.inf
            falling = np.flatnonzero(along > 0)
            steps = self._multipliers[falling] / along[falling]
            step = min(full, float(steps.min(initial=np.inf)))
            if not np.isfinite(step):
                return False
            self._multipliers, own = np.maximum(self._multipliers - step * along, 0.0), own + step
            if is_free:
                self.point = self.point + step * direction
            if step == full:
                self._binding.append(added)
                self._multipliers = np.append(self._multipliers, own)
                return True
            dropped = int(falling[np.argmin(steps)])
            del self._binding[dropped]
            self._multipliers = np.delete(self._multipliers, dropped)

"""The point of smallest norm of a box that keeps linear equalities."""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray

MAX_STEPS_PER_AGENT = 20
MULTIPLIER_TOLERANCE = 1e-12
# More coordinates are not released one after the other, but the right ones guessed first.
MAX_RELEASED_ONE_BY_ONE = 50
MAX_DUAL_STEPS, MIN_DUAL_STEP, DUAL_RIDGE = 60, 1e-6, 1e-12


def nearest_to_zero(normals: FloatArray, point: FloatArray, caps: FloatArray) -> FloatArray:
    """min |s|^2 over normals.T s = normals.T point, 0 <= s <= caps, by an active set that starts at `point`.

    With some coordinates held at a bound, the others' minimiser is a least-norm solution; go there, or as far as the
    box allows and hold what blocks; at the minimiser release the held coordinate whose multiplier is most wrong. SciPy
    has no solver for least norms with bounds and equalities that ends exactly.
    """
    point = np.clip(point, 0.0, caps)
    target = normals.T @ point
    size = max(float(point.max()), np.finfo(float).tiny)
    if point.size > MAX_RELEASED_ONE_BY_ONE:
        point = _nearly_nearest_to_zero(normals, point, caps)
    low, high = point <= 0.0, point >= caps
    for _ in range(MAX_STEPS_PER_AGENT * point.size):
        free = ~(low | high)
        wanted = np.where(high, caps, 0.0)
        multipliers = np.linalg.lstsq(normals[free].T @ normals[free], target - normals.T @ wanted, rcond=1e-13)[0]
        wanted[free] = normals[free] @ multipliers
        step = wanted - point
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, -point / step, np.where(step > 0, (caps - point) / step, np.inf))
        room[~free] = np.inf
        blocking = int(np.argmin(room))
        if room[blocking] < 1.0:
            point = np.clip(point + room[blocking] * step, 0.0, caps)
            low[blocking], high[blocking] = step[blocking] < 0, step[blocking] > 0
            continue
        point = np.clip(wanted, 0.0, caps)
        pull = normals @ multipliers  # where a held coordinate would go
        wrong = np.where(low, pull, np.where(high, caps - pull, -np.inf))
        worst = int(np.argmax(wrong))
        if wrong[worst] <= MULTIPLIER_TOLERANCE * size:
            break
        low[worst] = high[worst] = False
    return point


def _nearly_nearest_to_zero(normals: FloatArray, point: FloatArray, caps: FloatArray) -> FloatArray:
    """The same by Newton's method on the multipliers, which guesses all the held coordinates at once; or `point`.

    The minimiser is clip(normals @ m, 0, caps) with the m at which it meets the equalities; these are the slope of a
    convex function of m that is made of quadratic pieces.
    """
    target = normals.T @ point
    tolerance = MULTIPLIER_TOLERANCE * max(float(point.max()), np.finfo(float).tiny)
    pull = normals @ target
    for _ in range(MAX_DUAL_STEPS):
        nearest = np.clip(pull, 0.0, caps)
        missed = target - normals.T @ nearest
        if np.abs(missed).max() <= tolerance:
            return nearest
        loose = normals[(pull > 0.0) & (pull < caps)]
        system = loose.T @ loose
        system.flat[:: system.shape[0] + 1] += DUAL_RIDGE
        step = np.linalg.solve(system, missed)
        change, length = normals @ step, 1.0
        while (target - normals.T @ np.clip(pull + length * change, 0.0, caps)) @ step < 0 and length > MIN_DUAL_STEP:
            length *= 0.5  # past the minimum along the step
        pull = pull + length * change
    return point

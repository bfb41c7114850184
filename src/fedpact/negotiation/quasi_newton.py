"""A concave function climbed over a box from values and gradients alone, few questions at a time.

It begins at nothing, then looks along a ray for the order of magnitude of the answer, three points at a time. From the
best of these it goes by a quadratic model (BFGS): the model's maximiser over the box gives a step, and three lengths of
it are tried together. A step that does not help is tried a tenth as long. The model learns from all points.

Points are told in the order they were asked about. A value of minus infinity says that a point is outside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.utils.arrays import FloatArray

RAY_LENGTHS = 16.0 ** np.arange(3)
STEP_SHARES = (1.0, 0.3, 2.5)  # of the model's step
SHORTER = 0.1  # after a step that did not help
MAX_LENGTH = 1e30  # of the ray: nobody has so many samples
STALLED_GAIN, MAX_QUIET_ROUNDS = 1e-12, 3  # of what is at stake: an end where rounding lets it fall no further
MAX_PIVOTS = 20  # per coordinate, for a step
MAX_FALLS = 24  # times the ray is begun nearer to nothing
MAX_GROWTH = 9.0  # times a contribution, and the mean one, in a step
MIN_CURVATURE = 1e-14  # of the largest: what a model curves at least in any direction
MIN_LEARNED = 1e-10  # of the curvature that the model expects: less teaches it nothing
MIN_RANGE = 1e-12  # of a contribution
MIN_DIAGONAL, MAX_DIAGONAL = 1e-2, 1e2  # times the middle one
MAX_LINEARISED = 1e-4  # of what is at stake: with more to gain at the margin the model misleads
FRESH_SHARE = 0.1  # of the model's diagonal: how it is begun anew then


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """What is known of a point."""

    at: FloatArray
    value: float
    gradient: FloatArray


class QuasiNewton:
    """The climb: ask about `points`, then `tell`, until `is_done`.

    Parameters
    ----------
    caps
        The upper ends of the box, possibly infinite; the lower ones are zero.
    tol
        Of what is at stake: the gain that the model promises, and that the last points have brought, at the end; three
        rounds with less than `STALLED_GAIN` are an end as well.
    start
        Where it was before, among others perhaps: a point of the ray, if that rises.
    """

    def __init__(self, caps: FloatArray, *, tol: float, start: FloatArray | None = None) -> None:
        self.caps, self.tol = np.asarray(caps, dtype=np.float64), tol
        self.best: Told | None = None
        self.promised, self.is_done = np.inf, False
        self._model: FloatArray | None = None
        self._ray: list[Told] = []
        self._direction, self._length, self._falls = np.ones(self.caps.size), 1.0, 0
        self._shorter, self._quiet = 1.0, 0
        self._start = start if start is not None and start.any() else None
        self.points: Sequence[FloatArray] = [np.zeros(self.caps.size)]

    def tell(self, values: Sequence[float], gradients: Sequence[FloatArray], *, stake: float) -> None:
        """Take in what was found at the points, and choose the next."""
        found = [
            Told(at=at, value=value, gradient=gradient)
            for at, value, gradient in zip(self.points, values, gradients, strict=True)
        ]
        if self.best is None:
            self._begin(found[0])
        elif self._model is None:
            self._look_along(found)
        else:
            self._learn(self.best, self._model, [told for told in found if np.isfinite(told.value)], stake)
        if not self.is_done:
            self.points = self._next_points()

    def _begin(self, nothing: Told) -> None:
        """At nothing: whoever's contribution is worth its cost there is on the ray."""
        self.best, self._ray = nothing, [nothing]
        worth = (nothing.gradient > 0.0) & (self.caps > 0.0)
        self._direction = worth.astype(np.float64)
        if self._start is not None and nothing.gradient @ self._start > 0.0:  # else it falls all the way there
            self._direction = np.where(self._start > 0.0, self._start, 0.0)
            self._length = 1.0 / RAY_LENGTHS[1]  # the second point is where it was before
        if not worth.any():
            self.is_done, self.promised = True, 0.0

    def _look_along(self, found: Sequence[Told]) -> None:
        """Go on along the ray until its slope has turned, or everybody is at its cap."""
        self._ray += [told for told in found if np.isfinite(told.value)]
        best = int(np.argmax([told.value for told in self._ray]))
        last = found[-1]
        is_capped = bool((last.at >= self.caps)[self._direction > 0.0].all()) or self._length > MAX_LENGTH
        is_over = not np.isfinite(last.value) or last.gradient @ last.at < 0.0 or is_capped
        if best == 0 and is_over and self._falls < MAX_FALLS:
            self._falls += 1
            self._length /= RAY_LENGTHS[-1] * RAY_LENGTHS[1]
            self._ray = self._ray[:1]
        elif is_over:
            self.best = self._ray[best]
            self._model = _diagonal_model(self.best, self._ray[best + 1 if best + 1 < len(self._ray) else best - 1])
        else:
            self._length *= RAY_LENGTHS[-1] * RAY_LENGTHS[1]

    def _learn(self, here: Told, model: FloatArray, inside: Sequence[Told], stake: float) -> None:
        """Teach the model what was found, go to the best, and see whether there is more to gain."""
        chain = [here, *sorted(inside, key=lambda told: float(np.linalg.norm(told.at - here.at)))]
        best = int(np.argmax([told.value for told in chain]))
        for place in sorted(range(len(chain) - 1), key=lambda place: -abs(place + 0.5 - best)):
            model = _taught(model, chain[place], chain[place + 1])
        left = max(self.promised, chain[best].value - here.value)
        self.best, self._model, at = chain[best], model, chain[best].at
        self._shorter = self._shorter * SHORTER if best == 0 else min(1.0, self._shorter / SHORTER)
        self._quiet = self._quiet + 1 if left <= STALLED_GAIN * stake else 0
        if left > self.tol * stake and self._quiet < MAX_QUIET_ROUNDS:
            return
        box, gradient = np.minimum(self.caps, 2.0 * at + at.mean()), self.best.gradient
        if np.maximum(gradient * (box - at), -gradient * at).sum() <= MAX_LINEARISED * stake:
            self.is_done = True
        else:
            diagonal = np.diag(model)
            self._model = FRESH_SHARE * np.diag(np.maximum(diagonal, MIN_DIAGONAL * float(np.median(diagonal))))
            self._shorter, self._quiet = 1.0, 0

    def _next_points(self) -> Sequence[FloatArray]:
        if self._model is None:
            return [np.minimum(length * self._direction, self.caps) for length in self._length * RAY_LENGTHS]
        assert self.best is not None
        step = self._step(self.best, self._model)
        self.promised = float(self.best.gradient @ step - 0.5 * step @ self._model @ step)
        return [np.clip(self.best.at + self._shorter * share * step, 0.0, self.caps) for share in STEP_SHARES]

    def _step(self, here: Told, model: FloatArray) -> FloatArray:
        """To the model's maximiser over the box, which is kept within sight."""
        from scipy.optimize import lsq_linear  # noqa: PLC0415 - heavy

        at = here.at
        down, up = -at, np.minimum(self.caps - at, MAX_GROWTH * at + at.mean())
        free = up - down > MIN_RANGE * (1.0 + np.abs(at))
        step = np.zeros(up.size)
        if free.any():
            lengths = 1.0 / np.sqrt(np.maximum(np.diag(model)[free], np.finfo(float).tiny))
            # By eigenvalues, since updates can leave a model with one that is rounding.
            curvatures, axes = np.linalg.eigh(model[np.ix_(free, free)] * lengths * lengths[:, None])
            root = axes * np.sqrt(np.maximum(curvatures, MIN_CURVATURE * curvatures[-1]))
            target = np.linalg.solve(root, here.gradient[free] * lengths)
            bounds = np.minimum(down[free], 0.0) / lengths, np.maximum(up[free] / lengths, np.finfo(float).tiny)
            found = lsq_linear(root.T, target, bounds=bounds, method="bvls", max_iter=MAX_PIVOTS * up.size)
            step[free] = np.clip(found.x, *bounds) * lengths
        return step


def _diagonal_model(here: Told, near: Told) -> FloatArray:
    """The diagonal that explains how the gradient changes between two points of the ray."""
    moved, turned = near.at - here.at, here.gradient - near.gradient
    diagonal = np.divide(turned, moved, out=np.zeros(moved.size), where=moved != 0.0)
    middle = float(np.median(diagonal[diagonal > 0.0])) if (diagonal > 0.0).any() else 1.0
    return np.diag(np.clip(diagonal, MIN_DIAGONAL * middle, MAX_DIAGONAL * middle))


def _taught(model: FloatArray, one: Told, two: Told) -> FloatArray:
    """The model with the curvature seen between two points (the formula of Broyden, Fletcher, Goldfarb and Shanno)."""
    moved, turned = two.at - one.at, one.gradient - two.gradient
    expected = model @ moved
    size, seen = float(moved @ expected), float(moved @ turned)
    if size <= 0.0 or seen < MIN_LEARNED * size:
        return model
    return np.asarray(model - np.outer(expected, expected) / size + np.outer(turned, turned) / seen)

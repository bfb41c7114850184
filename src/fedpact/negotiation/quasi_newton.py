"""A concave function climbed over a box from values and gradients alone, few questions at a time.

It begins at nothing, then looks along a ray for the order of magnitude of the answer, three points at a time. From the
best of these it goes by a quadratic model (BFGS): the model's maximiser over the box gives a step, and three lengths of
it are tried together. A step that does not help is tried a tenth as long. Once a step has brought about what the model
promised, its length is not in doubt: the two other points then look aside, half as far away in directions drawn at
random (the same in every run), and teach the model the curvature across the step. That halves the rounds where there
are many coordinates of unlike curvature. The model learns from all points.

Points are told in the order they were asked about. A value of minus infinity says that a point is outside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.utils.arrays import FloatArray

RAY_FACTOR = 16.0  # between points on the ray
RAY_POINTS = 3
STEP_SHARES = (1.0, 0.3, 2.5)  # of the model's step
SHORTER = 0.1  # after a step that did not help
LOOKS_ASIDE = 2  # points that are not on the step, where its length is not in doubt
LOOK_SHARE = 0.5  # of the step's length in the model's metric, and of the room there is
KEPT_PROMISE = (0.25, 1.75)  # of what the model promised for a step: its length is not in doubt
MAX_LENGTH = 1e30  # of the ray: nobody has so many samples
STALLED_GAIN, MAX_QUIET_ROUNDS = 1e-12, 3  # of what is at stake: an end where rounding lets it fall no further
MAX_PIVOTS = 20  # per coordinate, for a step
MAX_FALLS = 24  # times the ray is begun nearer to nothing
MAX_GROWTH = 9.0  # times a contribution, and the mean one, in a step
MIN_BEND = 1e-14  # of the largest: what a model bends at least in any direction
NO_ROOM = 1e-12  # of a contribution
MIN_DIAGONAL, MAX_DIAGONAL = 1e-2, 1e2  # times the middle one
MIN_CURVATURE = 1e-10  # of what the model expects: less teaches it nothing
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
        self._directions, self._looks = np.random.default_rng(0), 0
        self._fallback = start if start is not None and start.any() else None
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
            self._learn(found, stake)
        if not self.is_done:
            self.points = self._next_points()

    def _begin(self, nothing: Told) -> None:
        """At nothing: whoever's contribution is worth its cost there is on the ray."""
        self.best, self._ray = nothing, [nothing]
        worth = (nothing.gradient > 0.0) & (self.caps > 0.0)
        self._direction = worth.astype(np.float64)
        if self._fallback is not None and nothing.gradient @ self._fallback > 0.0:  # else it falls all the way there
            self._direction = np.where(self._fallback > 0.0, self._fallback, 0.0)
            self._length = 1.0 / RAY_FACTOR  # the second point is where it was before
        if not worth.any():
            self.is_done, self.promised = True, 0.0

    def _look_along(self, found: Sequence[Told]) -> None:
        """Go on along the ray until its slope has turned, or everybody is at its cap."""
        self._ray += [told for told in found if np.isfinite(told.value)]
        best = int(np.argmax([told.value for told in self._ray]))
        last = found[-1]
        on_ray = self._direction > 0.0
        is_capped = bool((last.at >= self.caps)[on_ray].all()) or self._length > MAX_LENGTH
        is_over = not np.isfinite(last.value) or last.gradient @ last.at < 0.0 or is_capped
        if best == 0 and is_over and self._falls < MAX_FALLS:
            self._falls += 1
            self._length /= RAY_FACTOR**RAY_POINTS
            self._ray = self._ray[:1]
        elif is_over:
            near = self._ray[best + 1] if best + 1 < len(self._ray) else self._ray[best - 1]
            self.best = self._ray[best]
            self._model = _diagonal_model(self.best, near)
        else:
            self._length *= RAY_FACTOR**RAY_POINTS

    def _learn(self, found: Sequence[Told], stake: float) -> None:
        """Teach the model what was found, go to the best, and see whether there is more to gain."""
        assert self.best is not None and self._model is not None
        aside = found[len(found) - self._looks :]
        for told in aside:
            if np.isfinite(told.value):
                self._model = _taught(self._model, self.best, told)
        inside = [told for told in found[: len(found) - self._looks] if np.isfinite(told.value)]
        rise = (found[0].value - self.best.value) / self.promised if self.promised > 0.0 else 0.0
        self._looks = LOOKS_ASIDE if self._shorter == 1.0 and KEPT_PROMISE[0] <= rise <= KEPT_PROMISE[1] else 0
        chain = [self.best, *sorted(inside, key=lambda told: float(np.linalg.norm(told.at - self.best.at)))]  # type: ignore[union-attr]
        best = int(np.argmax([told.value for told in chain]))
        for place in sorted(range(len(chain) - 1), key=lambda place: -abs(place + 0.5 - best)):
            self._model = _taught(self._model, chain[place], chain[place + 1])
        highest = max([chain[best], *aside], key=lambda told: told.value)
        gain = highest.value - self.best.value
        self.best = highest
        self._shorter = self._shorter * SHORTER if best == 0 else min(1.0, self._shorter / SHORTER)
        left = max(self.promised, gain)
        self._quiet = self._quiet + 1 if left <= STALLED_GAIN * stake else 0
        if left > self.tol * stake and self._quiet < MAX_QUIET_ROUNDS:
            return
        at = self.best.at
        box = np.minimum(self.caps, 2.0 * at + at.mean())
        gains = np.maximum(self.best.gradient * (box - at), -self.best.gradient * at)
        if gains.sum() <= MAX_LINEARISED * stake:
            self.is_done = True
        else:
            diagonal = np.diag(self._model)
            self._model = FRESH_SHARE * np.diag(np.maximum(diagonal, MIN_DIAGONAL * float(np.median(diagonal))))
            self._shorter, self._quiet = 1.0, 0

    def _next_points(self) -> Sequence[FloatArray]:
        if self._model is None:
            lengths = self._length * RAY_FACTOR ** np.arange(RAY_POINTS)
            return [np.minimum(length * self._direction, self.caps) for length in lengths]
        assert self.best is not None
        step = self._step()
        self.promised = float(self.best.gradient @ step - 0.5 * step @ self._model @ step)
        aside = self._moves_aside(step)
        self._looks = len(aside)
        shares = STEP_SHARES[: len(STEP_SHARES) - self._looks]
        moves = [self._shorter * share * step for share in shares] + aside
        return [np.clip(self.best.at + move, 0.0, self.caps) for move in moves]

    def _moves_aside(self, step: FloatArray) -> list[FloatArray]:
        """Moves in other directions that rise, among the coordinates that are not held at an end of the box."""
        assert self.best is not None and self._model is not None
        down, up = self._limits()
        free = (up > 0.0) & ((self.best.at > 0.0) | (step > 0.0))
        if free.sum() <= self._looks:
            return []
        length = np.sqrt(max(float(step @ self._model @ step), 0.0))
        sizes = 1.0 / np.sqrt(np.maximum(np.diag(self._model), np.finfo(float).tiny))
        rises = self.best.gradient
        moves = []
        for _ in range(self._looks):
            move = np.where(free, self._directions.standard_normal(step.size) * sizes, 0.0)
            move *= LOOK_SHARE * length / np.sqrt(max(float(move @ self._model @ move), np.finfo(float).tiny))
            moves.append(np.clip(move if move @ rises >= 0.0 else -move, LOOK_SHARE * down, LOOK_SHARE * up))
        return moves

    def _limits(self) -> tuple[FloatArray, FloatArray]:
        """How far a step may lead, down and up: within the box, and within sight."""
        assert self.best is not None
        at = self.best.at
        return -at, np.minimum(self.caps - at, MAX_GROWTH * at + at.mean())

    def _step(self) -> FloatArray:
        """To the model's maximiser over the box, which is kept within sight."""
        from scipy.optimize import lsq_linear  # noqa: PLC0415 - heavy

        assert self.best is not None and self._model is not None
        here, (down, up) = self.best, self._limits()
        free = up - down > NO_ROOM * (1.0 + np.abs(here.at))
        step = np.zeros(up.size)
        if free.any():
            lengths = 1.0 / np.sqrt(np.maximum(np.diag(self._model)[free], np.finfo(float).tiny))
            # By eigenvalues, since updates can leave a model with one that is rounding.
            bends, ways = np.linalg.eigh(self._model[np.ix_(free, free)] * lengths * lengths[:, None])
            root = ways * np.sqrt(np.maximum(bends, MIN_BEND * bends[-1]))
            target = np.linalg.solve(root, here.gradient[free] * lengths)
            bounds = np.minimum(down[free], 0.0) / lengths, np.maximum(up[free] / lengths, np.finfo(float).tiny)
            found = lsq_linear(root.T, target, bounds=bounds, method="bvls", max_iter=MAX_PIVOTS * up.size)
            step[free] = np.clip(found.x, *bounds) * lengths
        return step


def _diagonal_model(here: Told, near: Told) -> FloatArray:
    """The diagonal that explains how the gradient changes between two points of the ray."""
    moved, turned = near.at - here.at, here.gradient - near.gradient
    diagonal = np.where(moved != 0.0, turned / np.where(moved != 0.0, moved, 1.0), 0.0)
    middle = float(np.median(diagonal[diagonal > 0.0])) if (diagonal > 0.0).any() else 1.0
    return np.diag(np.clip(diagonal, MIN_DIAGONAL * middle, MAX_DIAGONAL * middle))


def _taught(model: FloatArray, one: Told, two: Told) -> FloatArray:
    """The model with the curvature seen between two points (the formula of Broyden, Fletcher, Goldfarb and Shanno)."""
    moved, turned = two.at - one.at, one.gradient - two.gradient
    expected = model @ moved
    size, seen = float(moved @ expected), float(moved @ turned)
    if size <= 0.0 or seen < MIN_CURVATURE * size:
        return model
    return np.asarray(model - np.outer(expected, expected) / size + np.outer(turned, turned) / seen)

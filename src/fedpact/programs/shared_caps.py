"""Concave programs whose coordinates share caps: a box, cut by bounds on sums of disjoint groups of its coordinates.

Maximise f(s) over 0 <= s <= upper with sum of s over the lots of each shared cap <= its cap. Where the maximiser over
the box keeps the shared caps, it is the answer. Otherwise the barrier is followed with the shared caps as edges of the
domain, to a point near the answer, and the last digits come from a program over a box again: in every shared cap one of
the lots, or the room that is left, is far from its bounds; it is written as what the others leave of the cap,

    s_pivot = cap - sum of the other lots - room left,

and the others, the room left among them, have bounds of their own and nothing in common any more. Should the pivot
itself reach a bound, another one takes its place.

Stopping inequality: the linearised gain over the polytope is at most `tol` x `scale`. By duality it is the least, over
prices p >= 0 of the shared caps, of  sum of the gains over the box with f' - p in place of f', and p x the room left;
the least is at one of the slopes. Cost: one or two programs over the box, with dense curvature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.lots import SharedCap, shared_members
from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.solver import (
    GAIN_TOLERANCE,
    MAX_ITERATIONS,
    Program,
    Solution,
    Status,
    conclude,
    finish_batch,
    follow_barrier,
    linearised_gains,
    maximise,
)
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, NotConverged

LAST_BARRIERS = (1e-7, 1e-10, 1e-14)  # from where the last digits are tried: first early, and if that fails later
MAX_PIVOTS = 12  # times that pivots are chosen anew
MAX_SHARING_LOTS = 2_000  # of a program with shared caps, whose curvature is dense


def maximise_within(
    program: Program,
    shared_caps: Sequence[SharedCap],
    *,
    tol: float = GAIN_TOLERANCE,
    rough: Program | None = None,
    max_iterations: int = MAX_ITERATIONS,
) -> Solution:
    """Maximise a program within shared caps; `NotConverged` (with the `Solution` reached) above `tol`.

    `rough` and `max_iterations` are as in `maximise`, which this is where nothing is shared.
    """
    cutting = [shared for shared in shared_caps if program.upper[list(shared.lots)].sum() > shared.cap]
    if not cutting:
        return _with_prices(maximise(program, tol=tol, rough=rough, max_iterations=max_iterations), len(shared_caps))
    if program.upper.size > MAX_SHARING_LOTS:
        raise InvalidInput(
            f"shared_caps are known among up to {MAX_SHARING_LOTS} lots, got {program.upper.size}; leave them out and "
            "lower the caps of the lots instead"
        )
    try:
        loose = maximise(program, tol=tol, rough=rough, max_iterations=max_iterations)
        if _keeps(loose.contributions, cutting):
            return _with_prices(loose, len(shared_caps))
    except NotConverged:  # without the shared caps there may be no end
        pass
    failure: NotConverged | None = None
    for last_barrier in LAST_BARRIERS:
        near, steps = follow_barrier(_Fenced(rough or program, cutting), last_barrier)
        points, finishing = _finish(program, cutting, near)
        try:
            return conclude_within(program, shared_caps, points, steps + finishing, tol=tol)
        except NotConverged as error:
            failure = error
    assert failure is not None
    raise failure


def conclude_within(
    program: Program,
    shared_caps: Sequence[SharedCap],
    contributions: FloatArray,
    iterations: int,
    *,
    tol: float = GAIN_TOLERANCE,
) -> Solution:
    """Multipliers and residual of a point within shared caps, or `NotConverged`."""
    if not shared_caps:
        return conclude(program, contributions, iterations, tol=tol)
    gradient = program.gradient(contributions)
    prices, gain = shared_prices(contributions, gradient, program.upper, shared_caps)
    residual = float(np.maximum(gain, 0.0) / max(float(np.max(program.scale)), np.finfo(float).tiny))
    if not _keeps(contributions, shared_caps):
        residual = np.inf
    left = gradient - prices @ shared_members(shared_caps, gradient.size)
    own = _own_limits(program.upper, shared_caps)
    solution = Solution(
        contributions=read_only_copy(contributions),
        lower_multipliers=read_only_copy(np.where(contributions <= 0, np.maximum(-left, 0.0), 0.0)),
        upper_multipliers=read_only_copy(np.where(contributions >= own, np.maximum(left, 0.0), 0.0)),
        shared_multipliers=read_only_copy(prices),
        kkt_residual=residual,
        iterations=iterations,
        status=Status.CONVERGED if residual <= tol else Status.STALLED,
    )
    if solution.status is Status.STALLED:
        if not prices.any() and residual < np.inf:  # the edge of the domain may be what holds it
            return replace(conclude(program, contributions, iterations, tol=tol), shared_multipliers=prices)
        raise NotConverged(
            f"the maximiser stopped at a linearised gain of {residual:.1e} of the payoff scale, above {tol:.0e}",
            result=solution,
        )
    return solution


def shared_prices(
    contributions: FloatArray, gradient: FloatArray, upper: FloatArray, shared_caps: Sequence[SharedCap]
) -> tuple[FloatArray, float]:
    """The price of every shared cap at a point, and the linearised gain over all that is within the bounds.

    A lot whose own bound is not below the shared cap has none: what holds it is the shared one.
    """
    limits = _own_limits(upper, shared_caps)
    gains = linearised_gains(contributions, gradient, limits)
    prices, total = np.zeros(len(shared_caps)), gains.sum()
    for place, shared in enumerate(shared_caps):
        own = list(shared.lots)
        s, slopes, most = contributions[own], gradient[own], limits[own]
        room = max(shared.cap - float(s.sum()), 0.0)
        tried = np.append(np.maximum(slopes, 0.0), 0.0)
        found = linearised_gains(s, slopes - tried[:, None], most).sum(axis=1) + tried * room
        best = np.flatnonzero(found == found.min())
        prices[place] = tried[best].min()
        total += found.min() - gains[own].sum()
    return prices, float(total)


def _own_limits(upper: FloatArray, shared_caps: Sequence[SharedCap]) -> FloatArray:
    """The bounds, without those that the shared caps make: twice as much is then as good as none."""
    limits = upper.copy()
    for shared in shared_caps:
        own = list(shared.lots)
        limits[own] = np.where(upper[own] >= shared.cap, 2.0 * shared.cap, upper[own])
    return limits


def _keeps(contributions: FloatArray, shared_caps: Sequence[SharedCap]) -> bool:
    rounding = 1.0 + 4.0 * np.finfo(float).eps
    return all(contributions[list(shared.lots)].sum() <= shared.cap * rounding for shared in shared_caps)


def _with_prices(solution: Solution, count: int) -> Solution:
    return replace(solution, shared_multipliers=np.zeros(count))


class _Fenced:
    """The program with shared caps as edges of its domain."""

    def __init__(self, program: Program, shared_caps: Sequence[SharedCap]) -> None:
        self._program, self.upper, self.scale = program, program.upper, program.scale
        caps = np.array([shared.cap for shared in shared_caps])
        self._rows = -shared_members(shared_caps, self.upper.size) / caps[:, None]
        self.gradient, self.curvature = program.gradient, program.curvature

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        here, change = 1.0 + self._rows @ contributions, self._rows @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(change < 0, here / -change, np.inf)
        return np.minimum(self._program.room(contributions, direction), steps.min())

    def edges(self) -> FloatArray:
        inner = self._program.edges()
        return self._rows if inner is None else np.concatenate([inner, self._rows])

    def start(self) -> FloatArray:
        begin = self._program.start()
        return np.asarray(begin * min(1.0, 0.5 * float(self.room(np.zeros_like(begin), begin))))


class _Pivoted:
    """The program over all but one of the lots of each shared cap, and the room that these caps leave.

    A pivot of -1 is the room left itself: then all lots of the cap are decided on.
    """

    def __init__(self, program: Program, shared_caps: Sequence[SharedCap], pivots: NDArray[np.intp]) -> None:
        self._program, self.scale = program, program.scale
        size, taken = program.upper.size, pivots[pivots >= 0]
        held = [shared for shared, pivot in zip(shared_caps, pivots, strict=True) if pivot >= 0]
        self._pivots, self._caps = taken, np.array([shared.cap for shared in held])
        self.lots = np.setdiff1d(np.arange(size), taken)
        members = shared_members(held, size)
        self._spread = np.zeros((size, self.lots.size + taken.size))
        self._spread[self.lots, np.arange(self.lots.size)] = 1.0
        self._spread[taken, : self.lots.size] = -members[:, self.lots]
        self._spread[taken, self.lots.size + np.arange(taken.size)] = -1.0
        self._offset = np.zeros(size)
        self._offset[taken] = self._caps
        self._members = members
        self.upper = np.append(program.upper[self.lots], self._caps)

    def profile(self, variables: FloatArray) -> FloatArray:
        """All lots."""
        return np.asarray(self._spread @ variables + self._offset)

    def variables(self, contributions: FloatArray) -> FloatArray:
        """What is decided on: lots, then the room left."""
        return np.append(contributions[self.lots], np.maximum(self._caps - self._members @ contributions, 0.0))

    def gradient(self, variables: FloatArray) -> FloatArray:
        return np.asarray(self._spread.T @ self._program.gradient(self.profile(variables)))

    def curvature(self, variables: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        unit = np.ones(self._offset.size)
        whole = self._program.curvature(self.profile(variables), unit, unit)
        assert isinstance(whole, DenseCurvature)
        return DenseCurvature.scaled(-self._spread.T @ whole.matrix @ self._spread, left, right)

    def room(self, variables: FloatArray, direction: FloatArray) -> FloatArray:
        here, change = self.profile(variables), self._spread @ direction
        pivots, moved = here[self._pivots], change[self._pivots]
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(moved < 0, -pivots / moved, np.inf)
        return np.minimum(self._program.room(here, change), steps.min(initial=np.inf))

    def edges(self) -> None:
        return None

    def start(self) -> FloatArray:
        return self.variables(self._program.start())


def _finish(program: Program, shared_caps: Sequence[SharedCap], near: FloatArray) -> tuple[FloatArray, int]:
    """The maximiser from a point close to it, and the number of Newton steps."""
    best, least, steps = near, np.inf, 0
    for _ in range(MAX_PIVOTS):
        pivoted = _Pivoted(program, shared_caps, _choose_pivots(near, program.upper, shared_caps))
        begin = _at_bounds(pivoted, pivoted.variables(near))
        variables, taken = finish_batch(pivoted, begin)
        reached, steps = _pull_inside(near, pivoted.profile(variables), program.upper), steps + taken
        gradient = program.gradient(reached)
        gain = (
            shared_prices(reached, gradient, program.upper, shared_caps)[1] if _keeps(reached, shared_caps) else np.inf
        )
        if not gain < 0.5 * least:
            return (reached, steps) if gain < least else (best, steps)
        best, least, near = reached, gain, reached
    return best, steps


def _choose_pivots(near: FloatArray, upper: FloatArray, shared_caps: Sequence[SharedCap]) -> NDArray[np.intp]:
    """For every shared cap what is furthest from its bounds: a lot, or the room left (-1)."""
    limits, found = _own_limits(upper, shared_caps), []
    for shared in shared_caps:
        own = np.array(shared.lots)
        inside = np.minimum(near[own], limits[own] - near[own])
        found.append(own[np.argmax(inside)] if inside.max() > shared.cap - near[own].sum() else -1)
    return np.array(found, dtype=np.intp)


def _at_bounds(pivoted: _Pivoted, variables: FloatArray) -> FloatArray:
    """The variables with those at a bound that are closer to it than what pushes them there is large."""
    scale = np.maximum(np.asarray(pivoted.scale, dtype=np.float64), np.finfo(float).tiny)
    share = variables / np.where(pivoted.upper > 0, pivoted.upper, 1.0)
    push = pivoted.gradient(variables) * pivoted.upper / scale
    return np.where(share < -push, 0.0, np.where(1.0 - share < push, pivoted.upper, variables))


def _pull_inside(near: FloatArray, reached: FloatArray, upper: FloatArray) -> FloatArray:
    """The point reached, or the last on the way to it at which a pivot is still within its bounds."""
    below, above = reached < 0.0, reached > upper
    if not (below | above).any():
        return reached
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(below, near / (near - reached), np.where(above, (upper - near) / (reached - near), 1.0))
    first = float(np.clip(shares.min(), 0.0, 1.0))
    stopped = near + first * (reached - near)
    blocks = (below | above) & (shares <= first)
    return np.clip(np.where(blocks & below, 0.0, np.where(blocks & above, upper, stopped)), 0.0, upper)

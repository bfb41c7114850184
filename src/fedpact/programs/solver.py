"""The concave maximiser: a primal-dual interior point, then an active set that finishes to the last digits.

Maximise f(s) over 0 <= s <= upper, f smooth and concave, falling to minus infinity at the edge of its domain. In
x = s / upper and units of `scale`, the interior point follows

    -f'(x) = z - v,      x z = mu,      (1 - x) v = mu,          mu -> 0,

with -f less mu log of the distance to every edge of the domain, which keeps early steps away from it, by Newton steps
with a line search on the barrier function. The finish drops the barrier: variables at a bound are held there, the
others take Newton steps, and a held variable is released when its multiplier has the wrong sign.

A Newton step solves (curvature + diagonal) d = r (`fedpact.programs.curvature`), for many programs of the same size
side by side if there is a stack of them: all arrays may carry leading batch axes.

A step stays within the domain of the payoffs (`fedpact.programs.domain`).

Stopping inequality: the linearised gain  max over t of f'(s) (t - s),  which bounds how far f(s) is from its maximum,
is at most `tol` x `scale`. It is taken over the box; where the maximum is as good as at the edge of the domain, over
what the box has of the domain, by weak duality: with multipliers l >= 0 of the edges, of which 1 + r s is the distance,
f'(s) + l r takes the place of f'(s), and l (1 + r s) is added; where no float is flat enough, by several tangents
together (`tangents`). Cost per iteration: a gradient, a Hessian and one dense factorisation, or the products of
conjugate gradients. SciPy's solvers stop short of these digits, and at an edge (docs: the paper's Table 1).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedpact.programs.curvature import Curvature, DenseCurvature
from fedpact.programs.tangents import linearised_gap, mixed_gap
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import NotConverged
from fedpact.utils.progress import report_progress

GAIN_TOLERANCE = 1e-10
# At the edge of the domain slopes have few digits: the first gain ends the search, the second is still accepted.
EDGE_GAIN, EDGE_GAIN_TOLERANCE = 0.5 * GAIN_TOLERANCE, 10.0 * GAIN_TOLERANCE
NEARLY_GAIN = 1e4 * GAIN_TOLERANCE  # up to here rounding of slopes may be all there is to it
# The barrier is followed down to this mu (in units of scale): below it rounding rules.
FIRST_BARRIER = 0.1
LAST_BARRIER = 1e-16
ROUGH_BARRIERS = (1e-5, 1e-9)  # where the finish takes over: first early, and if that fails later
BARRIER_ACCURACY = 10.0  # a barrier problem counts as solved at this multiple of mu
SETTLED_GAIN = 1e-3  # of mu: a step that promises no more gets nowhere
DUAL_LEEWAY = 1e10  # multipliers stay within this factor of mu / x
FRACTION_TO_BOUNDARY = 0.995
FRACTION_TO_DOMAIN = 0.9
# A step is good while slope / slope at the start lies between -MAX_SLOPE_TURNED and MAX_SLOPE_LEFT.
MAX_SLOPE_LEFT, MAX_SLOPE_TURNED = 0.9, 0.9
MAX_ITERATIONS = 500
MANY_COORDINATES = 100_000  # steps take seconds from here on: each is reported
SURE_PROGRESS = 0.7  # of the least error so far: a step that lowers it further gets somewhere
EDGE_SHARE, EDGE_DECREASE = (
    0.1,
    1e-3,
)  # of the gain accepted, that the barrier at the edge may cost; how it falls to that
# Iterations without a lower mu before the finish takes over; at an edge each brings it no more than so much closer.
MAX_WAIT, MAX_WAIT_AT_LAST, MAX_WAIT_AT_EDGE = 30, 4, 12
MAX_TRIALS = 60
MAX_FINISHING_STEPS = 60
NEAR_EDGE = 1e-3  # edges of the domain at which multipliers are looked for, by their distance


class Program(Protocol):
    """A concave program over a box; arrays are (..., n_agents)."""

    @property
    def upper(self) -> FloatArray:
        """Finite upper bounds; the lower bounds are zero."""

    @property
    def scale(self) -> FloatArray | float:
        """The size of the objective, (...), for tolerances."""

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """f'(s)."""

    def curvature(self, contributions: FloatArray, left: FloatArray, right: FloatArray) -> Curvature:
        """-left f''(s) right, with coordinates scaled from both sides."""

    def room(self, contributions: FloatArray, direction: FloatArray) -> FloatArray:
        """The largest step along `direction` that stays in the domain, (...)."""

    def edges(self) -> FloatArray | None:
        """Rows with which 1 + rows @ s is the distance to the edge of the domain (`domain.edge_rows`), or None."""

    def start(self) -> FloatArray:
        """A point inside the box and the domain."""


class Status(Enum):
    """How a maximisation ended; the value is the message."""

    CONVERGED = "the linearised gain is within tolerance"
    STALLED = "the linearised gain stayed above tolerance"


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """A maximiser with its multipliers.

    Attributes
    ----------
    contributions
        The point reached.
    lower_multipliers, upper_multipliers
        Of s >= 0 and of s <= upper: non-negative, zero away from the bound.
    shared_multipliers
        Of the caps that lots share, one each: non-negative, zero where there is room.
    kkt_residual
        The linearised gain in units of scale: a bound on the relative distance from the maximum.
    iterations
        Newton steps taken, interior point and finish together.
    """

    contributions: FloatArray
    lower_multipliers: FloatArray
    upper_multipliers: FloatArray
    kkt_residual: float
    iterations: int
    status: Status
    shared_multipliers: FloatArray = field(default_factory=lambda: np.zeros(0))


def maximise(
    program: Program,
    *,
    tol: float = GAIN_TOLERANCE,
    rough: Program | None = None,
    max_iterations: int = MAX_ITERATIONS,
) -> Solution:
    """Maximise one program; raises `NotConverged` (with the `Solution` reached) above `tol`.

    With `rough`, a cheaper program with nearly the same maximiser and the same box, the barrier is followed there and
    only the finish uses `program` itself, if that is enough.
    """
    before = 0
    for last_barrier in ROUGH_BARRIERS:
        if rough is None:
            break
        near, followed = maximise_batch(rough, last_barrier=last_barrier)
        points, finishing = finish_batch(program, near)
        before += followed + finishing
        try:
            return conclude(program, points, before, tol=tol)
        except NotConverged:  # the barrier was left too early, or rough integrals led too far away
            pass
    points, iterations = maximise_batch(program, max_iterations=max_iterations)
    return _settle_at_bounds(program, conclude(program, points, before + iterations, tol=tol))


def conclude(
    program: Program,
    contributions: FloatArray,
    iterations: int,
    *,
    tol: float = GAIN_TOLERANCE,
    near: Solution | None = None,
) -> Solution:
    """Multipliers and residual of a point, or `NotConverged`.

    Of a maximum known `near` it is at most as far as that and what its tangent promises on the way there.
    """
    gradient = program.gradient(contributions)
    gains = linearised_gains(contributions, gradient, program.upper)
    scale = max(float(np.max(program.scale)), np.finfo(float).tiny)
    residual = float(np.sum(gains) / scale)
    if near is not None and program.room(np.zeros_like(contributions), contributions) > 1.0:  # within the domain
        rise = max(float(gradient @ (near.contributions - contributions)) / scale, 0.0)
        if rise <= tol and near.kkt_residual + rise < residual:
            residual, tol = near.kkt_residual + rise, near.kkt_residual + tol
    if residual > tol and program.edges() is not None:
        scaled = _Scaled(program)
        residual, push = scaled.gap_in_domain(-scaled.factor * gradient, scaled.of(contributions))
        tol = max(tol, EDGE_GAIN_TOLERANCE) if push.any() else tol
        gradient = gradient + np.divide(push, scaled.factor, out=np.zeros_like(push), where=scaled.factor > 0)
    if tol < residual <= NEARLY_GAIN:
        scaled = _Scaled(program)
        residual = min(residual, mixed_gap(scaled.gradient, scaled.of(contributions)))
    solution = Solution(
        contributions=read_only_copy(contributions),
        lower_multipliers=read_only_copy(np.where(contributions <= 0, np.maximum(-gradient, 0.0), 0.0)),
        upper_multipliers=read_only_copy(np.where(contributions >= program.upper, np.maximum(gradient, 0.0), 0.0)),
        kkt_residual=residual,
        iterations=iterations,
        status=Status.CONVERGED if residual <= tol else Status.STALLED,
    )
    if solution.status is Status.STALLED:
        raise NotConverged(
            f"the maximiser stopped at a linearised gain of {residual:.1e} of the payoff scale, above {tol:.0e}",
            result=solution,
        )
    return solution


def _settle_at_bounds(program: Program, found: Solution) -> Solution:
    """The same maximum, with those at a bound whom only the barrier keeps away from it.

    A barrier leaves each of them a gain of mu: nothing to the whole, but it may be all that one has at stake.
    """
    scaled, contributions = _Scaled(program), found.contributions
    x = scaled.of(contributions)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gradient, curvature = scaled.gradient(x), scaled.curvature(x)
        if not isinstance(curvature, DenseCurvature):
            return found
        settled = _keep_inside(scaled, x, settle_by_own_steps(x, -gradient, curvature.diagonal, 1.0))
        if (settled == x).all():
            return found
        settled, steps = _finish(scaled, settled, held_low=settled <= 0.0, held_high=settled >= 1.0)
        left = _own_gains(settled, scaled.gradient(settled), scaled.curvature(settled))
        if not left < _own_gains(x, gradient, curvature):
            return found
    with suppress(NotConverged):  # rounding rules: then the maximum found stands
        return conclude(program, np.clip(settled, 0.0, 1.0) * program.upper, found.iterations + steps, near=found)
    return found


def settle_by_own_steps(
    point: FloatArray, slopes: FloatArray, bends: FloatArray, upper: FloatArray | float
) -> FloatArray:
    """The point with everybody at a bound who would get there by a Newton step of its own."""
    return np.where(bends * point < -slopes, 0.0, np.where(bends * (upper - point) < slopes, upper, point))


def _own_gains(x: FloatArray, gradient: FloatArray, curvature: Curvature) -> float:
    """What all could gain by a Newton step of their own, or by all of what is left to a bound."""
    size, bends = np.abs(gradient), curvature.diagonal
    gains = np.minimum(size * np.where(gradient > 0, x, 1.0 - x), np.where(bends > 0, size**2 / bends, np.inf))
    return float(gains.sum())


def linearised_gains(contributions: FloatArray, gradient: FloatArray, upper: FloatArray) -> FloatArray:
    """max over 0 <= t_j <= upper_j of gradient_j (t_j - s_j), per coordinate; never negative."""
    return np.maximum(gradient * (upper - contributions), -gradient * contributions)


def finish_batch(program: Program, contributions: FloatArray) -> tuple[FloatArray, int]:
    """Maximisers from points close to them: only the finishing steps."""
    scaled = _Scaled(program)
    x = scaled.of(contributions)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x, steps = _finish(scaled, x, held_low=x <= 0.0, held_high=x >= 1.0)
    return np.clip(x, 0.0, 1.0) * program.upper, steps


def maximise_batch(
    program: Program, *, last_barrier: float = LAST_BARRIER, max_iterations: int = MAX_ITERATIONS
) -> tuple[FloatArray, int]:
    """Maximisers of all programs of a batch, (..., n), and the number of Newton steps."""
    scaled = _Scaled(program)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # trial points may overflow; they are rejected
        x, z, v, steps = _follow_barrier(scaled, last_barrier, max_iterations)
        near, at_edge = x, scaled.ends_at_edge(scaled.gradient(x), x)
        x, more = _finish(scaled, x, held_low=x < z, held_high=(1.0 - x) < v)
        if at_edge and _gap(scaled.gradient(x), x) > GAIN_TOLERANCE:  # it takes the barrier to stay where it is
            x = near
    return np.clip(x, 0.0, 1.0) * program.upper, steps + more


def follow_barrier(program: Program, last_barrier: float) -> tuple[FloatArray, int]:
    """A point near the maximiser, inside all bounds and edges, and the number of Newton steps."""
    scaled = _Scaled(program)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x, _, _, steps = _follow_barrier(scaled, last_barrier)
    return np.clip(x, 0.0, 1.0) * program.upper, steps


class _Scaled:
    """The program as the minimisation of -f in x = s / upper, in units of scale."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.upper = program.upper
        scale = np.maximum(np.asarray(program.scale, dtype=np.float64), np.finfo(float).tiny)
        self.factor = self.upper / scale[..., None]
        rows = program.edges()
        self.rows = None if rows is None else rows * self.upper

    def of(self, contributions: FloatArray) -> FloatArray:
        """x at a profile; in the middle for who has nothing to give."""
        return np.where(self.upper > 0, contributions / np.where(self.upper > 0, self.upper, 1.0), 0.5)

    def start(self) -> FloatArray:
        return self.of(self.program.start())

    def gradient(self, x: FloatArray) -> FloatArray:
        if x.ndim == 1 and not np.isfinite(x).all():  # a step that is no number: rejected like one too far
            return np.full_like(x, np.nan)
        return -self.factor * self.program.gradient(self.upper * x)

    def curvature(self, x: FloatArray) -> Curvature:
        return self.program.curvature(self.upper * x, self.factor, self.upper)

    def room(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        return self.program.room(self.upper * x, self.upper * direction)

    def repulsion(self, x: FloatArray) -> FloatArray | float:
        """The slope of sum log(distance to the edge of the domain)."""
        return 0.0 if self.rows is None else np.asarray(self.rows.T @ (1.0 / (1.0 + self.rows @ x)))

    def gap_in_domain(self, gradient: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
        """The linearised gain within the domain, and by how much the edges push: the least squares l r, l >= 0."""
        gap, push = float(_gap(gradient, x)), np.zeros_like(x)
        if self.rows is None:
            return gap, push
        distances = 1.0 + self.rows @ x
        near, loose = (distances > 0) & (distances < NEAR_EDGE), np.minimum(x, 1.0 - x)
        if not near.any() or not np.isfinite(gap):
            return gap, push
        from scipy.optimize import nnls  # noqa: PLC0415 - heavy, and only needed at an edge

        with suppress(RuntimeError):  # too many steps: then there is no better bound
            multipliers, _ = nnls((self.rows[near] * loose).T, loose * gradient)
            pushed = multipliers @ self.rows[near]
            bound = float(_gap(gradient - pushed, x) + multipliers @ distances[near])
            gap, push = (bound, pushed) if bound < gap else (gap, push)
        return gap, push

    def ends(self, gradient: FloatArray, x: FloatArray) -> bool:
        """Whether the maximum is found."""
        return self.gap_in_domain(gradient, x)[0] <= EDGE_GAIN

    def ends_at_edge(self, gradient: FloatArray, x: FloatArray) -> bool:
        """Whether the maximum is found, and it is the edge of the domain that keeps it where it is."""
        if self.rows is None or not (1.0 + self.rows @ x < NEAR_EDGE).any():
            return False
        gap, push = self.gap_in_domain(gradient, x)
        return gap <= EDGE_GAIN and bool(push.any())

    def barrier_curvature(self, x: FloatArray, mu: FloatArray) -> Curvature:
        """The curvature, with that of the barrier at the edge of the domain."""
        curvature = self.curvature(x)
        if self.rows is None or not isinstance(curvature, DenseCurvature):
            return curvature
        steep = self.rows / (1.0 + self.rows @ x)[:, None]
        return DenseCurvature(curvature.matrix + float(mu) * steep.T @ steep)


def _longest(x: FloatArray, step: FloatArray) -> FloatArray:
    """The largest t up to 1 / FRACTION with x + t step >= 0, (...)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(step < 0, -x / step, np.inf)
    return ratio.min(axis=-1)


def _follow_barrier(
    problem: _Scaled, last: float, max_iterations: int = MAX_ITERATIONS
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    x = problem.start()
    mu = np.full(x.shape[:-1], FIRST_BARRIER)
    edge_mu = mu  # at the edge of the domain: the same at first, in the end next to nothing
    z, v = mu[..., None] / x, mu[..., None] / (1.0 - x)
    gradient = problem.gradient(x)
    lowered_at, least, rests = 0, np.full(mu.shape, np.inf), False
    sure, sure_gap = None, np.inf  # near an edge: where the maximum was found last, and how steep it is there
    for iteration in range(max_iterations):
        repulsion = problem.repulsion(x)
        error = _barrier_error(gradient - edge_mu[..., None] * repulsion, x, z, v, mu)
        if (error < SURE_PROGRESS * least).any():
            lowered_at = iteration
        least = np.minimum(error, least)
        settled = (error <= BARRIER_ACCURACY * mu) | rests
        lower = np.where(settled, np.maximum(np.minimum(0.2 * mu, mu**1.5), last), mu)
        lower_edge = lower
        if problem.rows is not None and (mu <= last).all():
            matters = float(_gap(-edge_mu[..., None] * repulsion, x)) > EDGE_SHARE * GAIN_TOLERANCE
            lower_edge = np.where(settled & matters, EDGE_DECREASE * edge_mu, edge_mu)
        if problem.rows is not None and (gap := float(_gap(gradient, x))) < sure_gap and problem.ends(gradient, x):
            sure, sure_gap = (x, z, v), gap
        sure_gap = np.inf if (lower < mu).any() else sure_gap  # smaller leftovers are to come
        if (lower < mu).any() or (lower_edge < edge_mu).any():
            lowered_at, least = iteration, np.full(mu.shape, np.inf)
        elif rests:
            break
        mu, edge_mu = lower, lower_edge
        error = _barrier_error(gradient - edge_mu[..., None] * repulsion, x, z, v, mu)
        done = (mu <= last) & (error <= BARRIER_ACCURACY * last)
        last_wait = MAX_WAIT_AT_LAST if problem.rows is None else MAX_WAIT_AT_EDGE
        if done.all() or iteration - lowered_at > (last_wait if (mu <= last).all() else MAX_WAIT):
            break
        if x.shape[-1] >= MANY_COORDINATES:
            report_progress(f"Newton step {iteration + 1}")
        target = mu[..., None]
        push = gradient - target * (1.0 / x - 1.0 / (1.0 - x)) - edge_mu[..., None] * repulsion
        dx = problem.barrier_curvature(x, edge_mu).solve(z / x + v / (1.0 - x), -push)
        dz = target / x - z - z / x * dx
        dv = target / (1.0 - x) - v + v / (1.0 - x) * dx
        x_before = x
        x, gradient = _search(problem, x, dx, push, (mu, edge_mu))
        share = np.minimum(1.0, FRACTION_TO_BOUNDARY * np.minimum(_longest(z, dz), _longest(v, dv)))[..., None]
        z = np.clip(z + share * dz, target / x / DUAL_LEEWAY, target / x * DUAL_LEEWAY)
        v = np.clip(v + share * dv, target / (1.0 - x) / DUAL_LEEWAY, target / (1.0 - x) * DUAL_LEEWAY)
        waits = iteration - lowered_at > MAX_WAIT_AT_LAST and (mu <= last).all()
        if waits and problem.ends_at_edge(gradient, x):
            break
        # Rounding may keep the error above its aim: then the next barrier is begun where steps end.
        rests = bool((x == x_before).all() or (np.abs((push * dx).sum(axis=-1)) <= SETTLED_GAIN * mu).all())
    if sure is not None and (sure_gap < _gap(gradient, x) or not problem.ends(gradient, x)):  # rounding rules there
        x, z, v = sure
    return x, z, v, iteration + 1


def _barrier_error(gradient: FloatArray, x: FloatArray, z: FloatArray, v: FloatArray, mu: FloatArray) -> FloatArray:
    target = mu[..., None]
    parts = (np.abs(gradient - z + v), np.abs(x * z - target), np.abs((1.0 - x) * v - target))
    return np.maximum.reduce(parts).max(axis=-1)


def _search(
    problem: _Scaled, x: FloatArray, dx: FloatArray, push: FloatArray, barriers: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Move along dx to where the slope of the barrier function has clearly fallen but hardly changed its sign.

    Newton steps on these payoffs err both ways: too short where the curvature falls along the step, far too long where
    the payoff is saturated. So the step is doubled while the slope stays steep, and bisected when it has turned.
    """
    target, edge_target = (mu[..., None] for mu in barriers)
    slope_here = (push * dx).sum(axis=-1)
    longest = np.minimum(
        FRACTION_TO_BOUNDARY * np.minimum(_longest(x, dx), _longest(1.0 - x, -dx)),
        FRACTION_TO_DOMAIN * problem.room(x, dx),
    )
    low, high = np.zeros_like(longest), longest
    length = np.minimum(1.0, longest)
    for _ in range(MAX_TRIALS):
        tried = x + length[..., None] * dx
        gradient = problem.gradient(tried)
        push_there = gradient - target * (1.0 / tried - 1.0 / (1.0 - tried)) - edge_target * problem.repulsion(tried)
        slope = (push_there * dx).sum(axis=-1)
        ratio = slope / np.where(slope_here < 0, slope_here, -1.0)  # 1 at the start, 0 at the minimum, below it past
        long = ~(ratio >= -MAX_SLOPE_TURNED)
        short = (ratio > MAX_SLOPE_LEFT) & (length < longest)
        if not (long | short).any():
            break
        low, high = np.where(short, length, low), np.where(long, length, high)
        further = np.where(high < longest, 0.5 * (low + high), np.minimum(2.0 * length, longest))
        nearer = np.where(low > 0, 0.5 * (low + high), 0.25 * length)
        length = np.where(short, further, np.where(long, nearer, length))
    unusable = np.asarray(long | ~np.isfinite(gradient).all(axis=-1))
    stuck = unusable[..., None]
    return np.where(stuck, x, tried), np.where(stuck, problem.gradient(x), gradient) if stuck.any() else gradient


def _gap(gradient: FloatArray, x: FloatArray) -> FloatArray:
    """The linearised gain in scaled variables, infinite where the gradient is not finite."""
    gap = linearised_gap(gradient, x).sum(axis=-1)
    return np.where(np.isfinite(gap), gap, np.inf)


def _keep_inside(problem: _Scaled, x: FloatArray, moved: FloatArray) -> FloatArray:
    """The points moved to, where they are in the domain: what is clipped at a bound may help less than was reckoned."""
    fits = problem.room(np.zeros_like(x), moved) > 1.0
    return np.where(fits[..., None], moved, x)


def _finish(
    problem: _Scaled, x: FloatArray, *, held_low: NDArray[np.bool_], held_high: NDArray[np.bool_]
) -> tuple[FloatArray, int]:
    """Newton steps on the variables away from their bounds, until the projected gradient no longer falls.

    It may rise at first, where the barrier held some away from bounds that they do not keep.
    """
    best, best_gap = x, _gap(problem.gradient(x), x)
    before = best_gap
    x = _keep_inside(problem, x, np.where(held_low, 0.0, np.where(held_high, 1.0, x)))
    for step in range(MAX_FINISHING_STEPS):
        gradient = problem.gradient(x)
        gap = _gap(gradient, x)
        lost = ~np.isfinite(gap)
        if lost.any():  # rounding took the step over the edge of the domain
            x = np.where(lost[..., None], best, x)
            gradient = problem.gradient(x)
        best = np.where((gap < best_gap)[..., None], x, best)
        best_gap = np.minimum(gap, best_gap)
        if step > 3 and not (gap < 0.5 * before).any():
            break
        before = gap
        held = ((x <= 0.0) & (gradient >= 0.0)) | ((x >= 1.0) & (gradient <= 0.0))
        dx = problem.curvature(x).solve_free(held, -gradient)
        length = np.minimum(1.0, FRACTION_TO_DOMAIN * problem.room(x, dx))
        ahead = _keep_inside(problem, x, np.clip(x + length[..., None] * dx, 0.0, 1.0))
        to_bound = np.minimum(_longest(x, np.where(held, 0.0, dx)), _longest(1.0 - x, np.where(held, 0.0, -dx)))
        clipped = to_bound < length
        if clipped.any():  # what is clipped takes no part of the others' step with it: rather stop at the first bound
            worse = clipped & ~(_gap(problem.gradient(ahead), ahead) < np.where(lost, best_gap, gap))
            nearer = np.clip(x + to_bound[..., None] * dx, 0.0, 1.0)
            ahead = np.where(worse[..., None], _keep_inside(problem, x, nearer), ahead)
        x = ahead
    return best, step + 1

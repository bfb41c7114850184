"""Many concave programs side by side: a primal-dual interior point, then an active set for the last digits.

Maximise f(s) over the polytope

    0 <= s <= upper,      shared @ s <= shared_limits,

f smooth and concave, and minus infinity outside of its domain. In x = s / upper and units of `scale` the interior point
follows the path of

    -f'(x) = z - v - A' y,      x z = mu,      (1 - x) v = mu,      (1 - A x) y = mu,          mu -> 0,

A the shared caps in units of their limits, by Newton steps that stay inside all bounds and the domain. The finish drops
the barrier: coordinates at a bound are held there, full shared caps are equalities, the free coordinates take Newton
steps, and what is held is let go where its multiplier has the wrong sign. So contributions have all their digits, which
payments need, being differences.

Stopping inequality: the linearised gain over the box, with shared caps at their multipliers y,

    sum_j max over t_j of (f'(s) - A' y)_j (t_j - s_j)  +  y (1 - A s),

is at most `GAIN_TOLERANCE` x `scale`. By concavity and weak duality it bounds how far f(s) is from its maximum. Cost
per iteration: a gradient, a Hessian and one dense factorisation of every program that is not there yet.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedpact.federation.arrays import times, times_transposed
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NotConverged
from fedpact.utils.threads import on_one_thread

GAIN_TOLERANCE = 1e-10
MAX_ITERATIONS = 120
MIN_FINISHING_STEPS, MAX_FINISHING_STEPS = 3, 40
MAX_HALVINGS = 30
FIRST_BARRIER, LEAST_BARRIER = 0.1, 1e-18
ROUGH_GAIN, SLOW, FAST = 1e-2, 0.2, 0.05  # a linearised gain, and by how much mu falls above it and below
SHORT_STEP = 0.1
FRACTION_TO_BOUND, FRACTION_TO_DOMAIN = 0.995, 0.9
LEAST_RIDGE, MAX_RIDGE = 1e-14, 1e-2  # of the diagonal: finishing steps along a face of several optima stay finite
AT_BOUND = 1e-13  # of the way to a bound: who comes so close is there
ROUNDING_GAIN = 1e-14  # a linearised gain that rounding may leave
MIN_CHOLESKY = 200  # rows of a matrix that is worth factoring by itself
COMPACTION = 0.7  # programs that have arrived are put aside once so few are left


class Program(Protocol):
    """Concave programs of the same size, one per entry of the first axis."""

    @property
    def upper(self) -> FloatArray:
        """Finite upper bounds, (programs, n); the lower bounds are zero."""

    @property
    def scale(self) -> FloatArray:
        """What is at stake in each program, (programs,), in units of f."""

    @property
    def shared(self) -> FloatArray:
        """The rows of shared caps, (shared caps, n)."""

    @property
    def shared_limits(self) -> FloatArray:
        """The limits of shared caps, (programs, shared caps)."""

    def gradient(self, contributions: FloatArray) -> FloatArray:
        """f'(s), (programs, n)."""

    def hessian(self, contributions: FloatArray) -> FloatArray:
        """-f''(s), (programs, n, n)."""

    def max_step(self, contributions: FloatArray, direction: FloatArray) -> FloatArray | float:
        """The largest step along a direction that stays in the domain, (programs,)."""

    def at(self, index: NDArray[np.intp]) -> Self:
        """Some of the programs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Maximum:
    """Maximisers (programs, n), the linearised gain that each leaves in units of scale, and Newton steps taken."""

    contributions: FloatArray
    gains: FloatArray
    iterations: int

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Which programs meet the stopping inequality."""
        return np.asarray(self.gains <= GAIN_TOLERANCE)

    def require_converged(self) -> Self:
        """This; `NotConverged` if a program misses the stopping inequality."""
        worst = float(np.max(self.gains, initial=0.0))
        if not self.converged.all():
            raise NotConverged(
                f"the maximiser stopped at a linearised gain of {worst:.1e} of what is at stake, above "
                f"{GAIN_TOLERANCE:.0e}",
                result=self,
            )
        return self


def maximise(program: Program, start: FloatArray | None = None, *, precision: float = ROUNDING_GAIN) -> Maximum:
    """Maximise every program; those that do not converge are known by their gains.

    The finish goes on until the gain is at most `precision`, or does not fall any more.
    """
    ignored = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with ignored, on_one_thread(program.upper.shape[-1]):
        scaled = _Scaled(program)
        x = scaled.start() if start is None else scaled.inside(start)
        point, bounded, iterations = _follow_barrier(scaled, x)
        point, finishing = _finish(scaled, point, bounded, precision)
    return Maximum(contributions=scaled.profile(point.x), gains=point.gains, iterations=iterations + finishing)


def finish(program: Program, contributions: FloatArray) -> Maximum:
    """Maximisers from points close to them, whose coordinates at a bound are at the right one or will be let go."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = _Scaled(program)
        x = scaled.of(contributions)
        prices = scaled.least_prices(x, scaled.gradient(x))
        point = _Point(x=x, full=prices > 0, prices=prices, gains=np.full(len(x), np.inf))
        point, steps = _finish(scaled, point, x, ROUNDING_GAIN)
    return Maximum(contributions=scaled.profile(point.x), gains=point.gains, iterations=steps)


def linearised_gains(program: Program, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The linearised gains at points, in units of scale, and the prices of shared caps, per unit of their limits."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = _Scaled(program)
        x = scaled.of(contributions)
        gradient = scaled.gradient(x)
        prices = scaled.least_prices(x, gradient)
        gains = scaled.gains(x, gradient, prices)
    limits = np.where(program.shared_limits > 0, program.shared_limits, np.inf)
    return gains, prices * program.scale[:, None] / limits


@dataclass(kw_only=True)
class _Point:
    """A point of every program in units of the bounds, which shared caps are full, and their prices."""

    x: FloatArray
    full: NDArray[np.bool_]
    prices: FloatArray
    gains: FloatArray

    def at(self, index: NDArray[np.bool_]) -> _Point:
        """The point of some programs, in other memory."""
        return _Point(**{name: numbers[index] for name, numbers in vars(self).items()})

    def put(self, index: NDArray[np.intp], other: _Point) -> None:
        """Take over another point of some programs."""
        for name, numbers in vars(other).items():
            getattr(self, name)[index] = numbers


class _Scaled:
    """The programs in x = s / upper and units of scale."""

    def __init__(self, program: Program) -> None:
        self.program = program
        limits = program.shared_limits[..., None]
        bounded = np.isfinite(limits) & (limits > 0)
        # A bound no tighter than a shared cap is none: let it not meet the cap.
        within = np.where((program.shared > 0) & bounded, limits, np.inf).min(axis=-2, initial=np.inf)
        self.upper = np.where(program.upper >= within, 2.0 * within, program.upper)
        self.factor = self.upper / np.maximum(program.scale, np.finfo(float).tiny)[:, None]
        self.rows = np.where(bounded, program.shared * self.upper[:, None, :] / np.where(bounded, limits, 1.0), 0.0)

    def at(self, index: NDArray[np.intp]) -> _Scaled:
        return _Scaled(self.program.at(index))

    def of(self, contributions: FloatArray) -> FloatArray:
        """x at a profile."""
        return np.asarray(contributions / np.where(self.upper > 0, self.upper, 1.0))

    def profile(self, x: FloatArray) -> FloatArray:
        """The contributions at x, within all bounds but for rounding of sums."""
        return np.asarray(np.minimum(np.clip(x, 0.0, 1.0) * self.upper, self.program.upper))

    def gradient(self, x: FloatArray) -> FloatArray:
        return np.where(self.factor > 0, self.factor * self.program.gradient(self.upper * x), 0.0)

    def hessian(self, x: FloatArray) -> FloatArray:
        found = self.program.hessian(self.upper * x) * self.factor[..., :, None]
        found *= self.upper[..., None, :]
        return found

    def max_step(self, x: FloatArray, direction: FloatArray) -> FloatArray | float:
        return self.program.max_step(self.upper * x, self.upper * direction)

    def start(self) -> FloatArray:
        """The best of theta (1, ..., 1), theta a power of two: the slope along the ray falls."""
        ones = np.ones_like(self.upper)
        inside = 0.5 * self._share_inside(ones)
        low, high = np.full(len(ones), -50.0), np.zeros(len(ones))
        for _ in range(6):
            middle = np.round(0.5 * (low + high))
            slope = self.gradient((inside * np.exp2(middle))[:, None] * ones).sum(axis=-1)
            low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
        return (inside * np.exp2(low))[:, None] * ones

    def inside(self, contributions: FloatArray) -> FloatArray:
        """A point near a profile, inside all bounds and the domain."""
        x = np.minimum(self.of(contributions), 1.0 - 1e-3)
        x = np.maximum(x, np.maximum(1e-3 * x.max(axis=-1, keepdims=True), 1e-15))
        return 0.9 * self._share_inside(x)[:, None] * x

    def _share_inside(self, x: FloatArray) -> FloatArray:
        """The largest share of x, at most all of it, that keeps the shared caps and the domain."""
        most = np.minimum(self.max_step(0.0 * x, x), _ratio(1.0, -times(self.rows, x)))
        return np.asarray(np.minimum(1.0, most))

    def gains(self, x: FloatArray, gradient: FloatArray, prices: FloatArray) -> FloatArray:
        """The linearised gain at given prices of the shared caps, (programs,)."""
        reduced = gradient - times_transposed(self.rows, prices)
        slack = np.maximum(1.0 - times(self.rows, x), 0.0)
        box = np.maximum(reduced, 0.0) * (1.0 - x) + np.maximum(-reduced, 0.0) * x
        return np.asarray(box.sum(axis=-1) + (prices * slack).sum(axis=-1))

    def slack(self, x: FloatArray) -> FloatArray:
        """What is left of the shared caps, above zero."""
        return np.maximum(1.0 - times(self.rows, x), 1e-16)

    def barrier_gradient(self, x: FloatArray, gradient: FloatArray, mu: FloatArray) -> FloatArray:
        """The gradient of f + mu (the logarithms of all distances)."""
        aim = mu[:, None]
        return gradient + aim / x - aim / (1.0 - x) - times_transposed(self.rows, aim / self.slack(x))

    def evaluate(self, point: _Point) -> _Point:
        """The point with its linearised gains; infinite where a shared cap is exceeded."""
        gains = self.gains(point.x, self.gradient(point.x), np.maximum(point.prices, 0.0))
        exceeded = (times(self.rows, point.x) > 1.0 + 1e-12).any(axis=-1)
        return replace(point, gains=np.where(exceeded | np.isnan(gains), np.inf, gains))

    def least_prices(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """The prices of the shared caps at which the linearised gain is least; it is at 0 or at a lot's slope."""
        prices = np.zeros((len(x), self.rows.shape[-2]))
        for cap in range(prices.shape[-1]):
            row = self.rows[:, cap]
            for lot in np.flatnonzero((row > 0).any(axis=0)):
                tried = prices.copy()
                tried[:, cap] = np.maximum(gradient[:, lot] / np.where(row[:, lot] > 0, row[:, lot], np.inf), 0.0)
                better = self.gains(x, gradient, tried) < self.gains(x, gradient, prices)
                prices[better] = tried[better]
        return prices


@dataclass(kw_only=True)
class _Iterate:
    """Where every program stands on its path: x, its multipliers, f'(x), the barrier mu and the last step.

    `diagonal` is that of the last Hessian.
    """

    x: FloatArray
    z: FloatArray
    v: FloatArray
    y: FloatArray
    gradient: FloatArray
    mu: FloatArray
    step: FloatArray
    diagonal: FloatArray

    def at(self, index: NDArray[np.bool_]) -> _Iterate:
        """That of some programs."""
        return _Iterate(**{name: numbers[index] for name, numbers in vars(self).items()})

    def bounded(self) -> FloatArray:
        """x with those at a bound who would get there, without the barrier, by a Newton step of their own."""
        low, high = self.z > self.diagonal * self.x, self.v > self.diagonal * (1.0 - self.x)
        return np.where(low, 0.0, np.where(high, 1.0, self.x))


def _follow_barrier(scaled: _Scaled, x: FloatArray) -> tuple[_Point, FloatArray, int]:
    """Points close to the maximisers, these with who belongs at a bound put there, and the number of steps."""
    count, slack = len(x), scaled.slack(x)
    here = _Iterate(
        x=x,
        z=FIRST_BARRIER / x,
        v=FIRST_BARRIER / (1.0 - x),
        y=FIRST_BARRIER / slack,
        gradient=scaled.gradient(x),
        mu=np.full(count, FIRST_BARRIER),
        step=np.ones(count),
        diagonal=np.ones(x.shape),
    )
    found = _Point(x=x.copy(), full=slack < 0, prices=0.0 * slack, gains=np.full(count, np.inf))
    bounded, index, iterations = x.copy(), np.arange(count), 0
    while True:
        gains = scaled.gains(here.x, here.gradient, here.y)
        # The largest curvature of a lot under each shared cap, in units of the cap.
        curvature = np.where(scaled.rows > 0, here.diagonal[:, None, :] / scaled.rows**2, 0.0).max(axis=-1)
        full = here.y > curvature * scaled.slack(here.x)
        found.put(index, _Point(x=here.x, full=full, prices=here.y, gains=gains))
        bounded[index] = here.bounded()
        going = gains > GAIN_TOLERANCE
        if not going.any() or iterations == MAX_ITERATIONS:
            return found, bounded, iterations
        if going.mean() < COMPACTION:
            scaled, index, here = scaled.at(np.flatnonzero(going)), index[going], here.at(going)
            gains, going = gains[going], going[going]
        here = _advance(scaled, here, going, np.where(gains > ROUGH_GAIN, SLOW, FAST))
        iterations += 1


def _advance(scaled: _Scaled, here: _Iterate, going: NDArray[np.bool_], shrink: FloatArray) -> _Iterate:
    """One Newton step towards the path at a smaller mu; at the same mu after a step that a bound cut short."""
    x, z, v, y, room, slack = here.x, here.z, here.v, here.y, 1.0 - here.x, scaled.slack(here.x)
    products = (x * z).sum(axis=-1) + (room * v).sum(axis=-1) + (slack * y).sum(axis=-1)
    average = products / (2 * x.shape[-1] + slack.shape[-1])
    free = here.step > SHORT_STEP
    mu = np.where(free, np.minimum(here.mu, average) * shrink, np.maximum(here.mu, average))
    mu = np.maximum(mu, LEAST_BARRIER)
    system = scaled.hessian(x)
    diagonal = np.einsum("pii->pi", system).copy()
    np.einsum("pii->pi", system)[...] += z / x + v / room
    if slack.shape[-1]:
        system += np.swapaxes(scaled.rows, -1, -2) @ ((y / slack)[..., None] * scaled.rows)
    right, root = scaled.barrier_gradient(x, here.gradient, mu), np.sqrt(np.einsum("pii->pi", system))
    system /= root[:, :, None]
    system /= root[:, None, :]
    d = _solve(system, right / root) / root
    used, aim = times(scaled.rows, d), mu[:, None]
    dz, dv, dy = aim / x - z - z / x * d, aim / room - v + v / room * d, aim / slack - y + y / slack * used
    to_bound = np.minimum(np.minimum(_ratio(x, d), _ratio(room, -d)), _ratio(slack, -used))
    step = np.minimum(FRACTION_TO_BOUND * to_bound, FRACTION_TO_DOMAIN * np.asarray(scaled.max_step(x, d)))
    dual_step = FRACTION_TO_BOUND * np.minimum(np.minimum(_ratio(z, dz), _ratio(v, dv)), _ratio(y, dy))
    dual_step = np.where(going, np.minimum(1.0, dual_step), 0.0)[:, None]
    # Halved while it goes far past the maximum along it.
    step, slope = np.where(going, np.minimum(1.0, step), 0.0), (right * d).sum(axis=-1)
    for _ in range(MAX_HALVINGS):
        ahead = np.clip(x + step[:, None] * d, 1e-30, 1.0 - 1.2e-16)
        gradient = scaled.gradient(ahead)
        past = ~((scaled.barrier_gradient(ahead, gradient, mu) * d).sum(axis=-1) >= -slope) & (step > 0)
        if not past.any():
            break
        step = np.where(past, 0.5 * step, step)
    return _Iterate(
        x=ahead,
        z=z + dual_step * dz,
        v=v + dual_step * dv,
        y=y + dual_step * dy,
        gradient=gradient,
        mu=mu,
        step=step,
        diagonal=diagonal,
    )


def _finish(scaled: _Scaled, near: _Point, x: FloatArray, precision: float) -> tuple[_Point, int]:
    """The maximisers from `x`, close to them, and the number of steps; none is worse than what is `near`.

    Where free coordinates are, as good as, collinear, or belong at another bound, a step may lead too far; it is then
    taken back, and the next one is shorter for a larger ridge and ends at the first bound.
    """
    found, index = near.at(np.ones(len(x), dtype=np.bool_)), np.arange(len(x))
    here = scaled.evaluate(replace(near, x=x.copy()))
    ridge = np.full(len(index), LEAST_RIDGE)
    for steps in range(MAX_FINISHING_STEPS):
        better = here.gains <= found.gains[index]
        found.put(index[better], here.at(better))
        going = (here.gains > precision) & (ridge < MAX_RIDGE)
        if precision <= ROUNDING_GAIN and steps < MIN_FINISHING_STEPS:  # those with little at stake may take another
            going = here.gains > 0
        if not going.any():
            return found, steps
        if going.mean() < COMPACTION:
            scaled, index, here, ridge = scaled.at(np.flatnonzero(going)), index[going], here.at(going), ridge[going]
        ahead = scaled.evaluate(_newton_point(scaled, here, ridge))
        better = ahead.gains < np.maximum(here.gains, precision)
        here.put(np.flatnonzero(better), ahead.at(better))
        ridge = np.where(better, np.maximum(0.01 * ridge, LEAST_RIDGE), 100.0 * ridge)
    return found, MAX_FINISHING_STEPS


def _newton_point(scaled: _Scaled, here: _Point, ridge: FloatArray) -> _Point:
    """Where a Newton step of the free coordinates along the full shared caps leads."""
    x, n, caps = here.x, here.x.shape[-1], here.full.shape[-1]
    gradient = scaled.gradient(x)
    reduced = gradient - times_transposed(scaled.rows, here.prices)
    held = ((x <= 0) & (reduced <= 0)) | ((x >= 1) & (reduced >= 0)) | (scaled.upper <= 0)
    free, full = ~held, here.full & (here.prices >= 0)
    rows = scaled.rows * (free[:, None, :] & full[..., None])
    system = np.zeros((len(x), n + caps, n + caps))
    system[:, :n, :n] = scaled.hessian(x) * (free[:, :, None] & free[:, None, :])
    diagonal = np.einsum("pii->pi", system)[:, :n]
    root = np.sqrt(np.where(free & (diagonal > 0), diagonal, 1.0))
    system[:, :n, :n] /= root[:, :, None] * root[:, None, :]
    system[:, n:, :n] = rows / root[:, None, :]
    system[:, :n, n:] = np.swapaxes(system[:, n:, :n], -1, -2)
    idle = ~rows.any(axis=-1)
    np.einsum("pii->pi", system)[...] += np.concatenate([np.where(free, ridge[:, None], 1.0), 1.0 * idle], axis=-1)
    slack = np.where(idle, 0.0, 1.0 - times(scaled.rows, x))
    solved = _solve(system, np.concatenate([np.where(free, gradient, 0.0) / root, slack], axis=-1))
    d = solved[:, :n] / root
    step = np.minimum(1.0, FRACTION_TO_DOMAIN * np.asarray(scaled.max_step(x, d)))
    # Up to the first bound, so that what is full stays full, and after a step that led too far.
    left = np.where(full, np.inf, 1.0 - times(scaled.rows, x))
    blocked = _ratio(np.where(free, x, np.inf), d), _ratio(np.where(free, 1.0 - x, np.inf), -d)
    longest = np.minimum(np.minimum(*blocked), _ratio(left, -times(scaled.rows, d)))
    step = np.where((ridge > LEAST_RIDGE) | (caps > 0), np.minimum(step, longest), step)
    ahead = np.clip(x + step[..., None] * d, 0.0, 1.0)
    ahead = np.where(ahead < AT_BOUND * x, 0.0, np.where(1.0 - ahead < AT_BOUND * (1.0 - x), 1.0, ahead))
    return _Point(
        x=ahead,
        full=full | (times(scaled.rows, ahead) > 1.0 - AT_BOUND),
        prices=np.where(full, np.where(idle, here.prices, solved[:, n:]), 0.0),
        gains=here.gains,
    )


def _solve(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solutions of linear systems side by side; what is no number is zero."""
    if len(systems) == 1 and systems.size >= MIN_CHOLESKY**2:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve  # noqa: PLC0415 - heavy, and only for many lots

        with suppress(LinAlgError):
            factor = cho_factor(systems[0], check_finite=False)
            return np.nan_to_num(cho_solve(factor, right[0], check_finite=False))[None]
    try:
        solved = np.linalg.solve(systems, right[..., None])[..., 0]
    except np.linalg.LinAlgError:  # one of them is singular, and NumPy solves all or none
        inverses = np.linalg.pinv(np.nan_to_num(systems), hermitian=True, rcond=1e-15)
        solved = times(inverses, np.nan_to_num(right))
    return np.nan_to_num(solved)


def _ratio(distance: FloatArray | float, change: FloatArray) -> FloatArray:
    """The largest step before some distance, falling by its change, reaches zero, (programs,)."""
    return np.asarray(np.where(change < 0, -distance / change, np.inf).min(axis=-1, initial=np.inf))

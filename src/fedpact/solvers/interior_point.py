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

Stopping inequality of the barrier, and what a result is refused above (`Maximum.converged`; the finish goes on to
`ROUNDING_GAIN`): the linearised gain over the box, with shared caps at their multipliers y,

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

GAIN_TOLERANCE = 1e-10  # of scale: where the barrier ends, and what a result may leave at most; of all programs
MAX_ITERATIONS = 120
MIN_FINISHING_STEPS, MAX_FINISHING_STEPS = 2, 40
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


def maximise(
    program: Program,
    start: FloatArray | None = None,
    *,
    near: Program | None = None,
    precision: float = ROUNDING_GAIN,
) -> Maximum:
    """Maximise every program; those that do not converge are known by their gains.

    The finish goes on until the gain is at most `precision`, or does not fall any more. The barrier is followed on
    `near`, if given: cheaper programs with the same bounds whose maximisers are close.
    """
    ignored = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with ignored, on_one_thread(program.upper.shape[-1]):
        scaled = _Scaled(near or program)
        x = scaled.start() if start is None else scaled.inside(start)
        point, bounded, iterations = _follow_barrier(scaled, x)
        if near is not None:
            scaled = _Scaled(program)
            point = scaled.evaluate(point)
        point, finishing = _finish(scaled, point, bounded, precision)
    return Maximum(contributions=scaled.profile(point.x), gains=point.gains, iterations=iterations + finishing)


def finish(program: Program, contributions: FloatArray, *, precision: float = ROUNDING_GAIN) -> Maximum:
    """Maximisers from points close to them, whose coordinates at a bound are at the right one or will be let go."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = _Scaled(program)
        x = scaled.of(contributions)
        prices = scaled.least_prices(x, scaled.gradient(x))
        point = _Point(x=x, full=prices > 0, prices=prices, gains=np.full(len(x), np.inf))
        point, steps = _finish(scaled, point, x, precision)
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
    """The programs in x = s / upper and units of scale.

    A point has 2 n + caps *distances* D(x) = (x, 1 - x, 1 - A x) to its bounds, in this order everywhere.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.n = program, program.upper.shape[-1]
        self.has_caps = program.shared_limits.shape[-1] > 0
        self.upper, self.rows = program.upper, np.zeros((len(program.upper), 0, self.n))
        if self.has_caps:
            limits = program.shared_limits[..., None]
            bounded = np.isfinite(limits) & (limits > 0)
            # A bound no tighter than a shared cap is none: let it not meet the cap.
            within = np.where((program.shared > 0) & bounded, limits, np.inf).min(axis=-2, initial=np.inf)
            self.upper = np.where(program.upper >= within, 2.0 * within, program.upper)
            self.rows = np.where(bounded, program.shared * self.upper[:, None, :] / np.where(bounded, limits, 1.0), 0.0)
        self.factor = self.upper / np.maximum(program.scale, np.finfo(float).tiny)[:, None]

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
        most = np.minimum(self.max_step(0.0 * x, x), _ratio(1.0, -self.used(x)))
        return np.asarray(np.minimum(1.0, most))

    def used(self, x: FloatArray) -> FloatArray:
        """A x, (programs, caps)."""
        return times(self.rows, x) if self.has_caps else x[:, :0]

    def distances(self, x: FloatArray) -> FloatArray:
        """D(x), above zero."""
        return np.concatenate([x, 1.0 - x, np.maximum(1.0 - self.used(x), 1e-16)], axis=-1)

    def changes(self, direction: FloatArray) -> FloatArray:
        """D' d, by which the distances grow along a direction."""
        return np.concatenate([direction, -direction, -self.used(direction)], axis=-1)

    def transpose(self, forces: FloatArray) -> FloatArray:
        """D'^T f, (programs, n), of forces along the distances."""
        n = self.n
        found = forces[:, :n] - forces[:, n : 2 * n]
        return found - times_transposed(self.rows, forces[:, 2 * n :]) if self.has_caps else found

    def gains(self, x: FloatArray, gradient: FloatArray, prices: FloatArray) -> FloatArray:
        """The linearised gain at given prices of the shared caps, (programs,)."""
        reduced = gradient - times_transposed(self.rows, prices) if self.has_caps else gradient
        box = (np.maximum(reduced, 0.0) - reduced * x).sum(axis=-1)
        return box + (prices * np.maximum(1.0 - self.used(x), 0.0)).sum(axis=-1) if self.has_caps else box

    def evaluate(self, point: _Point) -> _Point:
        """The point with its linearised gains; infinite where a shared cap is exceeded."""
        gains = self.gains(point.x, self.gradient(point.x), np.maximum(point.prices, 0.0))
        exceeded = (self.used(point.x) > 1.0 + 1e-12).any(axis=-1)
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
    """Where every program stands on its path: x, its distances and their multipliers, f'(x), mu and the last step.

    `diagonal` is that of the last Hessian.
    """

    x: FloatArray
    distances: FloatArray
    multipliers: FloatArray
    gradient: FloatArray
    mu: FloatArray
    step: FloatArray
    diagonal: FloatArray

    def at(self, index: NDArray[np.bool_]) -> _Iterate:
        """That of some programs."""
        return _Iterate(**{name: numbers[index] for name, numbers in vars(self).items()})

    def bounded(self) -> FloatArray:
        """x with those at a bound who would get there, without the barrier, by a Newton step of their own."""
        n = self.x.shape[-1]
        low, high = np.split(
            self.multipliers[:, : 2 * n] > np.tile(self.diagonal, 2) * self.distances[:, : 2 * n], 2, -1
        )
        return np.where(low, 0.0, np.where(high, 1.0, self.x))


def _follow_barrier(scaled: _Scaled, x: FloatArray) -> tuple[_Point, FloatArray, int]:
    """Points close to the maximisers, these with who belongs at a bound put there, and the number of steps."""
    count, distances = len(x), scaled.distances(x)
    here = _Iterate(
        x=x,
        distances=distances,
        multipliers=FIRST_BARRIER / distances,
        gradient=scaled.gradient(x),
        mu=np.full(count, FIRST_BARRIER),
        step=np.ones(count),
        diagonal=np.ones(x.shape),
    )
    none = distances[:, 2 * scaled.n :] < 0
    found = _Point(x=x.copy(), full=none, prices=0.0 * distances[:, 2 * scaled.n :], gains=np.full(count, np.inf))
    bounded, index, iterations = x.copy(), np.arange(count), 0
    while True:
        prices = here.multipliers[:, 2 * scaled.n :]
        gains = scaled.gains(here.x, here.gradient, prices)
        going = gains > GAIN_TOLERANCE
        ends = not going.any() or iterations == MAX_ITERATIONS
        if ends or going.mean() < COMPACTION:
            # The largest curvature of a lot under each shared cap, in units of the cap.
            curvature = np.where(scaled.rows > 0, here.diagonal[:, None, :] / scaled.rows**2, 0.0).max(axis=-1)
            full = prices > curvature * here.distances[:, 2 * scaled.n :]
            found.put(index, _Point(x=here.x, full=full, prices=prices, gains=gains))
            at_bounds = here.bounded()
            # Bounds that shared caps are tighter than are not the true ones: nobody is put there.
            exceeds = (scaled.used(at_bounds) > 1.0).any(axis=-1, keepdims=True)
            bounded[index] = np.where(exceeds & (at_bounds >= 1.0), here.x, at_bounds)
            if ends:
                return found, bounded, iterations
            scaled, index, here = scaled.at(np.flatnonzero(going)), index[going], here.at(going)
            gains, going = gains[going], going[going]
        here = _advance(scaled, here, going, np.where(gains > ROUGH_GAIN, SLOW, FAST))
        iterations += 1


def _advance(scaled: _Scaled, here: _Iterate, going: NDArray[np.bool_], shrink: FloatArray) -> _Iterate:
    """One Newton step towards the path at a smaller mu; at the same mu after a step that a bound cut short."""
    x, z, distances, n = here.x, here.multipliers, here.distances, scaled.n
    average = (distances * z).mean(axis=-1)
    mu = np.where(here.step > SHORT_STEP, np.minimum(here.mu, average) * shrink, np.maximum(here.mu, average))
    mu = np.maximum(mu, LEAST_BARRIER)
    system, stiffness = scaled.hessian(x), z / distances
    diagonal = np.einsum("pii->pi", system).copy()
    np.einsum("pii->pi", system)[...] += stiffness[:, :n] + stiffness[:, n : 2 * n]
    if scaled.has_caps:
        system += np.swapaxes(scaled.rows, -1, -2) @ (stiffness[:, 2 * n :, None] * scaled.rows)
    aim = mu[:, None] / distances
    right, root = here.gradient + scaled.transpose(aim), np.sqrt(np.einsum("pii->pi", system))
    system /= root[:, :, None]
    system /= root[:, None, :]
    d = _solve(system, right / root) / root
    change = scaled.changes(d)
    dz = aim - z - stiffness * change
    step = np.minimum(FRACTION_TO_BOUND * _ratio(distances, change), FRACTION_TO_DOMAIN * scaled.max_step(x, d))
    dual_step = np.where(going, np.minimum(1.0, FRACTION_TO_BOUND * _ratio(z, dz)), 0.0)
    # Halved while it goes far past the maximum along it.
    step, slope = np.where(going, np.minimum(1.0, step), 0.0), (right * d).sum(axis=-1)
    for _ in range(MAX_HALVINGS):
        ahead = np.clip(x + step[:, None] * d, 1e-30, 1.0 - 1.2e-16)
        gradient, distances = scaled.gradient(ahead), scaled.distances(ahead)
        ascent = gradient + scaled.transpose(mu[:, None] / distances)
        past = ~((ascent * d).sum(axis=-1) >= -slope) & (step > 0)
        if not past.any():
            break
        step = np.where(past, 0.5 * step, step)
    return _Iterate(
        x=ahead,
        distances=distances,
        multipliers=z + dual_step[:, None] * dz,
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
    """Where a Newton step of the free coordinates along the full shared caps leads.

    With H the Hessian and A the rows of the full caps, over the free coordinates only, it solves

        [ H + ridge   A' ] [   d    ]   [ f'(x)   ]
        [ A           0  ] [ prices ] = [ 1 - A x ],

    in coordinates in which the diagonal of H is one.
    """
    x, n, caps = here.x, here.x.shape[-1], here.full.shape[-1]
    gradient = scaled.gradient(x)
    reduced = gradient - times_transposed(scaled.rows, here.prices)
    # The active set: held at a bound by the sign of the multiplier, and caps with a price that is not negative.
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
    idle = ~rows.any(axis=-1)  # held coordinates and caps without a free one keep their values: a one on the diagonal
    np.einsum("pii->pi", system)[...] += np.concatenate([np.where(free, ridge[:, None], 1.0), 1.0 * idle], axis=-1)
    slack = np.where(idle, 0.0, 1.0 - scaled.used(x))
    solved = _solve(system, np.concatenate([np.where(free, gradient, 0.0) / root, slack], axis=-1))
    d = solved[:, :n] / root
    step = np.minimum(1.0, FRACTION_TO_DOMAIN * np.asarray(scaled.max_step(x, d)))
    # Up to the first bound, so that what is full stays full, and after a step that led too far.
    left = np.where(full, np.inf, 1.0 - scaled.used(x))
    blocked = _ratio(np.where(free, x, np.inf), d), _ratio(np.where(free, 1.0 - x, np.inf), -d)
    longest = np.minimum(np.minimum(*blocked), _ratio(left, -scaled.used(d)))
    step = np.where((ridge > LEAST_RIDGE) | (caps > 0), np.minimum(step, longest), step)
    ahead = np.clip(x + step[..., None] * d, 0.0, 1.0)
    ahead = np.where(ahead < AT_BOUND * x, 0.0, np.where(1.0 - ahead < AT_BOUND * (1.0 - x), 1.0, ahead))
    return _Point(
        x=ahead,
        full=full | (scaled.used(ahead) > 1.0 - AT_BOUND),
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

"""What certificates need where lots share caps: the best of a linear function, sales at given prices, and a climb.

Over 0 <= t <= upper with sums of disjoint groups of lots bounded, a linear function is best where every group takes the
lots of steepest slope first, until its cap is used up. The slope of the last one taken, if it is positive, is the price
of the cap: with slopes less prices, and prices x caps added, everything splits into single lots again. That holds for
any prices as a bound (weak duality), and with equality for these.

The climb is an interior point on all bounds at once; the tangents at its end tell how far it got.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedpact.federation import Cost, SharedCap
from fedpact.federation.lots import shared_members
from fedpact.utils.arrays import FloatArray

MAX_CONTRIBUTION = 1e300
HALVINGS = 64  # of the 2^63 numbers from zero up
WAYS_FROM_GUESS = (1, 0, *(1 << bits for bits in range(8, 48, 8)))  # in numbers: the next, itself, then 256, ...
FIRST_BARRIER, LAST_BARRIER = 0.1, 1e-17
MAX_BARRIER_STEPS, MAX_TRIALS = 150, 60
TO_BOUNDARY = 0.99
MIN_LEFT, MAX_LEFT = -0.5, 0.5  # of the slope along a step: where it ends
SETTLED = 1e-3  # of the barrier: where steps that promise no more end, and the next one begins
PULLED_INSIDE = 1e-3


def best_contributions(
    slope: Callable[[FloatArray], FloatArray], upper: FloatArray, *, guess: FloatArray | None = None
) -> FloatArray:
    """The last number in [0, upper] at which a falling slope is still positive; 0 where it never is.

    Numbers from zero up are in the order of their bits: halving these finds roots of any size to the last digit. Close
    to a `guess` they are found sooner: first the numbers next to it are tried, then some further and further away.
    """
    low = np.zeros(upper.shape, dtype=np.int64)
    high = np.ascontiguousarray(np.minimum(upper, MAX_CONTRIBUTION)).view(np.int64)
    near = None if guess is None else np.array(guess, dtype=np.float64).view(np.int64)
    with np.errstate(all="ignore"):
        for step in range(HALVINGS + len(WAYS_FROM_GUESS)):
            if (low >= high).all():
                break
            tried = low + (high - low + 1) // 2
            if near is not None and step < len(WAYS_FROM_GUESS):
                away = near + np.where((low > near) | (step == 0), 1, -1) * WAYS_FROM_GUESS[step]
                tried = np.where((away > low) & (away <= high), away, tried)
            rises = slope(tried.view(np.float64)) > 0
            low, high = np.where(rises, tried, low), np.where(rises, high, np.maximum(tried - 1, low))
    return low.view(np.float64)


def steepest_first_prices(
    slopes: FloatArray, upper: FloatArray, shared_caps: Sequence[SharedCap]
) -> tuple[FloatArray, FloatArray]:
    """Of every shared cap the slope at which the lots of steepest slope use it up, at least 0; and the same per lot."""
    prices, per_lot = np.zeros(len(shared_caps)), np.zeros_like(slopes)
    for place, shared in enumerate(shared_caps):
        own = np.array(shared.lots)
        order = own[np.argsort(-slopes[own], kind="stable")]
        full = np.flatnonzero(np.cumsum(upper[order]) >= shared.cap)
        if full.size:
            prices[place] = max(float(slopes[order[full[0]]]), 0.0)
        per_lot[own] = prices[place]
    return prices, per_lot


def add_room_worth(
    per_lot: FloatArray, contributions: FloatArray, prices: FloatArray, shared_caps: Sequence[SharedCap]
) -> FloatArray:
    """Numbers per lot, with what the room left of every shared cap is worth added at the first of its lots."""
    total = per_lot.copy()
    for price, shared in zip(prices, shared_caps, strict=True):
        total[shared.lots[0]] += price * (shared.cap - contributions[list(shared.lots)].sum())
    return total


def sale_prices(
    amounts: Callable[[FloatArray], FloatArray], earned: FloatArray, shared_caps: Sequence[SharedCap]
) -> FloatArray:
    """Prices of shared caps, (..., caps), at which no more is sold than they allow.

    `amounts(net)` is what is sold where a sample earns `net`, per lot on the last axis.
    """
    found = np.zeros((*earned.shape[:-1], len(shared_caps)))
    for place, shared in enumerate(shared_caps):
        own = list(shared.lots)

        def too_much(price: FloatArray, own: list[int] = own, cap: float = shared.cap) -> FloatArray:
            net = earned.copy()
            net[..., own] -= price.reshape(net.shape[:-1])[..., None]
            return np.asarray(amounts(net)[..., own].sum(axis=-1) - cap).reshape(price.shape)

        highest = np.atleast_1d(np.maximum(earned[..., own].max(axis=-1), 0.0))
        needed = too_much(np.zeros_like(highest)) > 0
        price = np.where(needed, best_contributions(too_much, highest), 0.0)
        found[..., place] = price.reshape(found.shape[:-1])
    return found


def sales_within(
    costs: Cost,
    amounts: Callable[[FloatArray], FloatArray],
    earned: FloatArray,
    shared_caps: Sequence[SharedCap],
) -> FloatArray:
    """The most that lots earn less their costs, within shared caps: per lot, the worth of a cap at its first lot."""
    prices = sale_prices(amounts, earned, shared_caps)
    net = earned - prices @ shared_members(shared_caps, earned.shape[-1])
    best = amounts(net)
    sold = np.asarray(net * best - costs.value(best))
    for place, shared in enumerate(shared_caps):
        sold[..., shared.lots[0]] += prices[..., place] * shared.cap
    return sold


class InteriorClimb:
    """A concave function of lots within their bounds and shared caps, climbed along the barrier.

    `slopes`, `curvature` (minus the second derivatives, dense) and `admits` are of the function, `scale` its size.
    """

    def __init__(
        self,
        slopes: Callable[[FloatArray], FloatArray],
        curvature: Callable[[FloatArray], FloatArray],
        admits: Callable[[FloatArray], bool],
        *,
        upper: FloatArray,
        shared_caps: Sequence[SharedCap],
        scale: float,
    ) -> None:
        self._slopes, self._curvature, self._admits, self._scale = slopes, curvature, admits, scale
        self._upper, size = upper, upper.size
        cutting = [shared for shared in shared_caps if shared.cap > 0 and upper[list(shared.lots)].sum() > shared.cap]
        shares = shared_members(cutting, size) * upper / np.array([shared.cap for shared in cutting])[:, None]
        moving = upper > 0
        self._rows = np.concatenate([-np.eye(size), np.eye(size)[moving], shares])
        self._limits = np.concatenate([np.where(moving, 0.0, 1.0), np.ones(int(moving.sum()) + len(cutting))])

    def run(self, start: FloatArray, gain: Callable[[FloatArray], float], tolerance: float) -> FloatArray:
        """The last profile of the climb, or the one before with less to gain; `start` if none is in the domain."""
        x = self._inside(start)
        if x is None:
            return start
        best, least, mu = start, gain(start), FIRST_BARRIER
        multipliers = mu / self._room(x)
        for _ in range(MAX_BARRIER_STEPS):
            left = gain(self._upper * x)
            if left < least:
                best, least = self._upper * x, left
            if least <= tolerance:
                break
            push = self._push(x, mu)
            rooms = self._room(x)
            system = self._scaled_curvature(x) + self._rows.T @ ((multipliers / rooms)[:, None] * self._rows)
            step = (
                np.linalg.lstsq(system, -push, rcond=None)[0]
                if not np.isfinite(system).all()
                else _solve(system, -push)
            )
            moved = self._along(x, step, push, mu)
            change = mu / rooms - multipliers + multipliers / rooms * (self._rows @ step)
            falling = change < 0
            share = min(1.0, TO_BOUNDARY * float((-multipliers[falling] / change[falling]).min(initial=np.inf)))
            multipliers = multipliers + share * change
            stuck, x = bool((moved == x).all()), moved
            aim = mu / self._room(x)
            multipliers = np.clip(multipliers, 1e-8 * aim, 1e8 * aim)
            if stuck or abs(float(push @ step)) <= SETTLED * mu:
                if mu <= LAST_BARRIER:
                    break
                mu = max(min(0.2 * mu, mu**1.5), LAST_BARRIER)
        return best

    def _room(self, x: FloatArray) -> FloatArray:
        return self._limits - self._rows @ x

    def _push(self, x: FloatArray, mu: float) -> FloatArray:
        """The slope, downhill, of the function less the barrier."""
        uphill = self._upper * self._slopes(self._upper * x) / self._scale
        return np.asarray(self._rows.T @ (mu / self._room(x)) - uphill)

    def _scaled_curvature(self, x: FloatArray) -> FloatArray:
        return self._upper[:, None] * self._curvature(self._upper * x) * self._upper / self._scale

    def _inside(self, start: FloatArray) -> FloatArray | None:
        """A profile in the middle, or else close to the start, in shares of the bounds."""
        middle = np.full(start.size, 1.0 / (2.0 + start.size))
        given = np.where(self._upper > 0, start / np.where(self._upper > 0, self._upper, 1.0), middle)
        for x in (middle, (1.0 - PULLED_INSIDE) * given + PULLED_INSIDE * middle, PULLED_INSIDE * middle):
            if (self._room(x) > 0).all() and self._admits(self._upper * x):
                return np.asarray(x)
        return None

    def _along(self, x: FloatArray, step: FloatArray, push: FloatArray, mu: float) -> FloatArray:
        """Along a step to where its slope has fallen enough and has not turned by much."""
        change, room = self._rows @ step, self._room(x)
        rising = change > 0
        longest = TO_BOUNDARY * float((room[rising] / change[rising]).min(initial=np.inf))
        here, low, high, length = float(push @ step), 0.0, np.inf, min(1.0, longest)
        if not here < 0:
            return x
        best = x
        for _ in range(MAX_TRIALS):
            ahead = x + length * step
            left = -np.inf
            if self._admits(self._upper * ahead) and (self._room(ahead) > 0).all():
                left = float(self._push(ahead, mu) @ step) / here
            if not left >= MIN_LEFT:
                high = length
            else:
                best, low = ahead, length
                if left <= MAX_LEFT or length >= longest:
                    break
            length = 0.5 * (low + high) if np.isfinite(high) else min(2.0 * length, longest)
        return best


def _solve(system: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(system, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])

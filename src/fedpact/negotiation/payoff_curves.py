"""Curves through what members have answered: a payoff as a function of data valued at the member's own prices.

In t, the change in that value (units of payoff) since the member was asked, the slope is the hyperbola

    a'(t) = (1 + t / width)^(-decay width),        width = infinity standing for e^(-decay t),

1 at t = 0; `decay` is the curvature stated, and the width is the one at which contributing nothing is worth nothing.
The four families are of this form, so for them the curve is the payoff itself; for any other concave payoff it is a
model with its value, slope and curvature at one profile, which is all that a step of Newton's method needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedpact.federation import Exponential, Payoff, PowerLaw
from fedpact.negotiation.validation import TaskAnswer
from fedpact.utils.arrays import FloatArray

ASSUMED_POWER = 1.2  # decay x width where nothing else is known
MAX_WIDTH = 1e6  # in decay lengths: wider ones are exponentials
MIN_WIDTH = 1e-9
MIN_DISTANCE = 1e-2  # decay lengths from nothing: nearer, that it is worth nothing says too little about the width
MIN_CURVATURE = 1e-12  # of one over the value of the data asked about: less is none
NEARLY_LOG = 1e-14  # decay x width - 1: nearer to 1 the integral is a logarithm to the last digit
HALVINGS = 40  # leaves 1e-11 of a width
MIN_POWER, MAX_POWER = 1e-6, 200.0  # of the power laws that stand for logarithms and for exponentials


@dataclass(frozen=True, eq=False)
class FittedPayoff(Payoff):
    """The curves as a family of payoffs: t is y - offset, where y is the data valued at the prices."""

    offset: FloatArray
    decay: FloatArray
    width: FloatArray
    family: ClassVar[str] = "fitted"

    def __post_init__(self) -> None:
        """Offsets may be of any sign, and widths infinite."""

    def value(self, y: FloatArray) -> FloatArray:
        """The payoff, nothing at nothing."""
        return self._integral(y - self.offset) - self._integral(-self.offset)

    def slope(self, y: FloatArray) -> FloatArray:
        """a'(t)."""
        steps, wide = y - self.offset, np.isinf(self.width)
        width = np.where(wide, 1.0, self.width)
        with np.errstate(all="ignore"):
            return np.exp(-self.decay * np.where(wide, steps, width * np.log1p(steps / width)))

    def curvature(self, y: FloatArray) -> FloatArray:
        """a''(t)."""
        with np.errstate(all="ignore"):
            return -self.decay * self.slope(y) / (1.0 + (y - self.offset) / self.width)

    @property
    def floor(self) -> FloatArray:
        """Where the slope is infinite."""
        return self.offset - self.width

    def _integral(self, steps: FloatArray) -> FloatArray:
        """Of a' from 0 to t."""
        with np.errstate(all="ignore"):
            exponential = -np.expm1(-self.decay * steps) / self.decay
            return np.where(np.isinf(self.width), exponential, _hyperbola(steps, self.decay, self.width))

    def as_family(self) -> tuple[FloatArray, FloatArray, Payoff]:
        """Exponentials if all are, otherwise power laws, with factors on the prices and values.

        The Shapley value has an integral for these. A power law has the slope and the curvature of its curve at t = 0.
        """
        offset, decay, wide = self.offset, self.decay, np.isinf(self.width)
        if wide.all():
            return np.ones_like(decay), np.exp(decay * offset) / decay, Exponential(decay)
        power = np.clip(np.where(wide, np.inf, decay * self.width - 1.0), MIN_POWER, None)
        power = np.minimum(power, np.maximum(MAX_POWER, 2.0 * decay * offset))
        width = (power + 1.0) / decay
        to_floor = width - offset  # from nothing
        values = to_floor / power * np.exp(-(power + 1.0) * np.log(to_floor / width))
        return 1.0 / to_floor, values, PowerLaw(power)


def _hyperbola(steps: FloatArray, decay: FloatArray, width: FloatArray) -> FloatArray:
    """The integral of a' where the width is finite and t inside the domain."""
    excess = decay * width - 1.0
    excess = np.where(np.abs(excess) < NEARLY_LOG, NEARLY_LOG, excess)
    return -width / excess * np.expm1(-excess * np.log1p(steps / width))


def fit_curves(histories: Sequence[Sequence[TaskAnswer]]) -> tuple[FloatArray, FittedPayoff]:
    """The prices (tasks, lots) and the curve of every task, from all answers about it."""
    bases = [_base_answer(history) for history in histories]
    prices = np.array([base.worth for base in bases])
    offset = np.array([base.worth @ base.at for base in bases])
    decay, payoffs = np.array([_decay(base) for base in bases]), np.array([base.payoff for base in bases])
    with np.errstate(all="ignore"):  # whatever is stated, no curve bends more that is worth nothing at nothing
        steepest = 2.0 * (payoffs / offset - 1.0) / offset
        is_absurd = (payoffs > offset) & (offset * decay > MIN_DISTANCE) & (decay > 10.0 * steepest)
    decay = np.where(is_absurd, 0.25 * steepest, decay)
    return prices, FittedPayoff(offset, decay, _widths(offset, payoffs, decay))


def _base_answer(history: Sequence[TaskAnswer]) -> TaskAnswer:
    """Where the curve is taken: the last profile, or the last at which the member had not enough."""
    inside = [answer for answer in history if not answer.outside]
    return next((answer for answer in reversed(inside) if answer.worth.any()), inside[-1])


def _decay(base: TaskAnswer) -> float:
    """The curvature stated; where it is none, one that makes itself felt over the contributions asked about."""
    value_of_data = float(np.abs(base.worth).sum()) * (1.0 + float(base.at.max()))
    return base.curvature if base.curvature * value_of_data > MIN_CURVATURE else 1.0 / (value_of_data or 1.0)


def _widths(offset: FloatArray, payoffs: FloatArray, decay: FloatArray) -> FloatArray:
    """The widths at which the integral of a' over the data at hand is the payoff; nothing lies in the domain.

    The integral moves one way as the curve becomes wider: bisection, in the logarithm of the distance from the furthest
    profile known to the edge of the domain.
    """
    furthest = np.maximum(offset, 0.0)
    low = furthest * 1e-12 + MIN_WIDTH * ASSUMED_POWER / decay
    high = low + MAX_WIDTH / decay
    narrowest = furthest + low
    with np.errstate(over="ignore"):
        toward = -np.sign(offset)
        is_wide = toward * (_hyperbola(-offset, decay, furthest + high) + payoffs) >= 0.0
        is_narrow = ~(toward * (_hyperbola(-offset, decay, narrowest) + payoffs) > 0.0)
        for _ in range(HALVINGS):
            middle = np.sqrt(low * high)
            more = toward * (_hyperbola(-offset, decay, furthest + middle) + payoffs) > 0.0
            low, high = np.where(more, middle, low), np.where(more, high, middle)
    fitted = np.where(is_wide, np.inf, np.where(is_narrow, narrowest, furthest + high))
    is_near = np.abs(offset) * decay < MIN_DISTANCE
    return np.where(is_near, np.maximum(ASSUMED_POWER / decay, narrowest), fitted)

"""Curves through what members have answered: a payoff as a function of data valued at the member's own prices.

In t, the change in that value (units of payoff) since the member was asked, the slope is the hyperbola

    a'(t) = (1 + t / width)^(-decay width),        width = infinity standing for e^(-decay t),

1 at t = 0; `decay` is the curvature stated. The width is fitted to the payoff at one other profile: the last one asked
about, or contributing nothing, which is worth nothing. The four families are of this form, so for them the curve is the
payoff itself; for any other concave payoff it is a model that agrees with it in value, slope and curvature at one
profile and in value at another. Where the slope at the other profile shows that the curvature stated is of no use, the
curve is the exponential through both payoffs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import lambertw

from fedpact.federation import Exponential, Payoff, PowerLaw
from fedpact.negotiation.validation import TaskAnswer
from fedpact.utils.arrays import FloatArray

ASSUMED_POWER = 1.2  # decay x width where nothing else is known
MAX_WIDTH = 1e6  # in decay lengths: wider ones are exponentials
MIN_WIDTH = 1e-9
MIN_DISTANCE = 1e-2  # decay lengths: the payoff at a nearer profile says too little about the width
MIN_CURVATURE = 1e-12  # of one over the value of the data asked about: less is none
MAX_SLOPE_ERROR = 2.0  # times the slope stated
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
    decay = np.array([_decay(base) for base in bases])
    others = [_elsewhere(*each) for each in zip(bases, histories, decay, strict=True)]
    steps, gains, slopes = np.array(others).reshape(-1, 3).T
    width = _widths(steps, gains, decay, offset)
    with np.errstate(all="ignore"):
        off = np.abs(np.log(FittedPayoff(offset, decay, width).slope(offset + steps) / slopes))
    of_no_use = (off > np.log(MAX_SLOPE_ERROR)) | np.array([not _is_curved(base) for base in bases])
    of_no_use &= (gains < steps) & ((steps < 0.0) | (gains > 0.0))  # concave and rising at all
    decay = np.where(of_no_use, _exponential_decay(steps, gains), decay)
    return prices, FittedPayoff(offset, decay, np.where(of_no_use, np.inf, width))


def _base_answer(history: Sequence[TaskAnswer]) -> TaskAnswer:
    """Where the curve is taken: the last profile, or the last at which the member had not enough."""
    inside = [answer for answer in history if not answer.outside]
    return next((answer for answer in reversed(inside) if answer.worth.any()), inside[-1])


def _decay(base: TaskAnswer) -> float:
    """The curvature stated; where it is none, one that makes itself felt over the contributions asked about."""
    return base.curvature if _is_curved(base) else 1.0 / (_value_of_data(base) or 1.0)


def _is_curved(base: TaskAnswer) -> bool:
    return base.curvature * _value_of_data(base) > MIN_CURVATURE


def _value_of_data(base: TaskAnswer) -> float:
    """What contributions like those asked about, and one more sample of each, are worth at the margin."""
    return float(np.abs(base.worth).sum()) * (1.0 + float(base.at.max()))


def _elsewhere(base: TaskAnswer, history: Sequence[TaskAnswer], decay: float) -> tuple[float, float, float]:
    """t, the payoff above that at the base, and the slope at the profile to fit to; t = 0 if there is none.

    The slope is NaN where it is not known.
    """
    size = float(np.abs(base.worth).sum())
    for answer in reversed(history):
        step = float(base.worth @ (answer.at - base.at))
        slope = float(np.abs(answer.worth).sum()) / size if size > 0.0 else 1.0
        is_far = abs(step) * decay >= MIN_DISTANCE or abs(slope - 1.0) >= MIN_DISTANCE
        if not answer.outside and step != 0.0 and is_far:
            return step, answer.payoff - base.payoff, slope
    step = -float(base.worth @ base.at)
    return (step, -base.payoff, np.nan) if abs(step) * decay >= MIN_DISTANCE else (0.0, 0.0, np.nan)


def _exponential_decay(steps: FloatArray, gains: FloatArray) -> FloatArray:
    """The decay at which the integral of e^(-decay t) from 0 to `steps` is `gains`.

    With x = decay t it is (1 - e^-x) / x = gains / steps, which Lambert's function solves, on one branch for steps
    ahead and on the other for steps back.
    """
    with np.errstate(all="ignore"):
        mean_slope = gains / steps
        argument = -np.exp(-1.0 / mean_slope) / mean_slope
        product = np.where(steps > 0.0, lambertw(argument, 0).real, lambertw(argument, -1).real)
        return np.nan_to_num((1.0 / mean_slope + product) / steps, nan=1.0, posinf=1.0)


def _widths(steps: FloatArray, gains: FloatArray, decay: FloatArray, offset: FloatArray) -> FloatArray:
    """The widths at which the integral from 0 to `steps` is `gains`; nothing contributed lies in the domain.

    The integral moves one way as the curve becomes wider: bisection, in the logarithm of the distance from the furthest
    profile known to the edge of the domain.
    """
    furthest = np.maximum(np.maximum(-steps, offset), 0.0)
    low = furthest * 1e-12 + MIN_WIDTH * ASSUMED_POWER / decay
    high = low + MAX_WIDTH / decay
    narrowest = furthest + low
    assumed = np.maximum(ASSUMED_POWER / decay, narrowest)
    with np.errstate(over="ignore"):
        toward = np.sign(steps)
        is_wide = toward * (_hyperbola(steps, decay, furthest + high) - gains) >= 0.0
        is_narrow = ~(toward * (_hyperbola(steps, decay, narrowest) - gains) > 0.0)
        for _ in range(HALVINGS):
            middle = np.sqrt(low * high)
            more = toward * (_hyperbola(steps, decay, furthest + middle) - gains) > 0.0
            low, high = np.where(more, middle, low), np.where(more, high, middle)
    fitted = np.where(is_wide, np.inf, np.where(is_narrow, narrowest, furthest + high))
    return np.where(steps != 0.0, fitted, assumed)

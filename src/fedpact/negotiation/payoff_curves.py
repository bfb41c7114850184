"""A curve through what an agent has answered: the shape of its payoff along the one direction it depends on.

In t, the change in data valued at the agent's own prices (units of payoff), the slope is the hyperbola

    a'(t) = (1 + t / width)^(-decay width),        width = infinity standing for e^(-decay t),

1 at t = 0, where the agent was asked; `decay` is the curvature it states. The width is fitted to the payoff at one
other place: the last one it was asked about, or contributing nothing, which is worth nothing. The four families are of
this form, so for them the curve is the payoff itself; for any other concave payoff it is a model that agrees with it in
value, slope and curvature at one place and in value at another. Where the slope at the other place shows that the
curvature stated is of no use, the curve is the exponential through both payoffs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.negotiation.validation import TaskAnswer
from fedpact.utils.arrays import FloatArray

ASSUMED_POWER = 1.2  # decay x width where nothing else is known
MAX_WIDTH = 1e6  # in decay lengths: wider ones are exponentials
MIN_WIDTH = 1e-9
MIN_DISTANCE = 1e-2  # decay lengths: the payoff at a nearer place says too little about the width
MAX_SLOPE_ERROR = 2.0  # times the slope stated
MIN_BEND = 1e-12
NEARLY_LOG = 1e-14  # decay x width - 1: nearer to 1 the integral is a logarithm to the last digit
HALVINGS = 40  # leaves 1e-11 of a width


@dataclass(frozen=True, kw_only=True, eq=False)
class PayoffCurves:
    """One curve per member; agent i's t at contributions s is prices_i s - offset_i.

    `prices` is (agents, agents), of the place where the curve was taken; the others have an entry per agent.
    """

    prices: FloatArray
    offset: FloatArray
    decay: FloatArray
    width: FloatArray

    def steps(self, contributions: FloatArray) -> FloatArray:
        """t of every agent."""
        return self.prices @ contributions - self.offset

    def payoffs(self, steps: FloatArray) -> FloatArray:
        """The payoff above that at t = 0; minus infinity outside the domain."""
        return integral(steps, self.decay, self.width)

    def slopes(self, steps: FloatArray) -> FloatArray:
        """a'(t)."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return np.exp(-self.decay * self._length(steps))

    def bends(self, steps: FloatArray) -> FloatArray:
        """-a''(t)."""
        with np.errstate(invalid="ignore"):
            return self.decay * self.slopes(steps) / (1.0 + steps / self.width)

    @property
    def floor(self) -> FloatArray:
        """The lowest prices_i s in the domain."""
        return self.offset - self.width

    def _length(self, steps: FloatArray) -> FloatArray:
        """width log(1 + t / width), t for exponentials."""
        wide = np.isinf(self.width)
        width = np.where(wide, 1.0, self.width)
        return np.where(wide, steps, width * np.log1p(np.where(wide, 0.0, steps) / width))


def integral(steps: FloatArray, decay: FloatArray, width: FloatArray) -> FloatArray:
    """The integral of a' from 0 to t, by entry; minus infinity at the floor and below."""
    wide = np.isinf(width)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        finite = np.where(wide, 1.0, width)
        inside = steps > -finite
        hyperbola = _hyperbola(np.where(inside, steps, 0.0), decay, finite)
        exponential = -np.expm1(-decay * steps) / decay
        return np.where(wide, exponential, np.where(inside, hyperbola, -np.inf))


def _hyperbola(steps: FloatArray, decay: FloatArray, width: FloatArray) -> FloatArray:
    """The integral where the width is finite and t inside the domain."""
    excess = decay * width - 1.0
    excess = np.where(np.abs(excess) < NEARLY_LOG, NEARLY_LOG, excess)
    return -width / excess * np.expm1(-excess * np.log1p(steps / width))


def fit_curves(histories: Sequence[Sequence[TaskAnswer]], members: np.ndarray) -> PayoffCurves:
    """The curve of every member, from all its answers; `members` are their places."""
    taken = [_base_answer(history) for history in histories]
    prices = np.array([place.worth for place in taken])
    offset = np.array([place.worth @ place.at for place in taken])
    decay = np.array([_decay(place) for place in taken])
    other = [_elsewhere(place, history, d) for place, history, d in zip(taken, histories, decay, strict=True)]
    steps, gains, slopes = np.array(other).T
    width = _widths(steps, gains, decay, offset)
    curves = PayoffCurves(prices=prices[:, members], offset=offset, decay=decay, width=width)
    unsaid = np.array([not _bends(place) for place in taken])
    return _correct_curves(curves, steps, gains, slopes, unsaid)


def _correct_curves(
    curves: PayoffCurves, steps: FloatArray, gains: FloatArray, slopes: FloatArray, unsaid: np.ndarray
) -> PayoffCurves:
    """With the exponential through both payoffs where a curve is off by more than a factor at the other place.

    The same where no curvature was stated.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        off = unsaid | (np.abs(np.log(curves.slopes(steps) / slopes)) > np.log(MAX_SLOPE_ERROR))
    off &= (gains < steps) & ((steps < 0.0) | (gains > 0.0))  # concave and rising at all
    if not off.any():
        return curves
    decay, width = curves.decay.copy(), curves.width.copy()
    decay[off], width[off] = _exponentials(steps[off], gains[off]), np.inf
    return PayoffCurves(prices=curves.prices, offset=curves.offset, decay=decay, width=width)


def _exponentials(steps: FloatArray, gains: FloatArray) -> FloatArray:
    """The decay at which the integral of e^(-decay t) from 0 to `steps` is `gains`; bisection, in the logarithm."""
    size = np.abs(steps)
    low = 1e-15 / size
    high = np.maximum(np.where(steps > 0.0, 1.0 / np.where(steps > 0.0, gains, 1.0), 700.0 / size), low)
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        more = -np.expm1(-middle * steps) / middle > gains
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return high


def _base_answer(history: Sequence[TaskAnswer]) -> TaskAnswer:
    """Where the curve is taken: the last place, or the last at which the agent had not enough."""
    inside = [place for place in history if not place.outside]
    wanting = [place for place in inside if place.worth.any()]
    return inside[-1] if not wanting or inside[-1].worth.any() else wanting[-1]


def _decay(place: TaskAnswer) -> float:
    """The curvature stated; where it is none, one that makes itself felt over the contributions asked about."""
    return place.curvature if _bends(place) else 1.0 / (_stretch(place) or 1.0)


def _bends(place: TaskAnswer) -> bool:
    """Whether the curvature stated makes itself felt at all."""
    return place.curvature * _stretch(place) > MIN_BEND


def _stretch(place: TaskAnswer) -> float:
    """What contributions like those asked about, and one more sample of each, are worth at the margin."""
    return float(np.abs(place.worth).sum()) * (1.0 + float(place.at.max()))


def _elsewhere(here: TaskAnswer, history: Sequence[TaskAnswer], decay: float) -> tuple[float, float, float]:
    """t, the payoff above that here, and the slope at the place to fit to; t = 0 if there is none.

    The slope is NaN where it is not known.
    """
    size = float(np.abs(here.worth).sum())
    for place in reversed(history):
        step = float(here.worth @ (place.at - here.at))
        slope = float(np.abs(place.worth).sum()) / size if size > 0.0 else 1.0
        if (
            not place.outside
            and step != 0.0
            and (abs(step) * decay >= MIN_DISTANCE or abs(slope - 1.0) >= MIN_DISTANCE)
        ):
            return step, place.payoff - here.payoff, slope
    step = -float(here.worth @ here.at)
    return (step, -here.payoff, np.nan) if abs(step) * decay >= MIN_DISTANCE else (0.0, 0.0, np.nan)


def _widths(steps: FloatArray, gains: FloatArray, decay: FloatArray, offset: FloatArray) -> FloatArray:
    """The widths at which the integral from 0 to `steps` is `gains`; nothing contributed lies in the domain.

    The integral moves one way as the curve becomes wider: bisection, in the logarithm of the distance from the furthest
    place known to the edge of the domain.
    """
    known = steps != 0.0
    furthest = np.maximum(np.maximum(-steps, offset), 0.0)
    low = furthest * 1e-12 + MIN_WIDTH * ASSUMED_POWER / decay
    high = low + MAX_WIDTH / decay
    narrowest = furthest + low
    assumed = np.maximum(ASSUMED_POWER / decay, narrowest)

    with np.errstate(over="ignore"):
        toward = np.sign(steps)
        wide = toward * (_hyperbola(steps, decay, furthest + high) - gains) >= 0.0
        narrow = ~(toward * (_hyperbola(steps, decay, narrowest) - gains) > 0.0)
        for _ in range(HALVINGS):
            middle = np.sqrt(low * high)
            more = toward * (_hyperbola(steps, decay, furthest + middle) - gains) > 0.0
            low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(known, np.where(wide, np.inf, np.where(narrow, narrowest, furthest + high)), assumed)

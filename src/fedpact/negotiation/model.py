"""What a coordinator makes of answers about one profile: a model of welfare, and the profile it would be best at.

Along the one direction its payoff depends on, agent i has said its payoff, slope and curvature; that nothing is worth
nothing is known. In t = prices (s' - s), units of payoff, these fix the hyperbola

    a'(t) = (1 + t / width)^(-decay width),  decay = curvature,  integral from t = -prices s to 0 equal to the payoff,

which is the agent's payoff itself if that is of one of our families, and a good model of any concave payoff. At s = 0,
where the integral says nothing, a width is assumed. The model's maximiser is found by the compiled solver for small
programs; nobody is asked anything for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.negotiation.answers import Said
from fedpact.programs.kernels import climb_all

__all__ = ["Model"]

ASSUMED_POWER = 1.2  # decay x width where the payoff says nothing yet
WIDEST = 1e6  # widths beyond this many decay lengths are exponentials
MOST_HALVINGS = 200
FARTHER = 64.0
MOST_STRETCHES = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """Welfare around a profile, as the agents at the table have described it.

    Arrays run over the agents at the table; `prices` is (agents, agents).
    """

    at: FloatArray
    prices: FloatArray
    payoffs: FloatArray
    decay: FloatArray
    width: FloatArray
    costs: FloatArray
    marginal_costs: FloatArray
    cost_curvatures: FloatArray
    caps: FloatArray

    @classmethod
    def of(cls, answers: Sequence[Said], caps: FloatArray, members: np.ndarray) -> Model:
        """The model of agents that have all answered about the same profile; `members` are their places."""
        at = answers[0].at[members]
        prices = np.array([answer.prices[members] for answer in answers if answer.prices is not None])
        payoffs = np.array([answer.payoff for answer in answers])
        decay = np.array([answer.curvature for answer in answers])
        return cls(
            at=at,
            prices=prices,
            payoffs=payoffs,
            decay=decay,
            width=np.array([_width(*each) for each in zip(decay, prices @ at, payoffs, strict=True)]),
            costs=np.array([answer.cost for answer in answers]),
            marginal_costs=np.array([answer.marginal_cost for answer in answers]),
            cost_curvatures=np.array([answer.cost_curvature for answer in answers]),
            caps=caps[members],
        )

    @property
    def welfare(self) -> float:
        """At the profile, as said."""
        return float(self.payoffs.sum() - self.costs.sum())

    @property
    def scale(self) -> float:
        """The size of what is at stake."""
        decays = np.where(self.decay > 0, 1.0 / np.where(self.decay > 0, self.decay, 1.0), 0.0)
        return float(np.abs(self.payoffs).sum() + self.costs.sum()) or 1e-3 * float(decays.sum()) or 1.0

    @property
    def marginal_welfare(self) -> FloatArray:
        """What one more sample of each agent's is worth to all, less its cost."""
        return self.prices.sum(axis=0) - self.marginal_costs

    def best(self) -> tuple[FloatArray, float]:
        """The profile the model is largest at, and how much more it promises there."""
        box = np.where(np.isfinite(self.caps), self.caps, FARTHER * (1.0 + self.at.max()))
        for _ in range(MOST_STRETCHES):
            found = self._maximised(box)
            stretched = ~np.isfinite(self.caps) & (found >= 0.99 * box)
            if not stretched.any():
                break
            box = np.where(stretched, FARTHER * box, box)
        return found, self.promised(found)

    def promised(self, profile: FloatArray) -> float:
        """The model's gain in welfare from the profile it is about to another."""
        step = self.prices @ (profile - self.at)
        moved = profile - self.at
        costs = self.marginal_costs * moved + 0.5 * self.cost_curvatures * moved**2
        return float(sum(_integral(*each) for each in zip(step, self.decay, self.width, strict=True)) - costs.sum())

    def _maximised(self, box: FloatArray) -> FloatArray:
        """Hyperbolas in y = prices s': the width counts from y = 0, and the slope there is the steepness."""
        here = self.prices @ self.at
        width = np.where(np.isfinite(self.width), self.width - here, np.inf)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ratio = np.where(np.isfinite(self.width), np.log1p(-here / self.width), 0.0)
            power = np.where(np.isfinite(self.width), self.decay * self.width, 0.0)
            steepness = np.exp(np.where(np.isfinite(self.width), -power * ratio, self.decay * here))
            decay = np.where(np.isfinite(width), self.decay * self.width / width, self.decay)
        linear = self.marginal_costs - self.cost_curvatures * self.at
        found, gains = np.zeros((1, self.at.size)), np.zeros(1)
        climb_all(
            np.ascontiguousarray(self.prices)[None], np.ones((1, self.at.size)), steepness[None], decay[None],
            width[None], linear[None], 0.5 * self.cost_curvatures[None], box[None], np.array([self.scale]),
            np.ones((1, self.at.size), dtype=bool), np.ones(1), found, gains,
        )  # fmt: skip
        return found[0]


def _integral(step: float, decay: float, width: float) -> float:
    """The hyperbola's integral from 0 to `step`; minus infinity beyond its floor."""
    if decay == 0.0:
        return step
    if np.isinf(width):
        with np.errstate(over="ignore"):
            return float(-np.expm1(-decay * step) / decay)
    if step <= -width:
        return -np.inf
    power, length = decay * width, np.log1p(step / width)
    if abs(power - 1.0) < 1e-12:
        return float(width * length)
    with np.errstate(over="ignore"):
        return float(-width / (power - 1.0) * np.expm1(-(power - 1.0) * length))


def _width(decay: float, here: float, payoff: float) -> float:
    """The width at which the integral from -here to 0 is the payoff; the larger it is, the nearer to an exponential."""
    if decay <= 0.0:
        return np.inf
    narrowest = max(here, 0.0) * (1.0 + 1e-12) + 1e-3 * ASSUMED_POWER / decay
    if abs(here) * decay < 1e-6:
        return max(ASSUMED_POWER / decay, narrowest)

    def excess(width: float) -> float:
        return -_integral(-here, decay, width) - payoff

    low, high = narrowest, WIDEST / decay
    if not excess(low) > 0.0:
        return narrowest
    if excess(high) >= 0.0:
        return np.inf
    for _ in range(MOST_HALVINGS):
        middle = float(np.sqrt(low * high))
        if middle in {low, high}:
            break
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high

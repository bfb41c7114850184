"""The best profile for one agent that faces a price for everybody's data, within a box.

Maximise  value g(y) - sum_j price_j s_j - c(s_own)  over low <= s <= high, with y = sum_j w_j s_j. Everything hangs on
one number, the marginal payoff m = value g'(y): at m each s_j goes to the end of its range that m w_j - price_j points
to, and y rises with m, while g' falls. So m is found by bisection, and what is undecided at m fills up y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedpact.federation import Cost, Payoff
from fedpact.utils.arrays import FloatArray

MAX_PRICE_HALVINGS = 1100  # down to the smallest number there is
MAX_MARGINAL_PAYOFF = 1e200  # a marginal payoff that is not to be had inside the domain
TIE_TOLERANCE = 1e-12  # relative: weights whose best end changes within so little of m


@dataclass(frozen=True, kw_only=True, eq=False)
class PriceTaker:
    """One agent: its weights for everybody's data, its payoff and its cost.

    `payoff` and `cost` are of one agent; `own` is its place among the weights.
    """

    weights: FloatArray
    own: int
    value: float
    payoff: Payoff
    cost: Cost

    def utility(self, profile: FloatArray, prices: FloatArray) -> float:
        """value g(y) - prices s - c(s_own); minus infinity outside the domain."""
        data = float(self.weights @ profile)
        if data <= np.ravel(self.payoff.floor)[0]:
            return -np.inf
        spent = float(prices @ profile) + float(np.ravel(self.cost.value(profile[[self.own]]))[0])
        with np.errstate(over="ignore"):
            return self.value * float(np.ravel(self.payoff.value(np.array([data])))[0]) - spent

    def best(self, prices: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The best profile; where the whole box is outside the domain, the one that reaches most."""
        below, above = 0.0, 1.0
        while self._slope(self._chosen(above, prices, low, high)) > above:
            if above > MAX_MARGINAL_PAYOFF:
                return np.where(self.weights > 0, high, low)
            above *= 4.0
        for _ in range(MAX_PRICE_HALVINGS):
            middle = 0.5 * (below + above)
            if middle in {below, above}:
                break
            if self._slope(self._chosen(middle, prices, low, high)) > middle:
                below = middle
            else:
                above = middle
        less = self._chosen(below * (1.0 - TIE_TOLERANCE), prices, low, high)
        more = self._chosen(above * (1.0 + TIE_TOLERANCE), prices, low, high)
        return self._filled(less, more, above)

    def _chosen(self, marginal: float, prices: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Where every s_j goes when another unit of y is worth `marginal`."""
        worth = marginal * self.weights - prices
        chosen = np.where(worth > 0, high, low)
        spare = worth[self.own] - float(np.ravel(self.cost.linear)[0])
        bend = 2.0 * float(np.ravel(self.cost.quadratic)[0])
        if bend > 0:
            chosen[self.own] = np.clip(spare / bend, low[self.own], high[self.own])
        else:
            chosen[self.own] = high[self.own] if spare > 0 else low[self.own]
        return chosen

    def _slope(self, profile: FloatArray) -> float:
        """value g'(y), infinite outside the domain."""
        data = float(self.weights @ profile)
        if data <= np.ravel(self.payoff.floor)[0]:
            return np.inf
        with np.errstate(over="ignore"):
            return self.value * float(np.ravel(self.payoff.slope(np.array([data])))[0])

    def _filled(self, less: FloatArray, more: FloatArray, marginal: float) -> FloatArray:
        """Between the two, the profile at which the marginal payoff is `marginal`."""
        lowest, highest = float(self.weights @ less), float(self.weights @ more)
        if highest <= lowest:
            return less
        with np.errstate(divide="ignore"):  # where the agent has enough, its marginal payoff is 0
            wanted = float(np.ravel(self.payoff.inverse_slope(np.array([marginal / self.value])))[0])
        share = min(max((wanted - lowest) / (highest - lowest), 0.0), 1.0)
        return less + share * (more - less)

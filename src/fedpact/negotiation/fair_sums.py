"""The fair deal that keeps every member, in sums: two numbers are looked for, and nobody says what it has alone.

The fair deal is the Externality deal with side payments on top (`fedpact.programs.fair_shares`). Where members alone
must be kept, what everybody has follows from two numbers that are the same for all:

    floor_i = max(d_i, r phi_i - c_i),      x_i = max(floor_i, phi_i - c_i - t),

d_i what it has alone, phi_i its Shapley share. r is the largest up to 1 at which the floors add up to at most the
welfare W, t is where the x_i add up to W. A member works out its floor and its x_i by itself; the coordinator learns
what they add up to at r and t of its choice, and how steeply that changes. Both sums are convex and piecewise linear,
so Newton's steps, from 1 down and from 0 up, end at the solution after at most as many steps as there are members.

What that tells the coordinator: the Shapley shares, which are sums, and at every step the sum of the shares of those
whose floor is above what they have alone: from that it can tell who these are, not by how much.

Where groups must be kept too this does not help: what a group reaches is a sum over its members, and groups of one or
two are sums that are never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedpact.mechanisms.fair import check_shares
from fedpact.negotiation.sum_terms import DIVISION, FAIR
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import NoFairDeal

SUM_ROUNDING = 1e-13  # of welfare and of what members have alone: sums that differ by less are alike
MAX_SHORTFALL = 1e-10  # of the same: what members may have more alone
AskSum = Callable[..., FloatArray]


class FairSums:
    """The two numbers, found by asking for sums at the contributions agreed.

    `ask(about, profile, **more)` gives the sum of everybody's answers to a question.
    """

    def __init__(self, ask: AskSum, contributions: FloatArray, payoffs: float, costs: float) -> None:
        self._ask, self._at, self._welfare = ask, contributions, payoffs - costs
        outside, *shares = ask(DIVISION, contributions)
        if outside:
            raise NoFairDeal(
                "there are no Shapley shares to return at the welfare optimum: some group of members would leave the "
                f"domain of the payoffs of {int(outside)} of them"
            )
        self.shares = np.array(shares)
        check_shares(self.shares, np.array([payoffs]), np.array([costs]))
        self.level, self.lowered, self.steps = 1.0, None, 0  # type: float, float | None, int

    @property
    def terms(self) -> dict[str, Any]:
        """What everybody has to know for its own part."""
        return {"shares": self.shares.tolist(), "level": self.level, "lowered": self.lowered}

    def find(self) -> FloatArray:
        """Look for both numbers; the last sum. Raises `NoFairDeal` if members have more alone than together."""
        self._find_level()
        self.lowered = 0.0
        told = self._sum()
        for _ in range(self.shares.size):
            above = told[0] - self._welfare
            if above <= SUM_ROUNDING * self._size(told) or told[2] < 1.0:
                break
            self.lowered += float(above / told[2])
            told = self._sum()
        return told

    def _find_level(self) -> None:
        for _ in range(self.shares.size + 1):
            told = self._sum()
            above = float(told[0]) - self._welfare
            size = self._size(told)
            if above <= SUM_ROUNDING * size:
                return
            if self.level == 0.0:
                if above <= MAX_SHORTFALL * size:
                    return
                raise NoFairDeal(
                    "no side payments keep everybody: the members together have more alone than all have together, "
                    f"{told[0]:.6g}; a subsidy of {above:.6g} from outside would (units of payoff)",
                    subsidy=above,
                )
            self.level = max(self.level - above / float(told[1]), 0.0) if told[1] > 0.0 else 0.0

    def _sum(self) -> FloatArray:
        self.steps += 1
        return self._ask(FAIR, self._at, **self.terms)

    def _size(self, told: FloatArray) -> float:
        return abs(self._welfare) + abs(float(told[0]))

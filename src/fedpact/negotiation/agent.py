"""An agent: it owns its row of weights, its payoff, its cost and its cap, and answers questions.

Questions and answers are plain data (numbers, lists, dictionaries), so that they can travel by any means. What each
question makes an agent reveal is written at its answer. An agent with a payoff or a cost of its own kind overrides
`answer`, or passes a `Payoff` with `value`, `slope`, `curvature` and `floor`; the payoff must rise and be concave in
the data reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedpact.federation import Cost, Federation, Payoff
from fedpact.federation.arrays import Owners
from fedpact.negotiation import sum_terms
from fedpact.negotiation.consent import accepts_deal, standalone_utility
from fedpact.shapley.receiver import receiver_potential, receiver_shares
from fedpact.utils.arrays import FloatArray

Question = dict[str, Any]
Answer = dict[str, Any]

# Of the value: with less to gain from more data an agent has enough, and names no prices.
MIN_SLOPE = 1e-40
MAX_SLOPE = 1e40  # of the value: beyond it numbers overflow, and the agent counts as outside its domain


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent:
    """One member of a federation and what only it knows.

    Attributes
    ----------
    index
        Its place among all agents.
    weights
        Its row: how useful everybody's data is to it.
    payoff, value, cost, cap
        Its payoff curve and what accuracy is worth to it, what contributing costs it, and the most it can contribute.
    secret, identity
        What its masks are made from (32 bytes), and the key it signs with, if it has one.
    least_gain
        What it asks of a deal beyond its utility alone, in units of payoff; None if it accepts any deal.
    """

    name: str
    index: int
    weights: FloatArray
    payoff: Payoff
    value: float
    cost: Cost
    cap: float
    secret: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    identity: sum_terms.Identity | None = field(default=None, repr=False)
    least_gain: float | None = 0.0

    @classmethod
    def of(cls, federation: Federation, index: int, *, least_gain: float | None = 0.0) -> Agent:
        """The agent of a federation, with its own row and nothing else; it asks for its joining costs too."""
        return cls(
            name=federation.names[index],
            index=index,
            weights=federation.arrays.weights[index],
            payoff=federation.arrays.payoff.take([index]),
            value=float(federation.arrays.values[index]),
            cost=federation.costs.take([index]),
            cap=float(federation.caps[index]),
            least_gain=None if least_gain is None else least_gain + float(federation.joining_costs[index]),
        )

    @property
    def n_agents(self) -> int:
        """How many agents there are."""
        return self.weights.size

    @property
    def own_lots(self) -> Owners:
        """The place of its data among everybody's: its own."""
        return np.array([self.index])

    @property
    def own_caps(self) -> FloatArray:
        """The most it can contribute."""
        return np.array([self.cap])

    def answer(self, question: Question) -> Answer:
        """The truthful answer to a question, with the number of the question it answers."""
        kinds: dict[str, Callable[[Question], Answer]] = {
            "introduce": self._introduction,
            "prices": self._marginal_prices,
            "shares": self._shares,
            "messages": self._messages,
            "accept": self._acceptance,
            **sum_terms.answers_of(self),
        }
        return {"number": question["number"], **kinds[question["kind"]](question)}

    def _introduction(self, question: Question) -> Answer:
        """Reveals: the cap, whose data matters to it (not how much, not in which direction), and the stiffness.

        That is -a_i'' at nothing times the mean square of the weights: how fast the first samples lose their worth.
        Where sums are negotiated the cap is all that is asked for.
        """
        if question.get("brief") is True:
            return {"cap": self.cap if np.isfinite(self.cap) else "inf"}
        uses = np.flatnonzero(self.weights)
        bend = -self.value * _as_float(self.payoff.curvature(np.zeros(1)))
        return {
            "cap": self.cap if np.isfinite(self.cap) else "inf",
            "uses": uses.tolist(),
            "stiffness": bend * float((self.weights[uses] ** 2).mean()) if uses.size else 0.0,
        }

    def _marginal_prices(self, question: Question) -> Answer:
        """Reveals, at the contributions asked about: payoff and cost, their first and second derivatives.

        The prices are a_i' w_ij: the row of weights up to a factor. One number says how fast they fall, a_i'' / a_i'^2.
        """
        contributions = np.asarray(question["contributions"], dtype=np.float64)
        data = float(self.weights @ contributions)
        told = price_answer(self.payoff, self.value, self.weights, data)
        return told if "outside" in told else told | cost_answer(self.cost, contributions[[self.index]])

    def _shares(self, question: Question) -> Answer:
        """Reveals what `prices` does, and how its payoff is shared out by the Shapley value.

        That is everybody's share of it and the slopes of the shares. A profile counts as outside where any coalition's
        contributions would be: the shares are means over all coalitions.
        """
        said = self._marginal_prices(question)
        contributions = np.asarray(question["contributions"], dtype=np.float64)
        if "outside" in said or self._worth(float(np.minimum(self.weights * contributions, 0.0).sum()))[0] is None:
            return {"outside": True}
        with np.errstate(over="ignore", invalid="ignore"):
            found = receiver_shares(self.weights, self.payoff, self.value, contributions)
        if not (np.isfinite(found.values).all() and np.isfinite(found.slopes).all()):
            return {"outside": True}
        return said | {"shares": found.values.tolist(), "slopes": found.slopes.tolist()}

    def shares(self, at: FloatArray) -> FloatArray:
        """Everybody's Shapley share of its payoff."""
        return receiver_shares(self.weights, self.payoff, self.value, at).values

    def potential(self, at: FloatArray) -> float:
        """Its term of the potential of the Shapley mechanism."""
        return receiver_potential(self.weights, self.payoff, self.value, at)

    def standalone_utility(self) -> float:
        """The utility of training alone."""
        return standalone_utility(self)

    def _worth(self, data: float) -> tuple[float | None, float]:
        return worth_of(self.payoff, self.value, data)

    def _messages(self, question: Question) -> Answer:
        """Reveals nothing new: it proposes what was agreed, at the prices that were worked out."""
        return {"proposals": list(question["proposals"]), "prices": list(question["prices"])}

    def _acceptance(self, question: Question) -> Answer:
        """Reveals: whether the deal leaves it what it asks for beyond standing alone, and not by how much."""
        return {"accepts": accepts_deal(self, question["contributions"], float(question["payment"]))}


def worth_of(curve: Payoff, value: float, data: float) -> tuple[float | None, float]:
    """Payoff and marginal payoff of data; None outside the domain, and where they are beyond all numbers."""
    if data <= _as_float(curve.floor):
        return None, np.inf
    with np.errstate(over="ignore"):
        payoff = value * _as_float(curve.value(np.array([data])))
        slope = value * _as_float(curve.slope(np.array([data])))
    if not (np.isfinite(payoff) and slope < MAX_SLOPE * value):
        return None, np.inf
    return payoff, slope


def price_answer(curve: Payoff, value: float, weights: FloatArray, data: float) -> Answer:
    """What a payoff is, what more data is worth to it and how fast that falls, at data reached by these weights."""
    payoff, slope = worth_of(curve, value, data)
    if payoff is None:
        return {"outside": True}
    enough = slope <= MIN_SLOPE * value
    bend = 0.0 if enough else -value * _as_float(curve.curvature(np.array([data])))
    return {
        "payoff": payoff,
        "prices": [0.0] * weights.size if enough else (slope * weights).tolist(),
        "curvature": 0.0 if enough else bend / slope / slope,
    }


def cost_answer(cost: Cost, contribution: FloatArray) -> Answer:
    """What one lot costs, what one more sample of it would, and how fast that rises."""
    return {
        "cost": _as_float(cost.value(contribution)),
        "marginal_cost": _as_float(cost.slope(contribution)),
        "cost_curvature": _as_float(cost.curvature(contribution)),
    }


def _as_float(number: Any) -> float:
    """The one number in an array."""
    return float(np.ravel(number)[0])

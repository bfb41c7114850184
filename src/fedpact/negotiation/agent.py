"""An agent at the table: it owns its row of weights, its payoff, its cost and its cap, and answers questions.

Questions and answers are plain data (numbers, lists, dictionaries), so that they can travel by any means. What each
question makes an agent reveal is written at its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.costs import Cost
from fedpact.federation import Federation
from fedpact.payoffs import Payoff
from fedpact.programs.scalar import falling_root

__all__ = ["Agent", "agents_of"]

Question = dict[str, Any]
Answer = dict[str, Any]


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
    """

    name: str
    index: int
    weights: FloatArray
    payoff: Payoff
    value: float
    cost: Cost
    cap: float

    @classmethod
    def of(cls, federation: Federation, index: int) -> Agent:
        """The agent of a federation, with its own row and nothing else."""
        row = federation.weights[[index], :]
        return cls(
            name=federation.agent_names[index],
            index=index,
            weights=np.asarray(row.todense() if federation.is_sparse else row).ravel().copy(),
            payoff=federation.payoff.take([index]),
            value=float(federation.values[index]),
            cost=federation.costs.take([index]),
            cap=float(federation.caps[index]),
        )

    def answer(self, question: Question) -> Answer:
        """The truthful answer to a question, with the number of the question it answers."""
        kinds = {
            "introduce": self._introduction,
            "prices": self._marginal_prices,
            "proximal": self._proximal,
            "messages": self._messages,
        }
        return {"number": question["number"], **kinds[question["kind"]](question)}

    def _introduction(self, question: Question) -> Answer:
        """Reveals: the cap, and whose data matters to it (not how much, not in which direction)."""
        return {"cap": self.cap, "uses": np.flatnonzero(self.weights).tolist()}

    def _marginal_prices(self, question: Question) -> Answer:
        """Reveals, at the contributions asked about: payoff and cost, their first and second derivatives.

        The prices are a_i' w_ij: the row of weights up to a factor.
        """
        contributions = np.asarray(question["contributions"])
        data = float(self.weights @ contributions)
        if data <= float(np.ravel(self.payoff.floor)[0]):
            return {"outside": True}
        at = np.array([data])
        slope = self.value * float(np.ravel(self.payoff.slope(at))[0])
        own = contributions[[self.index]]
        return {
            "payoff": self.value * float(np.ravel(self.payoff.value(at))[0]),
            "prices": (slope * self.weights).tolist(),
            "curvature": -self.value * float(np.ravel(self.payoff.curvature(at))[0]) / slope**2,
            "cost": float(np.ravel(self.cost.value(own))[0]),
            "marginal_cost": float(np.ravel(self.cost.slope(own))[0]),
            "cost_curvature": float(np.ravel(self.cost.curvature(own))[0]),
        }

    def _proximal(self, question: Question) -> Answer:
        """Reveals: the profile it would ask for at the prices named, near the one on the table, and its utility there.

        argmax over x of u_i(x) - prices x - rho/2 |x - s|^2; a_i depends on x through one number, so this is one root.
        """
        table, prices = np.asarray(question["contributions"]), np.asarray(question["prices"])
        rho = float(question["rho"])
        used = self.weights != 0
        wanted = np.where(used, table - prices / rho, 0.0)
        bend, linear = float(np.ravel(self.cost.quadratic)[0]) * 2.0, float(np.ravel(self.cost.linear)[0])
        stiffness = np.full(table.size, rho)
        stiffness[self.index] += bend
        wanted[self.index] = (rho * wanted[self.index] - linear) / stiffness[self.index]
        gain = np.where(used, self.weights / stiffness, 0.0)
        start, reach = float(self.weights @ wanted), float(self.weights @ gain)
        slope = self._root_slope(start, reach)
        return {"proposal": (wanted + slope * gain).tolist(), **self._standing(table)}

    def _root_slope(self, start: float, reach: float) -> float:
        """The marginal payoff m with m = value g'(start + m reach)."""
        floor = float(np.ravel(self.payoff.floor)[0])

        def excess(slope: float) -> float:
            data = start + slope * reach
            if data <= floor:
                return np.inf
            with np.errstate(over="ignore"):
                return self.value * float(np.ravel(self.payoff.slope(np.array([data])))[0]) - slope

        return falling_root(excess, np.inf)

    def _standing(self, contributions: FloatArray) -> Answer:
        data = float(self.weights @ contributions)
        if data <= float(np.ravel(self.payoff.floor)[0]):
            return {"payoff": None, "cost": float(np.ravel(self.cost.value(contributions[[self.index]]))[0])}
        return {
            "payoff": self.value * float(np.ravel(self.payoff.value(np.array([data])))[0]),
            "cost": float(np.ravel(self.cost.value(contributions[[self.index]]))[0]),
        }

    def _messages(self, question: Question) -> Answer:
        """Reveals nothing new: it proposes what was agreed, at the prices that were worked out."""
        return {"proposals": list(question["proposals"]), "prices": list(question["prices"])}


def agents_of(federation: Federation) -> list[Agent]:
    """All agents of a federation, each with its own row only."""
    return [Agent.of(federation, index) for index in range(federation.n_agents)]

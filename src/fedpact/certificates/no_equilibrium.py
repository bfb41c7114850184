"""Whether a proof that there is no free-riding equilibrium is one (`fedpact.programs.no_equilibrium` says what it is).

In every case the inequalities named are multiplied and added up in exact fractions; the largest sum that contributions
within their bounds could reach has to stay below what is asked for. What is not exact, slopes and curvatures of
payoffs, counts with more than its rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedpact.federation import Federation

ROUNDING = Fraction(1, 10**12)  # of slopes and curvatures
CAP, ZERO = "cap", "zero"


def refutes(federation: Federation, proof: Mapping[str, Any]) -> bool:
    """Whether no contributions are a free-riding equilibrium, by this proof."""
    everybody = _Assumed(
        low=dict.fromkeys(range(federation.n_agents), 0.0), high=dict(enumerate(federation.caps.tolist()))
    )
    return _Check(federation).holds(proof, everybody)


@dataclass(frozen=True)
class _Assumed:
    """Between what amounts everybody is, and of whom it is known that it contributes, or less than its cap."""

    low: dict[int, float]
    high: dict[int, float]
    positive: frozenset[int] = frozenset()
    below_cap: frozenset[int] = frozenset()


class _Check:
    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.weights = federation.dense_weights()
        self.caps = federation.caps
        self.worth = federation.values * federation.own_weights

    def holds(self, proof: Mapping[str, Any], assumed: _Assumed) -> bool:
        """Whether no equilibrium is as assumed."""
        if "rows" in proof:
            return self._contradicts(proof["rows"], assumed)
        cases = self._cases(int(proof["agent"]), proof["bound"], assumed)
        return cases is not None and self.holds(proof["at"], cases[0]) and self.holds(proof["away"], cases[1])

    def _cases(self, agent: int, bound: str | float, assumed: _Assumed) -> tuple[_Assumed, _Assumed] | None:
        """The two that an agent's bound tells apart, which are all there are."""
        cap = float(self.caps[agent])
        if bound == CAP:
            if not 0 < cap < np.inf:
                return None
            return (
                replace(
                    assumed,
                    low=assumed.low | {agent: cap},
                    high=assumed.high | {agent: cap},
                    positive=assumed.positive | {agent},
                ),
                replace(assumed, below_cap=assumed.below_cap | {agent}),
            )
        below = assumed.below_cap | ({agent} if cap > 0 else set())
        if bound == ZERO:
            nothing = {agent: 0.0}
            return (
                replace(assumed, low=assumed.low | nothing, high=assumed.high | nothing, below_cap=below),
                replace(assumed, positive=assumed.positive | {agent}),
            )
        amount = float(bound)
        if not assumed.low[agent] < amount < assumed.high[agent]:
            return None
        return (
            replace(assumed, high=assumed.high | {agent: amount}, below_cap=below),
            replace(assumed, low=assumed.low | {agent: amount}, positive=assumed.positive | {agent}),
        )

    def _contradicts(self, rows: list[Any], assumed: _Assumed) -> bool:
        total: dict[int, Fraction] = {}
        asked = Fraction(0)
        for name, agent, where, multiplier in rows:
            row = self._row(name, int(agent), where, assumed)
            if row is None or not multiplier >= 0:
                return False
            sign, own, bound = row
            times = Fraction(float(multiplier))
            for sender in np.flatnonzero(self.weights[agent]).tolist():
                total[sender] = total.get(sender, Fraction(0)) + times * sign * Fraction(self.weights[agent, sender])
            total[agent] = total.get(agent, Fraction(0)) + times * own
            asked += times * bound
        reached = Fraction(0)
        for sender, gain in total.items():
            most = assumed.high[sender] if gain > 0 else assumed.low[sender]
            if gain and np.isinf(most):
                return False
            reached += gain * Fraction(most) if gain else 0
        return reached < asked

    def _row(self, name: str, agent: int, where: Any, assumed: _Assumed) -> tuple[int, Fraction, Fraction] | None:
        """sign (W s)_i + own s_i >= bound, if it holds at every equilibrium of the case."""
        floor = float(np.broadcast_to(self.federation.payoff.floor, self.caps.shape)[agent])
        if name == "floor":
            lowest = float(np.broadcast_to(self.federation.payoff.lowest_finite, self.caps.shape)[agent])
            return (1, Fraction(0), Fraction(lowest)) if np.isfinite(lowest) else None
        if name == "wants":
            return self._wants(agent, float(where), floor, assumed)
        if agent not in assumed.positive:
            return None
        low, high = assumed.low[agent], assumed.high[agent]
        if name == "enough":
            return (-1, Fraction(0), -Fraction(float(where))) if self._suffices(agent, float(where), low) else None
        left, right = map(float, where)
        if name != "chord" or not low < high < np.inf:
            return None
        if not (self._suffices(agent, left, low) and self._suffices(agent, right, high)):
            return None
        falls = (Fraction(right) - Fraction(left)) / (Fraction(high) - Fraction(low))
        return -1, falls, falls * Fraction(low) - Fraction(left)

    def _suffices(self, agent: int, reach: float, contribution: float) -> bool:
        """Whether an agent that contributes as much or more wants no more than this reach."""
        one, cost = self.federation.payoff.take([agent]), self.federation.costs.take([agent])
        floor = float(np.broadcast_to(self.federation.payoff.floor, self.caps.shape)[agent])
        if not (np.isfinite(reach) and reach > floor):
            return False
        slope = self.worth[agent] * float(one.slope(np.array([reach]))[0])
        return slope * (1.0 + float(ROUNDING)) <= float(np.ravel(cost.slope(np.array([contribution])))[0])

    def _wants(self, agent: int, at: float, floor: float, assumed: _Assumed) -> tuple[int, Fraction, Fraction] | None:
        """The tangent of the slope at a reach."""
        one, cost = self.federation.payoff.take([agent]), self.federation.costs.take([agent])
        below = np.isinf(self.caps[agent]) or agent in assumed.below_cap
        if not (below and np.isfinite(at) and at > floor):
            return None
        slope = self.worth[agent] * float(one.slope(np.array([at]))[0])
        bend = -self.worth[agent] * float(one.curvature(np.array([at]))[0])
        if not (np.isfinite(slope) and np.isfinite(bend) and bend > 0):
            return None
        rate, rises = (Fraction(float(np.ravel(part)[0])) for part in (cost.linear, 2.0 * cost.quadratic))
        exact_bend = Fraction(bend)
        doubt = ROUNDING * (Fraction(slope) + rate) / exact_bend
        bound = Fraction(at) + (Fraction(slope) - rate) / exact_bend - doubt
        return 1, rises / exact_bend * (1 + ROUNDING), bound

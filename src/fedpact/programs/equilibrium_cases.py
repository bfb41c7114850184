"""What a proof that there is no free-riding equilibrium assumes in each of its cases, and where a case ends.

`fedpact.programs.no_equilibrium` looks for the proof, and says what its inequalities are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedpact.utils.arrays import FloatArray

Row = list[Any]

LEEWAY = 1e-9  # of every number in an inequality: multiples that contradict it with this to spare do so exactly


@dataclass(frozen=True)
class Case:
    """What is assumed: who is at which bound and who is not, between what amounts, and where tangents are drawn."""

    low: FloatArray
    high: FloatArray
    below_cap: frozenset[int]
    positive: frozenset[int] = frozenset()
    tangents: tuple[tuple[int, float], ...] = ()

    def with_bound(self, agent: int, bound: str | float, caps: FloatArray) -> tuple[Case, Case]:
        """The two cases: at the bound, or below the amount; and away from it, or above the amount."""
        if bound == "cap":
            return self._between(agent, caps[agent], caps[agent], positive=True), replace(
                self, below_cap=self.below_cap | {agent}
            )
        if bound == "zero":
            return self._between(agent, 0.0, 0.0, below=True), replace(self, positive=self.positive | {agent})
        amount = float(bound)
        return (
            self._between(agent, self.low[agent], amount, below=True),
            self._between(agent, amount, self.high[agent], positive=True),
        )

    def _between(self, agent: int, low: float, high: float, *, below: bool = False, positive: bool = False) -> Case:
        lows, highs = self.low.copy(), self.high.copy()
        lows[agent], highs[agent] = low, high
        return replace(
            self,
            low=lows,
            high=highs,
            below_cap=self.below_cap | {agent} if below else self.below_cap,
            positive=self.positive | {agent} if positive else self.positive,
        )


@dataclass(frozen=True)
class Leaf:
    """A contradiction: the inequalities with their multipliers, and what their sum says in its case.

    `gains` is what each agent's contribution adds to the sum, `spare` how far the largest sum that contributions of the
    case reach stays below what is asked for, `size` that of the numbers in it.
    """

    case: Case
    rows: list[Row]
    gains: FloatArray
    spare: float
    size: float

    def without(self, agent: int, parent: Case) -> Leaf | None:
        """The same where of this agent no more is assumed than in the parent's case; None if it is no contradiction."""
        for name, owner, *_ in self.rows:
            if owner != agent or name == "floor":
                continue
            known = parent.below_cap if name == "wants" else parent.positive
            same = self.case.low[agent] == parent.low[agent] and self.case.high[agent] == parent.high[agent]
            if agent not in known or (name != "wants" and not same):
                return None
        gain = float(self.gains[agent])
        here, there = (case.high[agent] if gain > 0 else case.low[agent] for case in (self.case, parent))
        spare = self.spare if gain == 0 or here == there else self.spare - gain * float(there - here)
        if not spare > LEEWAY * (self.size + (abs(gain * float(there)) if gain else 0.0)):
            return None
        low, high = self.case.low.copy(), self.case.high.copy()
        low[agent], high[agent] = parent.low[agent], parent.high[agent]
        return replace(self, case=replace(self.case, low=low, high=high), spare=spare)

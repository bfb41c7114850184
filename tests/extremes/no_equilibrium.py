"""Whether a proof that a game has no equilibrium is one, in sixty digits.

Every equilibrium satisfies the inequalities a proof names, in the case it names them in; multiplied and added up they
ask for more than any contributions within their bounds give. Slopes are worked out here, not taken from the package.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from extremes.exact import ONE, TWO, ZERO, ExactFederation, exactly

INFINITE = Decimal("Infinity")
LARGEST_FLOAT = Decimal(sys.float_info.max)  # a payoff beyond it is none that the package could tell
LAST_DIGITS = ONE + Decimal(10) ** -50  # of a root: the slope there is held against marginal costs


@dataclass(frozen=True)
class Situation:
    """Between what amounts agents are, who is known to contribute, and who less than its cap."""

    low: dict[int, Decimal]
    high: dict[int, Decimal]
    positive: frozenset[int]
    below: frozenset[int]


@exactly
def is_refuted(exact: ExactFederation, proof: dict[str, Any]) -> bool:
    """Whether the proof leaves no equilibrium without payments."""
    agents = range(exact.n)
    unbounded = frozenset(i for i in agents if exact.caps[i] == INFINITE)
    start = Situation(dict.fromkeys(agents, ZERO), dict(enumerate(exact.caps)), frozenset(), unbounded)
    return _holds(exact, proof, start)


def _holds(exact: ExactFederation, proof: dict[str, Any], now: Situation) -> bool:
    if "rows" in proof:
        return _is_contradiction(exact, proof["rows"], now)
    i, bound, cap = proof["agent"], proof["bound"], exact.caps[proof["agent"]]
    at, away = now, now
    if bound == "cap" and ZERO < cap < INFINITE:
        at = replace(now, low=now.low | {i: cap}, high=now.high | {i: cap}, positive=now.positive | {i})
        away = replace(now, below=now.below | {i})
    elif bound == "zero" and cap > 0:
        at = replace(now, low=now.low | {i: ZERO}, high=now.high | {i: ZERO}, below=now.below | {i})
        away = replace(now, positive=now.positive | {i})
    elif isinstance(bound, float) and now.low[i] < (amount := Decimal(bound)) < now.high[i]:
        at = replace(now, high=now.high | {i: amount}, below=now.below | {i})
        away = replace(now, low=now.low | {i: amount}, positive=now.positive | {i})
    else:
        return False
    return _holds(exact, proof["at"], at) and _holds(exact, proof["away"], away)


def _is_contradiction(exact: ExactFederation, rows: list[list[Any]], now: Situation) -> bool:
    total, asked = [ZERO] * exact.n, ZERO
    for name, i, where, multiplier in rows:
        found = _inequality(exact, name, i, where, now)
        if found is None or not multiplier >= 0:
            return False
        sign, own, bound = found
        times = Decimal(multiplier)
        for j, weight in exact.rows[i].items():
            total[j] += times * sign * weight
        total[i] += times * own
        asked += times * bound
    reached = ZERO
    for j, gain in enumerate(total):
        most = now.high[j] if gain > 0 else now.low[j]
        if gain and most == INFINITE:
            return False
        reached += gain * most if gain else ZERO
    return reached < asked


def _inequality(
    exact: ExactFederation, name: str, i: int, where: Any, now: Situation
) -> tuple[Decimal, Decimal, Decimal] | None:
    """sign y_i + own s_i >= bound at every equilibrium; None where that need not be so."""
    worth = exact.rows[i].get(i, ZERO)
    if name == "floor":
        return ONE, ZERO, exact.floor(i) if exact.floor(i).is_finite() else -LARGEST_FLOAT.ln() / exact.parameters[i]
    if name == "wants" and i in now.below and (at := Decimal(where)) > exact.floor(i):
        slope = exact.slope(i, at)
        bend = worth * exact.bend(i, at, slope)
        return ONE, TWO * exact.quadratic[i] / bend, at + (worth * slope - exact.linear[i]) / bend
    if name not in {"enough", "chord"} or i not in now.positive:
        return None
    ends = [Decimal(reach) for reach in (where if name == "chord" else [where])]
    amounts = [now.low[i], now.high[i]][: len(ends)]
    for reach, amount in zip(ends, amounts, strict=True):
        if amount == INFINITE or reach <= exact.floor(i):
            return None
        if worth * exact.slope(i, reach) > exact.marginal_cost(i, amount) * LAST_DIGITS:
            return None
    if name == "enough":
        return -ONE, ZERO, -ends[0]
    falls = (ends[1] - ends[0]) / (amounts[1] - amounts[0])
    return -ONE, falls, falls * amounts[0] - ends[0]

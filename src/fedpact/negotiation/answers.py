"""Checking answers: one is used only if it is complete, finite, in range and consistent with what was said before.

`BadAnswer` says what is wrong with one, in words that go into the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.arrays import FloatArray

__all__ = ["BadAnswer", "Introduction", "Left", "Said", "Standing", "checked_answer"]

# Of the payoffs and costs involved: contradictions smaller than this are rounding.
CONSISTENT = 1e-7
PROPORTIONAL = 1e-6


class BadAnswer(Exception):
    """What is wrong with an answer."""


class Left(BadAnswer):
    """The agent says that it leaves."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Introduction:
    """The cap, and whose data matters to the agent."""

    cap: float
    uses: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Said:
    """What an agent said of one profile; `outside` if it lies beyond the domain of its payoff."""

    at: FloatArray
    outside: bool = False
    payoff: float = -np.inf
    prices: FloatArray | None = None
    curvature: float = 0.0
    cost: float = 0.0
    marginal_cost: float = 0.0
    cost_curvature: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """A proposal near the table, and payoff and cost at the table; the payoff is minus infinity outside the domain."""

    proposal: FloatArray
    payoff: float
    cost: float


def checked_answer(raw: Any, question: dict[str, Any], *, size: int) -> dict[str, Any]:
    """The answer as a dictionary that answers this question; raises `BadAnswer`."""
    if not isinstance(raw, dict):
        raise BadAnswer("no answer in time" if raw is None else f"not an answer but {type(raw).__name__}")
    if raw.get("leave"):
        raise Left("it leaves")
    if raw.get("number") != question["number"]:
        raise BadAnswer(f"answers question {raw.get('number')!r} instead of {question['number']}")
    return raw


def introduction(raw: dict[str, Any], index: int, size: int) -> Introduction:
    """Checked: a cap of at least zero, and known agents, itself among them."""
    cap = np.inf if raw.get("cap") == "inf" else _number(raw, "cap", low=0.0, finite=False)
    uses = raw.get("uses")
    known = isinstance(uses, list) and all(
        isinstance(j, int) and not isinstance(j, bool) and 0 <= j < size for j in uses
    )
    if not known or len(set(uses or [])) != len(uses or []):
        raise BadAnswer("uses must list agents by number, each once")
    if index not in uses:
        raise BadAnswer("an agent's own data matters to it")
    return Introduction(cap=cap, uses=np.isin(np.arange(size), uses))


def said(raw: dict[str, Any], at: FloatArray, uses: np.ndarray, before: Said | None) -> Said:
    """Checked: finite numbers of the right sign, about the data that matters, and consistent with a concave payoff."""
    if raw.get("outside") is True:
        return Said(at=at, outside=True)
    answer = Said(
        at=at,
        payoff=_number(raw, "payoff"),
        prices=_numbers(raw, "prices", at.size),
        curvature=_number(raw, "curvature", low=0.0),
        cost=_number(raw, "cost", low=0.0),
        marginal_cost=_number(raw, "marginal_cost", low=0.0),
        cost_curvature=_number(raw, "cost_curvature", low=0.0),
    )
    assert answer.prices is not None
    if (answer.prices[~uses] != 0).any():
        raise BadAnswer("names a price for data that does not matter to it")
    if before is not None and not before.outside:
        _check_consistent(before, answer)
    return answer


def standing(raw: dict[str, Any], size: int) -> Standing:
    """Checked: a finite proposal and finite numbers."""
    outside = "payoff" in raw and raw["payoff"] is None
    return Standing(
        proposal=_numbers(raw, "proposal", size),
        payoff=-np.inf if outside else _number(raw, "payoff"),
        cost=_number(raw, "cost", low=0.0),
    )


def final_message(raw: dict[str, Any], caps: FloatArray, uses: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Checked: proposals within the caps and prices of at least zero."""
    proposals, prices = _numbers(raw, "proposals", caps.size), _numbers(raw, "prices", caps.size)
    if (proposals[uses] < 0).any() or (proposals[uses] > caps[uses]).any():
        raise BadAnswer("proposals must lie between zero and the caps")
    if (prices[uses] < 0).any():
        raise BadAnswer("prices must be at least zero")
    return proposals, prices


def _check_consistent(before: Said, now: Said) -> None:
    """Both tangents lie above a concave payoff, and the prices keep their direction."""
    assert before.prices is not None and now.prices is not None
    step = now.at - before.at
    size = CONSISTENT * (abs(before.payoff) + abs(now.payoff) + abs(before.prices @ step) + abs(now.prices @ step))
    if (
        now.payoff > before.payoff + before.prices @ step + size
        or before.payoff > now.payoff - now.prices @ step + size
    ):
        raise BadAnswer(
            f"contradicts its earlier answer: no concave payoff goes from {before.payoff:g} to {now.payoff:g} "
            f"at these prices"
        )
    across = now.prices * np.abs(before.prices).sum() - before.prices * np.abs(now.prices).sum()
    if np.abs(across).max() > PROPORTIONAL * np.abs(before.prices).sum() * np.abs(now.prices).sum():
        raise BadAnswer("contradicts its earlier answer: the data of others is worth other proportions to it now")


def _number(raw: dict[str, Any], key: str, *, low: float = -np.inf, finite: bool = True) -> float:
    given = raw.get(key)
    if isinstance(given, bool) or not isinstance(given, int | float) or np.isnan(given) or (finite and np.isinf(given)):
        raise BadAnswer(f"{key} must be a number, got {given!r:.40}")
    if given < low:
        raise BadAnswer(f"{key} must be at least {low:g}, got {given:g}")
    return float(given)


def _numbers(raw: dict[str, Any], key: str, size: int) -> FloatArray:
    given = raw.get(key)
    if not isinstance(given, list) or len(given) != size:
        length = len(given) if isinstance(given, list) else "none"
        raise BadAnswer(f"{key} must list {size} numbers, got {length}")
    for place, entry in enumerate(given):
        if isinstance(entry, bool) or not isinstance(entry, int | float) or not np.isfinite(entry):
            raise BadAnswer(f"{key}[{place}] must be a finite number, got {entry!r:.40}")
    return np.array(given, dtype=np.float64)

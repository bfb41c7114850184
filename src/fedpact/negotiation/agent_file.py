"""What stands in a member's private file, checked: its row, payoff, cost and cap. The file is written by people too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpact.federation import Linear, Payoff, Quadratic
from fedpact.federation.payoffs import FAMILIES
from fedpact.negotiation.agent import Agent
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr

MAX_NAME = 200
MAX_NUMBER = 1e300
REQUIRED = ("name", "index", "weights", "payoff", "value", "linear", "quadratic", "cap")


def agent_from_record(record: Mapping[str, Any]) -> Agent:
    """The agent that a private file describes; raises `InvalidInput` with the entry and the rule."""
    missing = [key for key in REQUIRED if key not in record]
    if missing:
        raise InvalidInput(f"this is no agent's file: {', '.join(missing)} missing; `fedpact fit --member` writes one")
    weights = _row(record["weights"])
    linear, quadratic = (_number(record, key, low=0.0) for key in ("linear", "quadratic"))
    cap = np.inf if record["cap"] in ("inf", np.inf) else _number(record, "cap", low=0.0)
    if linear == 0.0 and quadratic == 0.0:
        raise InvalidInput("linear must be positive, got 0: contributing costs a member something")
    return Agent(
        name=_name(record["name"]),
        index=_place(record["index"], weights),
        weights=weights,
        payoff=_payoff(record["payoff"]),
        value=_number(record, "value", low=np.finfo(float).tiny),
        cost=Quadratic(np.array([linear]), np.array([quadratic])) if quadratic else Linear(np.array([linear])),
        cap=cap,
        least_gain=_least_gain(record.get("least_gain", 0.0)),
    )


def _least_gain(given: Any) -> float | None:
    if given is not None and not _is_number(given):
        raise InvalidInput(
            f"least_gain must be a finite number, or null to take any deal, got {short_repr(given)}: what the member "
            f"asks of a deal beyond training alone"
        )
    return None if given is None else float(given)


def _name(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_NAME:
        raise InvalidInput(f"name must be a text of 1 to {MAX_NAME} characters, got {short_repr(given)}")
    return given


def _row(given: Any) -> FloatArray:
    if not isinstance(given, list) or not given or not all(map(_is_number, given)):
        raise InvalidInput(f"weights must be a list of finite numbers, one per member, got {short_repr(given)}")
    return np.array(given, dtype=np.float64)


def _place(given: Any, weights: FloatArray) -> int:
    if type(given) is not int or not 0 <= given < weights.size:
        raise InvalidInput(f"index must be a place from 0 to {weights.size - 1}, got {short_repr(given)}")
    if not weights[given] > 0.0:
        raise InvalidInput(f"weights[{given}] must be positive, got {weights[given]:g}: its own data is useful to it")
    return given


def _payoff(given: Any) -> Payoff:
    family = given.get("family") if isinstance(given, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise InvalidInput(f"payoff.family must be one of {', '.join(FAMILIES)}, got {short_repr(family)}")
    parameters = {name: number for name, number in given.items() if name != "family"}
    for name in parameters:
        _number(given, name, low=0.0)
    try:
        return FAMILIES[family](**{name: np.array([number], dtype=np.float64) for name, number in parameters.items()})
    except TypeError as error:
        raise InvalidInput(f"payoff must have the parameters of {family}, got {short_repr(parameters)}") from error


def _number(record: Mapping[str, Any], key: str, *, low: float) -> float:
    given = record[key]
    if not _is_number(given) or given < low:
        rule = "at least 0" if low == 0.0 else "positive"
        raise InvalidInput(f"{key} must be a finite number, {rule}, got {short_repr(given)}")
    return float(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= MAX_NUMBER

"""Deals as plain data: written from a negotiation, read from a deal file or a transcript."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedpact.negotiation.deal import Deal
from fedpact.negotiation.transcript import read_transcript
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import DECODERS, error_context, read_text, short_repr
from fedpact.utils.jsonl import jsonable

TRANSCRIPT = ".jsonl"


def deal_record(deal: Deal) -> dict[str, Any]:
    """A negotiated deal as plain data; its contributions and payments are those of the Externality mechanism."""
    plain: dict[str, Any] = jsonable(
        {
            "mechanism": "externality",
            "agents": deal.agents,
            "contributions": deal.contributions,
            "payments": deal.payments,
            "prices": deal.prices,
            "protocol": deal.protocol,
            "settled_by": "personal prices" if deal.messages is None else "message game",
            "rounds": deal.rounds,
            "welfare": deal.welfare,
            "residual": deal.residual,
            "excluded": deal.excluded,
        }
    )
    return plain


def read_deal(path: Path, names: Sequence[str]) -> tuple[str, list[float], list[float]]:
    """The mechanism, contributions and payments of a deal file or a transcript, in the order of `names`."""
    with error_context(str(path)):
        record = _deal_of(path)
        for key in ("mechanism", "agents", "contributions", "payments"):
            if key not in record:
                raise InvalidInput(f"a deal must have the key {key!r}; `fedpact solve --json` writes it")
        agents = record["agents"] if isinstance(record["agents"], list) else []
        if not all(isinstance(agent, str) for agent in agents) or sorted(agents) != sorted(names):
            given = short_repr(record["agents"])
            raise InvalidInput(f"agents must be those of the scenario ({', '.join(names)}), got {given}")
        order = [agents.index(name) for name in names]
        contributions, payments = stated_numbers(record, len(names))
    return str(record["mechanism"]), [contributions[place] for place in order], [payments[place] for place in order]


def stated_numbers(record: Mapping[str, Any], count: int) -> tuple[list[float], list[float]]:
    """The contributions and payments a deal states, checked."""
    contributions, payments = (_numbers(key, record.get(key), count) for key in ("contributions", "payments"))
    return contributions, payments


def _deal_of(path: Path) -> Mapping[str, Any]:
    if path.suffix.lower() == TRANSCRIPT:
        deal = read_transcript(path).deal
        if deal is None:
            raise InvalidInput("the negotiation is not over; `fedpact negotiate` with this transcript goes on")
        return deal
    record = DECODERS[".json"](read_text(path))
    if not isinstance(record, dict):
        raise InvalidInput(f"a deal must be one JSON object, got {short_repr(record)}")
    return record


def _numbers(key: str, given: Any, count: int) -> list[float]:
    if not isinstance(given, list) or len(given) != count:
        raise InvalidInput(f"{key} must be a list of {count} numbers, got {short_repr(given)}")
    for index, entry in enumerate(given):
        if isinstance(entry, bool) or not isinstance(entry, (int, float)) or not abs(entry) <= sys.float_info.max:
            raise InvalidInput(f"{key}[{index}] must be a finite number, got {short_repr(entry)}")
    return [float(entry) for entry in given]

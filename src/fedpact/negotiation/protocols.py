"""The protocols by which a deal is negotiated: one table, which coordinator, members, commands and apps read.

A protocol has two halves, the coordinator's (`negotiate`) and the members' (`answers`). Whoever adds one writes both
and an entry here; kinds of question are of one protocol each, but for those that all have (`Agent.answer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedpact.negotiation.price_discovery import discover_prices
from fedpact.negotiation.price_terms import answer_prices, answer_shares
from fedpact.negotiation.session import ProtocolResult
from fedpact.negotiation.sum_terms import answer_key, answer_payment, answer_sums
from fedpact.negotiation.sums import negotiate_sums, require_sums
from fedpact.utils.errors import InvalidInput, Refusal


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way to negotiate.

    Attributes
    ----------
    reveals
        What the coordinator learns, in words.
    negotiate
        What a session comes to, given `mechanism`, `tol` and `max_rounds`.
    answers
        How a member answers each kind of question, given itself and the question.
    tolerances
        By mechanism that it can negotiate: the gain still promised, of what is at stake, at which it stops by itself.
    max_rounds
        After which it gives up.
    hides_answers
        Whether the coordinator learns no member's numbers: members introduce themselves without saying whose data
        matters to them, and a node keeps to one profile and payment in a run.
    require
        Raises an error where it cannot be between so many members.
    """

    reveals: str
    negotiate: Callable[..., ProtocolResult]
    answers: Mapping[str, Callable[..., dict[str, Any]]]
    tolerances: Mapping[str, float]
    max_rounds: int
    hides_answers: bool = False
    require: Callable[[int], None] = lambda size: None


PROTOCOLS: Mapping[str, Protocol] = {
    "price-discovery": Protocol(
        reveals="few rounds; the coordinator can work out everybody's numbers",
        negotiate=discover_prices,
        answers={"prices": answer_prices, "shares": answer_shares},
        tolerances={"externality": 1e-18, "shapley": 1e-17},
        max_rounds=60,
    ),
    "sums": Protocol(
        reveals="more rounds; it learns what everybody's answers add up to",
        negotiate=negotiate_sums,
        answers={"key": answer_key, "sums": answer_sums, "payment": answer_payment},
        tolerances={"externality": 1e-14, "shapley": 1e-12},
        max_rounds=300,
        hides_answers=True,
        require=require_sums,
    ),
}
NEGOTIABLE = tuple(dict.fromkeys(mechanism for each in PROTOCOLS.values() for mechanism in each.tolerances))


def find_protocol(name: Any) -> Protocol:
    """The protocol of a name; an unknown one is refused."""
    found = PROTOCOLS.get(name) if isinstance(name, str) else None
    if found is None:
        raise Refusal(field="protocol", rule=f"must be one of {', '.join(PROTOCOLS)}", value=name)
    return found


def check_negotiable(mechanism: str, protocol: str) -> Protocol:
    """The protocol; raises `InvalidInput` unless the mechanism can be negotiated by it."""
    found = find_protocol(protocol)
    if mechanism not in found.tolerances:
        known = " or ".join(found.tolerances)
        raise InvalidInput(
            f"protocol {protocol} negotiates mechanism {known}, and not {mechanism!r:.40}", field="mechanism"
        )
    return found

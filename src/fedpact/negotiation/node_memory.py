"""What a member's node remembers of a negotiation, so that no later question makes its earlier answers tell more.

Sums hide a member's numbers from a coordinator that keeps to the protocol. One that does not could ask the same node
for plain prices, for the same sum with and without somebody, or for its payment at a profile of its own choice. So a
node that knows the others' signing keys answers, in one run,

* by one protocol: the one its owner names, or that of the first question;
* about one mechanism: payments under both would tell a payoff beside what is paid at the margin;
* sums over one set of members: whoever drops out ends the negotiation, and the others begin another run without it;
* one profile as the one agreed, what it is paid there, and whether it accepts that, for one payment: asked about
  others, it would tell its utility digit by digit.

The same question asked again is answered again. A node without keys of others believes whatever it is told, and hides
nothing from a coordinator that lies; it keeps to one protocol and one mechanism only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpact.negotiation.sum_terms import PROGRAMS, SETTLEMENTS
from fedpact.utils.errors import Refusal

PLAIN, SUMS = "price-discovery", "sums"
SPOKEN_IN = {
    "prices": PLAIN,
    "shares": PLAIN,
    "messages": PLAIN,
    "key": SUMS,
    "sums": SUMS,
    "payment": SUMS,
    "open": SUMS,
}


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """The protocol, the mechanism, who sums, the profile that was agreed and the payment that was put to it.

    Empty where nothing is known yet.
    """

    protocol: str = ""
    mechanism: str = ""
    members: tuple[int, ...] = ()
    agreed: tuple[float, ...] = ()
    payment: tuple[float, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> NodeMemory:
        """From plain data."""
        parts: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in record.items()}
        return cls(**parts)

    def after(self, question: Mapping[str, Any], *, knows_keys: bool) -> NodeMemory:
        """What is remembered once a question is answered; raises `Refusal` if it must not be."""
        kind = str(question.get("kind"))
        spoken = SPOKEN_IN.get(kind, "")
        if kind == "introduce":
            spoken = SUMS if question.get("brief") is True else PLAIN
        if spoken and self.protocol and spoken != self.protocol:
            raise Refusal(f"this negotiation is by {self.protocol}: it does not answer {kind!r}, of {spoken}")
        members, agreed, mechanism = self.members, self.agreed, self.mechanism
        if kind in ("sums", "payment"):
            mechanism = next(
                (name for name in PROGRAMS if question["about"] in (PROGRAMS[name], SETTLEMENTS[name])), ""
            )
            if self.mechanism not in ("", mechanism):
                raise Refusal(
                    f"this negotiation is of {self.mechanism}: it says nothing about {question['about']!r:.40}"
                )
        if kind == "sums" and knows_keys:
            asked = tuple(sorted(int(place) for place in question["members"]))
            if members and asked != members:
                raise Refusal(
                    "sums over other members than before would tell the numbers of those who are gone: begin another "
                    "run without them"
                )
            members = asked
        if knows_keys and (kind == "payment" or (kind == "sums" and question["about"] in SETTLEMENTS.values())):
            profile = question["contributions"] if kind == "payment" else question["points"][0]
            profile = tuple(float(amount) for amount in profile)
            if (agreed and profile != agreed) or (kind == "sums" and len(question["points"]) != 1):
                raise Refusal("one profile is agreed in a run, and this is another one: it says no more of itself")
            if kind == "payment" and not agreed:
                raise Refusal("no profile is agreed yet: it works out no payment")
            agreed = profile
        payment = self.payment
        if kind == "accept" and knows_keys and self.protocol == SUMS:
            payment = (float(question["payment"]),)
            if tuple(question["contributions"]) != agreed or self.payment not in ((), payment):
                raise Refusal("it accepts or refuses the profile agreed in a run, at one payment, and nothing else")
        return NodeMemory(
            protocol=self.protocol or spoken, mechanism=mechanism, members=members, agreed=agreed, payment=payment
        )

"""What a member's node remembers of a run, so that no later question makes its earlier answers tell more.

Sums hide a member's numbers from a coordinator that keeps to the protocol. One that does not could ask the same node
for plain prices, for the same sum with and without somebody, or for its payment at a profile of its own choice. So a
node that knows the others' signing keys answers, in one run,

* by one protocol: the one its owner names, or that of the first question;
* about one mechanism: payments under both would tell a payoff beside what is paid at the margin; and it signs no deal
  of another one;
* sums over one set of members: whoever drops out ends the negotiation, and the others begin another run without it;
* one profile as the one agreed, what it is paid there, and whether it accepts that, for one payment: asked about
  others, it would tell its utility digit by digit.

The same question asked again is answered again. A node without keys of others believes whatever it is told, and hides
nothing from a coordinator that lies; it keeps to one protocol and one mechanism only. Every node decides on one deal in
a run, in all that it is asked to sign of it, whether it signs that or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from fedpact.deals import Deal
from fedpact.negotiation.protocols import PROTOCOLS, find_protocol
from fedpact.negotiation.sum_terms import PROGRAMS, SETTLEMENTS
from fedpact.utils.errors import Refusal


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """What is pinned so far, each part empty until it is: of the negotiation, and of the deal decided on."""

    protocol: str = ""
    mechanism: str = ""
    members: tuple[int, ...] = ()
    agreed: tuple[float, ...] = ()
    payment: tuple[float, ...] = ()
    deal: str = ""
    signers: tuple[int, ...] = ()

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From plain data."""
        parts: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in record.items()}
        return cls(**parts)

    def _pin(self, otherwise: str, **parts: Any) -> Self:
        """With these parts; `Refusal` if one of them is another already."""
        if any(getattr(self, key) not in (type(part)(), part) for key, part in parts.items()):
            raise Refusal(otherwise)
        return replace(self, **parts)

    def after(self, question: Mapping[str, Any], *, knows_keys: bool) -> Self:
        """What is remembered once a question is answered; raises `Refusal` if it must not be, or is none."""
        try:
            return self._after(question, knows_keys=knows_keys)
        except Refusal:
            raise
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise Refusal(f"the question does not hold what it must: {error!r:.80}") from None

    def _after(self, question: Mapping[str, Any], *, knows_keys: bool) -> Self:
        kind, about, found = str(question.get("kind")), question.get("about"), self
        spoken = question.get("protocol") if kind == "introduce" else _protocol_of(kind)
        if spoken is not None:
            find_protocol(spoken)
            refusal = f"this negotiation is by {self.protocol}: it does not answer {kind!r}, of {spoken}"
            found = self._pin(refusal, protocol=spoken)
        if kind == "introduce" and question.get("mechanism") is not None:
            named = str(question["mechanism"])
            found = found._pin(f"this negotiation is of {self.mechanism}, and not of {named!r:.40}", mechanism=named)
        if not found.protocol or not PROTOCOLS[found.protocol].hides_answers:
            return found
        mechanism = next((name for name in PROGRAMS if about in (PROGRAMS[name], SETTLEMENTS[name])), "")
        if kind in ("sums", "payment"):
            refusal = f"this negotiation is of {self.mechanism}: it says nothing about {about!r:.40}"
            found = found._pin(refusal, mechanism=mechanism)
        if not knows_keys:
            return found
        if kind == "sums":
            refusal = (
                "sums over other members than before would tell the numbers of those who are gone: begin another run "
                "without them"
            )
            found = found._pin(refusal, members=tuple(sorted(map(int, question["members"]))))
        if kind == "payment" and not self.agreed:
            raise Refusal("no profile is agreed yet: it works out no payment")
        if kind == "payment" or (kind == "sums" and about in SETTLEMENTS.values()):
            profiles = [question["contributions"]] if kind == "payment" else question["points"]
            refusal = "one profile is agreed in a run, and this is another one: it says no more of itself"
            for profile in profiles:
                found = found._pin(refusal, agreed=tuple(map(float, profile)))
            if len(profiles) != 1:
                raise Refusal(refusal)
        if kind == "accept":
            refusal = "it accepts or refuses the profile agreed in a run, at one payment, and nothing else"
            if tuple(question["contributions"]) != self.agreed:
                raise Refusal(refusal)
            found = found._pin(refusal, payment=(float(question["payment"]),))
        return found

    def after_deal(self, deal: Deal, digest: str, *, index: int) -> Self:
        """What is remembered once the node at an index decides on a deal; raises `Refusal` if it must not decide on it.

        `digest` is that of all that is put to the node to sign. Every decision compares its utility with numbers of the
        coordinator's choice, so it decides on one deal, which is the one agreed if it has answered sums. Members that
        are lost take their data with them, and those who are left may deal anew: then the members are fewer every time.
        """
        if digest == self.deal:
            return self
        refusal = "it decides on the one deal that is agreed in a run, and this is another one"
        members, profile = tuple(map(int, deal.members)), tuple(map(float, deal.contributions))
        payment = (float(deal.payments[index]),)
        named = f"mechanism: it has negotiated {self.mechanism}, and this deal is by {deal.mechanism:.40}"
        self._pin(named, mechanism=deal.mechanism)
        self._pin(refusal, members=members, agreed=profile, payment=payment)
        if self.deal and not set(members) < set(self.signers):
            raise Refusal(refusal)
        return replace(self, deal=digest, signers=members, payment=payment if self.agreed else ())


def _protocol_of(kind: str) -> str | None:
    """The protocol that a kind of question is of; None for those that all have."""
    return next((name for name, protocol in PROTOCOLS.items() if kind in protocol.answers), None)

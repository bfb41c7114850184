"""A deal from a file, held against a federation: is it a deal of this one, and does it keep what it promises?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.certificates.claims import quote_claim
from fedpact.deals import Deal, Outcome, is_ledger, load_deal
from fedpact.deals.deal import Source
from fedpact.deals.deal_file import is_comparison, read_record
from fedpact.deals.stated import CHECKED, OF_NEGOTIATION, contradictions
from fedpact.deals.transcript import is_transcript
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, Mechanism, mechanism_named
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.negotiation.audit import STATED, Audit, TranscriptAudit, audit
from fedpact.negotiation.payment_check import PaymentCheck, check_payments
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import differing_texts, join_names

PAYMENTS = "payments"  # how their check is called among the claims
TERMS = ("prices", "side_payments")
LEFT_OUT = "members"  # how it is called whether the deal is between all members of the scenario, or says why not
UNEXPLAINED = "in the scenario and not in the deal, which does not say why"


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedDeal:
    """A deal held to what it promises.

    Attributes
    ----------
    deal, rules, outcome
        The deal as it stands in the file, its mechanism, and the deal with the federation of those who are in it.
    claims
        What its certificates are held to.
    out
        The members of the scenario that are not in it, and why; an empty text where the deal does not say it.
    audit
        What the record it comes from proves, if it comes from one.
    money
        What payoff is worth, where the scenario says it.
    contradictions
        What its file states otherwise than it follows from contributions and payments, in words.
    unchecked
        What its file states of how it was negotiated, which only a transcript shows.
    """

    deal: Deal
    rules: Mechanism
    outcome: Outcome
    claims: Sequence[Claim]
    out: Mapping[str, str] = field(default_factory=dict)
    audit: Audit | None = None
    money: Money | None = None
    contradictions: Sequence[str] = ()
    unchecked: Sequence[str] = ()

    @cached_property
    def payment_check(self) -> PaymentCheck:
        """How much of its money can be in the wrong pocket."""
        return check_payments(self.rules, self.outcome, per_payoff=self.money.per_payoff if self.money else None)

    @property
    def holds_payments(self) -> bool:
        """Whether its payments are held to be those of an equilibrium: wherever it is held to be one."""
        return Claim.NASH in self.claims

    def amount(self, payoff: float) -> str:
        """An amount in money where there is money, in units of payoff otherwise."""
        if self.money is None:
            return f"{payoff:.3g} of payoff"
        return f"{self.money.currency} {payoff * self.money.per_payoff:,.2f}"

    @property
    def payment_text(self) -> str:
        """How far the payments can be from those of the exact equilibrium, and what says so."""
        payments = self.payment_check
        if not payments.is_known:
            text = "Whether the payments are right cannot be said"
        elif payments.exceeds:
            text = f"Up to {self.amount(payments.error)} is in the wrong pocket"
            text += f": the payment of {payments.agent} is furthest off"
        else:
            text = f"Payments agree to {self.amount(max(payments.error, payments.tol if self.money else 0.0))}"
        return f"{text} ({payments.method})."

    @cached_property
    def failures(self) -> dict[str, str]:
        """What does not hold, by claim, in words."""
        certificates = [self.outcome.certificates[claim] for claim in self.claims]
        violated = [proof for proof in certificates if proof.verdict is Verdict.VIOLATED]
        found = {proof.claim.value: f"violated {violation_text(proof)}" for proof in violated}
        for proof in certificates:
            if np.isnan(proof.margin) and proof.verdict is Verdict.NOT_REFUTED:
                found[proof.claim.value] = "it could not be worked out"
        unexplained = [name for name, reason in self.out.items() if not reason]
        if unexplained:
            found[LEFT_OUT] = f"{join_names(unexplained)} {'is' if len(unexplained) == 1 else 'are'} {UNEXPLAINED}"
        payments = self.payment_check if self.holds_payments else None
        if payments is not None and not payments.is_known:
            found[PAYMENTS] = f"whether they are right cannot be said ({payments.method})"
        elif payments is not None and payments.exceeds:
            found[PAYMENTS] = f"up to {self.amount(payments.error)} is in the wrong pocket"
        if self.deal.price_contradiction:
            found["prices"] = self.deal.price_contradiction
        if self.audit is not None:
            found |= {claim: self.audit.findings[claim].reason for claim in self.audit.failed}
        if self.contradictions:
            found.setdefault(STATED, self.contradictions[0])
        return found

    @property
    def is_proved(self) -> bool:
        """Whether every claim it is held to is proved, rather than only not refuted."""
        return not self.failures and all(self.outcome.certificates[claim].holds for claim in self.claims)

    @property
    def difference(self) -> str:
        """What is wrong first of all: the record it comes from, a payment, or a claim."""
        if self.audit is not None and self.audit.failed:
            claim = self.audit.failed[0]
            return f"{quote_claim(claim)}: {self.failures[claim]}"
        if LEFT_OUT in self.failures:
            return f"{LEFT_OUT}: {self.failures[LEFT_OUT]}"
        with suppress(*SOLVER_ERRORS):  # where the rules come to no deal
            due = self.rules.outcome_at(self.outcome.federation, self.outcome.contributions)
            for name in self.outcome.deal.differences(due.deal):
                agent = self.outcome.agents.index(name)
                paid, rule = differing_texts(self.outcome.payments[agent], due.payments[agent])
                if paid != rule:
                    return f'member "{name}" is paid {paid}, by the rules of {self.rules.name} {rule} (units of payoff)'
        return next((f"{quote_claim(claim)}: {reason}" for claim, reason in self.failures.items()), "")


def check_deal(
    path: Path,
    federation: Federation,
    *,
    rules: Mechanism | None = None,
    claims: Sequence[Claim] | None = None,
    money: Money | None = None,
    found: Audit | None = None,
) -> CheckedDeal:
    """The deal of a file, held to claims: by default to those of its mechanism, by whose rules it is judged.

    `found` is what the check of the ledger or transcript found, where it was checked already.
    """
    if is_ledger(path) or is_transcript(path):
        found = audit(path) if found is None else found
        deal = found.recomputed if isinstance(found, TranscriptAudit) else found.deal
        if deal is None:
            broken = [found.findings[claim].reason for claim in found.failed]
            why = f"the ledger was changed: {broken[0]}" if broken else "there is no deal in this ledger yet"
            raise InvalidInput(f"{path}: {why}; `fedpact check {path}` shows what it holds")
    else:
        which = rules.name if rules is not None and is_comparison(path) else None
        found, deal = None, load_deal(path, mechanism=which)
    with error_context(str(path)):
        chosen = mechanism_named(deal.mechanism) if rules is None else rules
        outcome = chosen.outcome_of(deal, federation)
        named = chosen if chosen.name == deal.mechanism else MECHANISMS.get(deal.mechanism)
        record = read_record(path, mechanism=which) if found is None else {}
        stated: Sequence[str] = ()
        if np.isfinite(deal.provenance.welfare):  # by what members said, who do not count what joining costs them
            net = deal.provenance.welfare - float(outcome.joining_costs.sum())
            stated = contradictions({"agents": outcome.agents, "welfare": net}, outcome)
            record = {key: entry for key, entry in record.items() if key != "welfare"}
        if named is not None:
            stated = [*stated, *_contradictions(record, deal, outcome, named, federation)]
    return CheckedDeal(
        deal=deal,
        rules=chosen,
        outcome=outcome,
        claims=chosen.promises(outcome.federation) if claims is None else claims,
        out={name: _reason(deal, name) for name in federation.names if name not in outcome.agents},
        audit=found,
        money=money,
        contradictions=stated,
        unchecked=[key for key in OF_NEGOTIATION if key in record and key not in CHECKED],
    )


def _reason(deal: Deal, name: str) -> str:
    """Why somebody is out, if the deal says it in words: a text without a letter or digit says nothing."""
    given = deal.excluded.get(name, "").strip()
    return given if any(map(str.isalnum, given)) else ""


def check_solved(
    rules: Mechanism, federation: Federation, *, claims: Sequence[Claim] | None = None, money: Money | None = None
) -> CheckedDeal:
    """The deal a mechanism makes of a federation, held to claims: by default to its own."""
    outcome = rules.solve(federation)
    held_to = rules.promises(federation) if claims is None else claims
    return CheckedDeal(deal=outcome.deal, rules=rules, outcome=outcome, claims=held_to, money=money)


def _contradictions(
    record: dict[str, Any], deal: Deal, outcome: Outcome, rules: Mechanism, federation: Federation
) -> Sequence[str]:
    """What a deal, and its file, states otherwise than it follows by the rules it names.

    Prices and side payments are those of the deal, brought into the scenario's order: whoever delivers less is paid by
    them.
    """
    due = rules.outcome_at(outcome.federation, outcome.contributions, outcome.payments)
    if deal.provenance.source is Source.SOLVED:
        with suppress(*SOLVER_ERRORS):  # where it is no equilibrium the certificates say so
            rules.equilibria(outcome.federation, outcome.contributions)
            due = replace(due, is_solved=True)
    terms, _ = deal.belonging_to(federation)
    stated = {"agents": terms.agents, "prices": terms.prices, "side_payments": terms.side_payments}
    stated = {key: entry for key, entry in jsonable(stated).items() if entry is not None}
    beside = {key: entry for key, entry in record.items() if key not in TERMS}
    if rules.name not in MECHANISMS:  # how many equilibria there are, and what is paid beside, is for its rules to say
        for key in ("equilibria", "worst_reciprocity", "side_payments"):
            beside.pop(key, None)
            stated.pop(key, None)
    return [*contradictions(stated, due), *(contradictions(beside, due) if beside else [])]


def violation_text(certificate: Certificate) -> str:
    """By how much a claim is violated, and what shows it."""
    named = {key: join_names(part) if key == "group" else part for key, part in certificate.witness.items()}
    words = {key: "member" if key == "agent" else key.replace("_", " ") for key in named}
    simple = [(words[key], part) for key, part in named.items() if isinstance(part, str | float | int)]
    shown = ", ".join(f"{name} {part:.6g}" if isinstance(part, float) else f"{name} {part}" for name, part in simple)
    return f"by {-certificate.margin:.3g}: {shown}"

"""The deal a command is given, read for its scenario and held to what it promises."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from fedpact.certificates import Certificate, Claim, Verdict
from fedpact.cli.common import MECHANISM_NAMES, choose_mechanism
from fedpact.deals import Deal, Outcome, is_ledger, load_deal
from fedpact.deals.deal import TRAINS_ALONE, Source
from fedpact.deals.deal_file import is_comparison, read_record
from fedpact.deals.stated import contradictions
from fedpact.deals.transcript import is_transcript
from fedpact.federation import Federation
from fedpact.mechanisms import MECHANISMS, Mechanism, mechanism_named
from fedpact.mechanisms.base import SOLVER_ERRORS
from fedpact.mechanisms.payment_check import PaymentCheck, check_payments
from fedpact.negotiation.audit import Audit, TranscriptAudit, audit
from fedpact.scenario import Money
from fedpact.utils.errors import InvalidInput, error_context

DEFAULT_MECHANISM = "externality"
# How the check of the payments, and of all else that a file states, are called among the claims.
PAYMENTS, STATED = "payments", "stated"

DealArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A deal: a file of `fedpact solve --json`, of `fedpact negotiate` or of the explorer, or a ledger; solved "
        "anew if not given."
    ),
]
DealMechanism = Annotated[
    str | None,
    typer.Option(
        "--mechanism",
        "-m",
        help=f"One of {MECHANISM_NAMES}; {DEFAULT_MECHANISM} if not given. Of a file with several deals, which one.",
        metavar="NAME",
        show_default=False,
    ),
]
Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Take the deal as it stands in the file, whether or not its numbers hold.")
]


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedDeal:
    """A deal held to what it promises.

    Attributes
    ----------
    deal, rules, outcome
        The deal as it stands in the file, its mechanism, and the deal with the federation of those who are in it.
    claims
        What its certificates are held to.
    audit
        What the record it comes from proves, if it comes from one.
    money
        What payoff is worth, where the scenario says it.
    contradictions
        What its file states otherwise than it follows from contributions and payments, in words.
    """

    deal: Deal
    rules: Mechanism
    outcome: Outcome
    claims: Sequence[Claim]
    audit: Audit | None = None
    money: Money | None = None
    contradictions: Sequence[str] = ()

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

    @cached_property
    def failures(self) -> dict[str, str]:
        """What does not hold, by claim, in words."""
        certificates = [self.outcome.certificates[claim] for claim in self.claims]
        violated = [proof for proof in certificates if proof.verdict is Verdict.VIOLATED]
        found = {proof.claim.value: f"violated {violation_text(proof)}" for proof in violated}
        if self.holds_payments and self.payment_check.exceeds:
            found[PAYMENTS] = f"up to {self.amount(self.payment_check.error)} is in the wrong pocket"
        if self.deal.price_contradiction:
            found["prices"] = self.deal.price_contradiction
        if self.audit is not None:
            found |= {claim: self.audit.findings[claim].reason for claim in self.audit.failed}
        if self.contradictions:
            found[STATED] = self.contradictions[0]
        return found

    @property
    def difference(self) -> str:
        """What is wrong first of all: the record it comes from, a payment, or a claim."""
        if self.audit is not None and self.audit.failed:
            claim = self.audit.failed[0]
            return f"{claim}: {self.failures[claim]}"
        due = self.rules.outcome_at(self.outcome.federation, self.outcome.contributions)
        for name in self.outcome.deal.differences(due.deal):
            agent = self.outcome.agents.index(name)
            paid, rule = self.outcome.payments[agent], due.payments[agent]
            return f'agent "{name}" is paid {paid:.6g}, by the rules of {self.rules.name} {rule:.6g}'
        return next((f"{claim}: {reason}" for claim, reason in self.failures.items()), "")


def check_deal(
    path: Path,
    federation: Federation,
    *,
    rules: Mechanism | None = None,
    claims: Sequence[Claim] | None = None,
    money: Money | None = None,
) -> CheckedDeal:
    """The deal of a file, held to claims: by default to those of its mechanism, by whose rules it is judged."""
    if is_ledger(path) or is_transcript(path):
        found = audit(path)
        deal = found.recomputed if isinstance(found, TranscriptAudit) else found.deal
        if deal is None:
            why = f": {found.findings[found.failed[0]].reason}" if found.failed else ""
            raise InvalidInput(f"{path}: there is no deal in this ledger{why}; `fedpact check {path}` shows what is")
    else:
        which = rules.name if rules is not None and is_comparison(path) else None
        found, deal = None, load_deal(path, mechanism=which)
    with error_context(str(path)):
        chosen = mechanism_named(deal.mechanism) if rules is None else rules
        outcome = chosen.outcome_of(deal, federation)
        named = chosen if chosen.name == deal.mechanism else MECHANISMS.get(deal.mechanism)
        stated: Sequence[str] = ()
        if found is None and named is not None:
            stated = _contradictions(read_record(path, mechanism=which), deal, outcome, named)
    return CheckedDeal(
        deal=deal,
        rules=chosen,
        outcome=outcome,
        claims=chosen.claims if claims is None else claims,
        audit=found,
        money=money,
        contradictions=stated,
    )


def _contradictions(record: dict[str, Any], deal: Deal, outcome: Outcome, rules: Mechanism) -> Sequence[str]:
    """What the file of a deal states otherwise than it follows by the rules it names."""
    federation, stated = outcome.federation, dict(record)
    known = rules.outcome_at(federation, outcome.contributions, outcome.payments)
    if deal.provenance.source is Source.SOLVED:
        with suppress(*SOLVER_ERRORS):  # where it is no equilibrium the certificates say so
            known = rules.at_equilibrium(federation, outcome.contributions, outcome.payments)
    if rules.name not in MECHANISMS:  # how many equilibria there are, and what is paid beside, is for its rules to say
        for key in ("equilibria", "worst_reciprocity", "side_payments"):
            stated.pop(key, None)
    # An equilibrium known may have been moved to the one of smallest norm.
    return contradictions(stated, replace(known, contributions=outcome.contributions, payments=outcome.payments))


def choose_deal(
    federation: Federation,
    path: Path | None,
    name: str | None,
    *,
    unchecked: bool = False,
    money: Money | None = None,
) -> Deal:
    """The deal to carry out: that of a file, or the one that a mechanism makes.

    Parameters
    ----------
    name
        The mechanism that makes it; of a file with several deals, which one.
    unchecked
        Whether to take a deal that does not hold, or is one of another scenario.
    money
        What payoff is worth, where the scenario says it.

    Raises
    ------
    InvalidInput
        If the deal is one of another scenario, or does not hold, with the difference.
    """
    rules = None if name is None else choose_mechanism(name)
    if path is None:
        return (rules or choose_mechanism(DEFAULT_MECHANISM)).solve(federation).deal
    deal = load_deal(path, mechanism=None if rules is None else rules.name)
    if unchecked:
        deal = replace(deal, scenario=None)
    else:
        found = check_deal(path, federation, rules=rules, money=money)
        if found.failures:
            raise InvalidInput(
                f"{path}: this deal does not hold: {found.difference}; `fedpact check` shows everything, --unchecked "
                f"takes the deal as it is"
            )
    # Where a mechanism federates nobody everybody trains alone, even if the file does not say so.
    if deal.mechanism in MECHANISMS and not MECHANISMS[deal.mechanism].federated and deal.is_federated:
        deal = replace(deal, excluded=dict.fromkeys(deal.agents, TRAINS_ALONE))
    with error_context(str(path)):
        return deal.among([name for name in federation.names if name in deal.agents])


def violation_text(certificate: Certificate) -> str:
    """By how much a claim is violated, and what shows it."""
    simple = [(name, part) for name, part in certificate.witness.items() if isinstance(part, str | float | int)]
    shown = ", ".join(f"{name} {part:.6g}" if isinstance(part, float) else f"{name} {part}" for name, part in simple)
    return f"by {-certificate.margin:.3g}: {shown}"

"""`fedpact check`: does a deal keep its promises? Exit code 1 if a claim fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from fedpact.certificates import Claim, Verdict
from fedpact.certificates.claims import quote_claim
from fedpact.cli import inputs, screen
from fedpact.cli.audits import audit_ledger, show_findings, show_record
from fedpact.cli.exit_codes import CLAIM_FAILS
from fedpact.cli.solve import show_certificates, violation_sentence
from fedpact.deals.deal_file import outcome_record
from fedpact.deals.diagnosis import budget_sentences
from fedpact.deals.ledger import is_ledger
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX
from fedpact.negotiation.check import CheckedDeal, violation_text
from fedpact.report.numbers import Unit
from fedpact.report.words import NOT_CERTIFIED
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import join_names, printable


def check(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    deal: inputs.DealArgument = None,
    name: inputs.DealMechanism = None,
    claims: Annotated[list[str] | None, Option("--claim", "-c", help="Hold it to this claim, or 'all'.")] = None,
    keys: Annotated[Path | None, Option("--keys", help="Public keys of members that you know.")] = None,
    receipts: Annotated[list[Path] | None, Option("--receipt", help="A member's receipt.json; may repeat.")] = None,
    signed: Annotated[bool, Option("--signed", help="A ledger without signatures fails.")] = False,
    html: Annotated[Path | None, Option("--html", help="Write a ledger's page.")] = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Check a deal against its certificates: by default what its mechanism promises by design.

    You can pass a transcript instead of the scenario: is the deal it states the one its exchanges come to? Or a ledger:
    does its chain hold, is it signed, by whom, and does everything in it agree?
    """
    asked = keys is not None or bool(receipts) or signed or html is not None
    alone = deal is None and Path(scenario).suffix.lower() == TRANSCRIPT_SUFFIX
    if alone and (name or claims):
        raise InvalidInput(f"claims need the scenario: fedpact check SCENARIO {scenario}")
    path = Path(scenario) if alone else deal
    if alone and not asked:
        asked = is_ledger(Path(scenario))
    ledger = audit_ledger(path, keys, receipts or [], signed=signed, page=html) if asked else None
    if alone:
        failed = show_record(Path(scenario), ledger, as_json=as_json)
    else:
        chosen = inputs.read_scenario(scenario)
        found = inputs.checked_deal(chosen, deal, name, claims=_claims(claims), found=ledger)
        failed = found.failed
        if as_json:
            screen.print_json(_record(found))
        else:
            _show(chosen, found)
    if failed:
        raise typer.Exit(CLAIM_FAILS)


def _record(found: CheckedDeal) -> dict[str, Any]:
    """What was checked, what failed, and how much money can be in the wrong pocket, in units of payoff."""
    payments = found.payment_check
    record = {
        **outcome_record(found.outcome),
        **({"excluded": dict(found.out)} if found.out else {}),
        "checked": list(dict.fromkeys([*found.claims, *found.checked])),
        "failed": found.failed,
        "contradictions": found.contradictions,
        "over_budget": found.outcome.over_budget,
        "not_checked": found.unchecked,
        "payment_error": payments.error,
        "payment_tolerance": payments.tol,
        "payment_errors": payments.errors,
        "payment_method": payments.method,
    }
    plain: dict[str, Any] = jsonable(record)
    return plain


def _show(scenario: Scenario, found: CheckedDeal) -> None:
    screen.say((scenario.title or "Federation", "bold"), f" under {found.outcome.mechanism}")
    screen.say()
    for name, reason in found.out.items():  # before anything is said of the others
        screen.say(f"{name} is out: {printable(reason) or 'the deal does not say why':.400}.", path=True)
    if found.out:
        screen.say(f"All that follows is about {join_names(found.outcome.agents)} alone.", path=True)
        screen.say()
    if found.record is not None:
        show_findings(found.record)
    show_certificates(found.outcome, details=True)
    screen.say()
    screen.say(f"Held to: {_list_claims(found.claims)}")
    _show_verdicts(found)
    wrong = found.holds_payments and found.payment_check.exceeds
    screen.say((f"{found.payment_text[:1].upper()}{found.payment_text[1:]}.", "red" if wrong else ""))
    for sentence in budget_sentences(found.outcome, found.amount):
        screen.say((sentence, "red"))
    for text in found.contradictions:
        screen.say(("Stated wrongly", "red"), f": {text}.", path=True)
    if found.unchecked:
        said = ", ".join(found.unchecked)
        screen.say(f"Stated, not checked: {said}; the transcript of the negotiation shows them.")
    screen.say((NOT_CERTIFIED, "dim"))
    if found.failed:
        screen.say(("This deal does not hold", "red"), f": {_list_claims(found.failed)}.", path=True)


def _show_verdicts(found: CheckedDeal) -> None:
    """What it breaks of what it is held to, with the numbers."""
    unit = Unit.of(found.money, found.outcome.payoffs)
    for claim, certificate in found.outcome.certificates.items():
        if certificate.verdict is not Verdict.VIOLATED or claim not in found.claims:
            continue
        said = violation_sentence(found.outcome, Claim(claim), unit)
        amount = f"; {unit.text(-certificate.margin)}" if unit.is_money else ""
        numbers = f" {violation_text(certificate)} (units of payoff{amount})"
        screen.say((f"{quote_claim(claim)} is violated", "red"), f": {said}" if said else numbers)
    if found.deal.price_contradiction:
        screen.say(("prices contradict payments", "red"), f": {found.deal.price_contradiction}")
    if found.is_proved:
        screen.say("Every claim it is held to is proved.")


def _list_claims(claims: Sequence[str]) -> str:
    return ", ".join(map(quote_claim, claims))


def _claims(given: list[str] | None) -> tuple[Claim, ...] | None:
    if not given:
        return None
    if "all" in given:
        return tuple(Claim)
    known = [claim.value for claim in Claim]
    for claim in given:
        if claim not in known:
            raise InvalidInput(f"--claim must be one of {', '.join(known)} or all, got {claim!r}")
    return tuple(Claim(claim) for claim in given)

"""`fedpact check`: does a deal keep its promises, a ledger or transcript agree in all its parts? Exit code 1 if not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from fedpact.certificates import Claim, Verdict
from fedpact.certificates.claims import quote_claim
from fedpact.cli import inputs, screen
from fedpact.cli.app import CLAIM_FAILS
from fedpact.cli.solve import show_certificates, violation_sentence
from fedpact.deals.deal_file import deal_record, outcome_record
from fedpact.deals.diagnosis import budget_sentences
from fedpact.deals.ledger import is_ledger
from fedpact.deals.signatures import read_known_keys
from fedpact.deals.transcript import TRANSCRIPT_SUFFIX
from fedpact.fitting.delivery import check_run
from fedpact.negotiation.check import (
    FINISHED,
    MONEY,
    Checked,
    CheckedDeal,
    CheckedLedger,
    CheckedTranscript,
    Finding,
    check_transcript,
    violation_text,
)
from fedpact.report.ledger_page import paid_table, render_ledger_page, signed_table
from fedpact.report.numbers import PAYOFF_LABEL, Unit, number_texts
from fedpact.report.words import NOT_CERTIFIED
from fedpact.scenario import Scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import join_names, printable

DIGITS = 6
MAX_CONTRADICTIONS = 5  # shown, the terms of a deal first: all else follows from them
VERDICTS = {True: ("holds", "blue"), False: ("is violated", "red"), None: ("is open", "dim")}


def check(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    deal: inputs.DealArgument = None,
    name: inputs.DealMechanism = None,
    claims: Annotated[list[str] | None, Option("--claim", "-c", help="Check this claim instead, or 'all'.")] = None,
    keys: Annotated[Path | None, Option("--keys", help="Public keys of members that you know.")] = None,
    receipts: Annotated[list[Path] | None, Option("--receipt", help="A member's receipt.json; may repeat.")] = None,
    signed: Annotated[bool, Option("--signed", help="A ledger without signatures fails.")] = False,
    html: Annotated[Path | None, Option("--html", help="Write a ledger's page.")] = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Check that a deal keeps what its mechanism promises.

    You can pass a transcript instead of the scenario: do its exchanges lead to the deal that it states? Or a ledger:
    does its chain hold, who has signed it, and does everything in it agree?
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
        screen.say(f"{name} is out: {printable(reason) or 'the deal does not say why':.400}.")
    if found.out:
        screen.say(f"All that follows is about {join_names(found.outcome.agents)} alone.")
        screen.say()
    if found.record is not None:
        show_findings(found.record)
    if MONEY in found.findings:
        _show_finding(MONEY, found.findings[MONEY])
    show_certificates(found.outcome, Unit.of(found.money, found.outcome.payoffs), details=True)
    screen.say()
    screen.say(f"Held to: {_list_claims(found.claims)}")
    _show_verdicts(found)
    wrong = found.holds_payments and found.payment_check.exceeds
    screen.say((f"{found.payment_text[:1].upper()}{found.payment_text[1:]}.", "red" if wrong else ""))
    for sentence in budget_sentences(found.outcome, found.amount):
        screen.say((sentence, "red"))
    for text in found.contradictions[:MAX_CONTRADICTIONS]:
        screen.say(("Stated wrongly", "red"), f": {text}.")
    if (more := len(found.contradictions) - MAX_CONTRADICTIONS) > 0:
        screen.say(f"... and {more} more of what the file states beside; --json has all.")
    if found.unchecked:
        said = ", ".join(found.unchecked)
        screen.say(f"Stated, not checked: {said}; the transcript of the negotiation shows them.")
    screen.say((NOT_CERTIFIED, "dim"))
    if found.failed:
        screen.say(("This deal does not hold", "red"), f": {_list_claims(found.failed)}.")


def _show_verdicts(found: CheckedDeal) -> None:
    """What it breaks of what it is held to, with the numbers."""
    unit = Unit.of(found.money, found.outcome.payoffs)
    for claim, certificate in found.outcome.certificates.items():
        if certificate.verdict is not Verdict.VIOLATED or claim not in found.claims:
            continue
        said = violation_sentence(found.outcome, Claim(claim), unit)
        shown = f": {said}" if said else f" {violation_text(certificate, found.amount)}"
        screen.say((f"{quote_claim(claim)} is violated", "red"), shown)
    if found.price_contradiction:
        screen.say(("prices contradict payments", "red"), f": {found.price_contradiction}")
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


# Ledgers and transcripts: what they hold, and whether everything in them agrees


def audit_ledger(
    path: Path | None, keys: Path | None, receipts: Sequence[Path], *, signed: bool, page: Path | None
) -> CheckedLedger:
    """What is found in a ledger, with its signatures, keys and receipts; its page is written."""
    if path is None or not is_ledger(path):
        raise InvalidInput("--keys, --receipt, --signed and --html are for a ledger: fedpact check [SCENARIO] LEDGER")
    inputs.check_output(page, force=False, suffixes=(".html",))
    known = None if keys is None else read_known_keys(keys)
    found = check_run(path, keys=known, receipts=receipts, must_be_signed=signed)
    if page is not None:
        replace_text(page, render_ledger_page(found))
    return found


def show_record(path: Path, ledger: CheckedLedger | None, *, as_json: bool) -> list[str]:
    """Show what a ledger holds, or a transcript comes to; the claims that fail."""
    found: CheckedLedger | CheckedTranscript = ledger or check_transcript(path)
    if as_json:
        record = _ledger_record(found) if isinstance(found, CheckedLedger) else _transcript_record(found)
        screen.print_json(record | {"checked": found.checked, "failed": found.failed})
        return found.failed
    if isinstance(found, CheckedLedger):
        _show_ledger(found)
    else:
        _show_transcript(found)
    show_findings(found)
    if found.unchecked:
        more = f"; `fedpact check SCENARIO {path}` compares the scenario" if "scenario" in found.unchecked else ""
        screen.say(f"Stated, not checked: {', '.join(found.unchecked)}{more}.", path=True)
    if not found.failed:
        screen.say("Every claim that can be checked holds.")
    return found.failed


def show_findings(found: Checked) -> None:
    """Claim by claim, in words."""
    for claim, finding in found.findings.items():
        _show_finding(claim, finding)


def _show_finding(claim: str, finding: Finding) -> None:
    verdict, colour = VERDICTS[finding.holds]
    screen.say((f"{quote_claim(claim)} {verdict}", colour), f": {finding.reason}.")


def _ledger_record(found: CheckedLedger) -> dict[str, Any]:
    entries, parts = found.chain.entries, found.signed_parts
    return {
        "entries": [{key: getattr(entry, key) for key in ("seq", "time", "kind", "hash")} for entry in entries],
        "head": found.chain.head,
        "deal": None if found.deal is None else deal_record(found.deal),
        "is_signed": found.findings["signed"].holds is True,
        "signatures": [
            {"entry": part.entry, "about": part.about, "agent": part.name, "digest": part.digest, "holds": part.holds}
            for part in parts
        ],
        "findings": {claim: {"holds": each.holds, "reason": each.reason} for claim, each in found.findings.items()},
    }


def _transcript_record(found: CheckedTranscript) -> dict[str, Any]:
    return deal_record(found.recomputed) | {"stated": found.transcript.deal, "not_checked": found.unchecked}


def _show_ledger(found: CheckedLedger) -> None:
    entries = found.chain.entries
    title = str(entries[0].content.get("title") or "") if entries else ""
    screen.say((f"The ledger of {title or 'a run'}", "bold"))
    screen.say()
    try:
        if not found.is_finished:
            screen.say(f"Nobody is paid: {found.findings[FINISHED].reason}.", path=True)
            screen.say()
        if found.deal is not None and "budget-balance" not in found.failed:
            screen.print_table(paid_table(found, found.deal))
            screen.say()
    except (AttributeError, KeyError, TypeError, ValueError):  # unsound entries: the findings say which
        if not found.failed:
            raise
    if found.signed_parts:
        screen.print_table(signed_table(found))
        screen.say()


def _show_transcript(found: CheckedTranscript) -> None:
    what = found.transcript.header.description
    screen.say((what[:1].upper() + what[1:], "bold"))
    screen.say()
    deal, stated = found.recomputed, found.deal
    given = [
        (head, number_texts(each.contributions, digits=DIGITS))
        for head, each in (("contributes", deal), ("stated", stated))
    ]
    paid = [
        (head, number_texts(each.payments, signed=True, digits=DIGITS))
        for head, each in (("is paid", deal), ("pay stated", stated))
    ]
    title = f"Recomputed and stated (payments in {PAYOFF_LABEL})"
    if deal.has_lots:
        screen.print_agents("Recomputed and stated", deal.lot_labels, given, sizes=deal.contributions, kind="lot")
        screen.say()
        screen.print_agents(title, deal.agents, paid, sizes=deal.payments)
    else:
        screen.print_agents(title, deal.agents, [*given, *paid], sizes=deal.contributions)
    screen.say_excluded(deal)

"""Ledgers and transcripts on the terminal: what they hold, and whether everything in them agrees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedpact.certificates.claims import quote_claim
from fedpact.cli import inputs, screen
from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record
from fedpact.deals.ledger import is_ledger
from fedpact.deals.signatures import read_known_keys
from fedpact.fitting.delivery import with_paid_shares
from fedpact.negotiation.check import (
    FINISHED,
    Checked,
    CheckedLedger,
    CheckedTranscript,
    check_ledger,
    check_transcript,
)
from fedpact.report.ledger_page import paid_columns, render_ledger_page, signed_rows
from fedpact.report.numbers import PAYOFF_LABEL, number_texts
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text

DIGITS = 6
VERDICTS = {True: ("holds", "blue"), False: ("is violated", "red"), None: ("is open", "dim")}


def audit_ledger(
    path: Path | None, keys: Path | None, receipts: Sequence[Path], *, signed: bool, page: Path | None
) -> CheckedLedger:
    """What is found in a ledger, with its signatures, keys and receipts; its page is written."""
    if path is None or not is_ledger(path):
        raise InvalidInput("--keys, --receipt, --signed and --html are for a ledger: fedpact check [SCENARIO] LEDGER")
    inputs.check_output(page, force=False, suffixes=(".html",))
    known = None if keys is None else read_known_keys(keys)
    found = with_paid_shares(check_ledger(path, keys=known, receipts=receipts, must_be_signed=signed))
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
        verdict, colour = VERDICTS[finding.holds]
        screen.say((f"{quote_claim(claim)} {verdict}", colour), f": {finding.reason}.", path=True)


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
            _show_deal(found, found.deal)
    except (AttributeError, KeyError, TypeError, ValueError):  # unsound entries: the findings say which
        if not found.failed:
            raise
    if found.signed_parts:
        heads = ("entry", "what", "signed by", "not by")
        screen.print_rows("What is signed, and by whom", heads, list(signed_rows(found)), words=heads)
        screen.say()


def _show_deal(found: CheckedLedger, deal: Deal) -> None:
    """Who gave what, got which accuracy, and is paid how much."""
    settled = found.paid
    columns = paid_columns(found, deal)
    names = [f"{name} (out)" if name in deal.excluded else name for name in deal.agents]
    title = f"The deal (pay in {settled.currency if settled is not None else PAYOFF_LABEL})"
    screen.print_agents(title, names, columns, sizes=deal.contributions)
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

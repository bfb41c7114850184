"""Ledgers and transcripts on the terminal: what they hold, and whether everything in them agrees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedpact.certificates.claims import quote_claim
from fedpact.cli.common import console, escape, print_agents, print_json, table
from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record
from fedpact.deals.ledger import is_ledger
from fedpact.deals.signatures import KnownKeys
from fedpact.fitting.delivery import with_paid_shares
from fedpact.negotiation.check import (
    FINISHED,
    Checked,
    CheckedLedger,
    CheckedTranscript,
    check_ledger,
    check_transcript,
)
from fedpact.report.ledger_page import paid_columns, signed_rows, write_ledger_page
from fedpact.report.numbers import PAYOFF_LABEL, number_texts
from fedpact.utils.errors import InvalidInput

DIGITS = 6
VERDICTS = {True: ("blue", "holds"), False: ("red", "is violated"), None: ("dim", "is open")}


def show_record(
    path: Path,
    *,
    keys: KnownKeys | None = None,
    receipts: Sequence[Path] = (),
    signed: bool = False,
    page: Path | None = None,
    as_json: bool,
) -> list[str]:
    """Show what a ledger holds, or a transcript comes to, and write the ledger's page; the claims that fail."""
    found: CheckedLedger | CheckedTranscript
    if is_ledger(path):
        found = with_paid_shares(check_ledger(path, keys=keys, receipts=receipts, must_be_signed=signed))
    elif keys is not None or receipts or signed or page is not None:
        raise InvalidInput(f"{path}: this is no ledger; --keys, --receipt, --signed and --html are for ledgers")
    else:
        found = check_transcript(path)
    if page is not None and isinstance(found, CheckedLedger):
        write_ledger_page(found, page)
    if as_json:
        record = _ledger_record(found) if isinstance(found, CheckedLedger) else _transcript_record(found)
        print_json(record | {"checked": found.checked, "failed": found.failed})
        return found.failed
    if isinstance(found, CheckedLedger):
        _show_ledger(found)
        _show_signed(found)
    else:
        _show_transcript(found)
    show_findings(found)
    if found.unchecked:
        more = f"; `fedpact check SCENARIO {path}` compares the scenario" if "scenario" in found.unchecked else ""
        console.print(escape(f"Stated, not checked: {', '.join(found.unchecked)}{more}."), soft_wrap=True)
    if not found.failed:
        console.print("Every claim that can be checked holds.")
    return found.failed


def show_findings(found: Checked) -> None:
    """Claim by claim, in words."""
    for claim, finding in found.findings.items():
        colour, verdict = VERDICTS[finding.holds]
        console.print(f"[{colour}]{quote_claim(claim)} {verdict}[/{colour}]: {escape(finding.reason)}.", soft_wrap=True)


def _ledger_record(found: CheckedLedger) -> dict[str, Any]:
    return {
        "entries": [
            {"seq": entry.seq, "time": entry.time, "kind": entry.kind, "hash": entry.hash}
            for entry in found.chain.entries
        ],
        "head": found.chain.head,
        "deal": None if found.deal is None else deal_record(found.deal),
        "is_signed": found.findings["signed"].holds is True,
        "signatures": [
            {"entry": part.entry, "about": part.about, "agent": part.name, "digest": part.digest, "holds": part.holds}
            for part in found.signed_parts
        ],
        "findings": {
            claim: {"holds": finding.holds, "reason": finding.reason} for claim, finding in found.findings.items()
        },
    }


def _transcript_record(found: CheckedTranscript) -> dict[str, Any]:
    return deal_record(found.recomputed) | {"stated": found.transcript.deal, "not_checked": found.unchecked}


def _show_ledger(found: CheckedLedger) -> None:
    entries = found.chain.entries
    title = str(entries[0].content.get("title") or "") if entries else ""
    console.print(f"[bold]The ledger of {escape(title) if title else 'a run'}[/bold]\n")
    try:
        if not found.is_finished:
            console.print(f"Nobody is paid: {escape(found.findings[FINISHED].reason)}.\n", soft_wrap=True)
        if found.deal is not None and "budget-balance" not in found.failed:
            _show_deal(found, found.deal)
    except (AttributeError, KeyError, TypeError, ValueError):  # unsound entries: the findings say which
        if not found.failed:
            raise


def _show_deal(found: CheckedLedger, deal: Deal) -> None:
    """Who gave what, got which accuracy, and is paid how much."""
    settled = found.paid
    columns = paid_columns(found, deal)
    agents = [f"{name} (out)" if name in deal.excluded else name for name in deal.agents]
    title = f"The deal (pay in {settled.currency if settled is not None else PAYOFF_LABEL})"
    print_agents(title, agents, columns, sizes=deal.contributions)
    console.print()


def _show_signed(found: CheckedLedger) -> None:
    """What is signed by whom."""
    if not found.signed_parts:
        return
    made = table("What is signed, and by whom", "entry", "what", "signed by", "not by")
    for column in made.columns[1:]:
        column.justify = "left"
    for row in signed_rows(found):
        made.add_row(*map(escape, row))
    console.print(made)
    console.print()


def _show_transcript(found: CheckedTranscript) -> None:
    what = found.transcript.header.description
    console.print(f"[bold]{escape(what[:1].upper() + what[1:])}[/bold]\n")
    deal, stated = found.recomputed, found.deal
    given = [("contributes", number_texts(deal.contributions, digits=DIGITS))]
    paid = [("is paid", number_texts(deal.payments, signed=True, digits=DIGITS))]
    if stated is not None:
        given.append(("stated", number_texts(stated.contributions, digits=DIGITS)))
        paid.append(("pay stated", number_texts(stated.payments, signed=True, digits=DIGITS)))
    title = f"Recomputed and stated (payments in {PAYOFF_LABEL})"
    if deal.has_lots:
        print_agents("Recomputed and stated", deal.lot_labels, given, sizes=deal.contributions, kind="lot")
        console.print()
        print_agents(title, deal.agents, paid, sizes=deal.payments)
    else:
        print_agents(title, deal.agents, [*given, *paid], sizes=deal.contributions)
    show_excluded(deal)


def show_excluded(deal: Deal) -> None:
    """Who is out, and why; where nobody federates all are."""
    for name, reason in deal.excluded.items() if deal.is_federated else ():
        console.print(f"{escape(name)} is out: {escape(reason):.400}.", soft_wrap=True)

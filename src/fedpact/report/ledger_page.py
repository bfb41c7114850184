"""The record of a run as a page: what was agreed, delivered and paid, what holds, and what is signed by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from fedpact.certificates.claims import claim_title, quote_claim
from fedpact.deals import Deal
from fedpact.deals.ledger import FAILED, MEASURED
from fedpact.negotiation.check import FINISHED, CheckedLedger
from fedpact.report.markup import render, style_sheet
from fedpact.report.numbers import MINUS, PAYOFF_LABEL, number_texts
from fedpact.report.tables import ResultTable

SIGNED_WORDS = {
    "key": "its key for this run",
    "deal": "the deal, the same for all",
    "statement": "its own prices and what it checked",
    "delivery": "samples and update of a round",
    "verification": "what it measured of models of subsets",
    "accuracy": "its accuracy",
    "settlement": "what was delivered and is paid",
}
LEDGER_VERDICTS = {True: "holds", False: "is violated", None: "is open"}
BY_SAMPLES = "Prices were agreed, and what was delivered is paid for: samples that members counted and signed."
BY_DELIVERY = (
    "Prices were agreed, and what arrived in effect is paid for: of each member, the share that the others’ "
    "measurements of models with and without its update show, estimated without the reports of the two who pay each "
    "other. “Arrived” is the mean of these shares, by what is paid."
)


def render_ledger_page(found: CheckedLedger) -> str:
    """The page of a ledger as HTML text."""
    entries, deal = found.chain.entries, found.deal
    wrong = [claim for claim in found.failed if claim != FINISHED]
    failed = f"These claims do not hold: {', '.join(map(quote_claim, found.failed))}." if found.failed else ""
    unpaid = "" if found.is_finished else f"Nobody is paid: {found.findings[FINISHED].reason}."
    claims = {
        "verdict": [LEDGER_VERDICTS[each.holds] for each in found.findings.values()],
        "why": [each.reason for each in found.findings.values()],
    }
    return str(
        render(
            "ledger.html",
            style=style_sheet(),
            title=str(entries[0].content.get("title") or "A run") if entries else "A run",
            lead=f"{unpaid} {failed or f'{len(entries)} entries; every claim that can be checked holds.'}".strip(),
            meaning="" if unpaid else BY_SAMPLES if found.paid_shares is None else BY_DELIVERY,
            paid=None if deal is None or wrong else replace(paid_table(found, deal), sizes=None),
            claims=ResultTable(
                title="Every claim of the record, checked",
                names=list(map(claim_title, found.findings)),
                columns=claims,
                kind="claim",
                words=tuple(claims),
            ),
            signed=signed_table(found),
        )
    )


def signed_table(found: CheckedLedger) -> ResultTable | None:
    """Entry, document, who has signed it, and who has not; None where nothing is signed."""
    heads = ("entry", "what", "signed by", "not by")
    rows = list(_signed_rows(found))
    if not rows:
        return None
    entries, *columns = zip(*rows, strict=True)
    signed = dict(zip(heads[1:], columns, strict=True))
    title = "What is signed, and by whom"
    return ResultTable(title=title, names=entries, columns=signed, kind=heads[0], words=heads[1:])


def _signed_rows(found: CheckedLedger) -> Iterator[tuple[str, str, str, str]]:
    """Entry, document, who has signed it, and who has not."""
    for (entry, kind, about), parts in groupby(found.signed_parts, lambda part: (part.entry, part.kind, part.about)):
        listed = list(parts)
        counts = Counter(part.name for part in listed if part.holds)
        signers = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
        others = dict.fromkeys(part.name for part in listed if not part.holds)
        what = SIGNED_WORDS.get(about, about) + (" (of a deal that failed)" if kind == FAILED else "")
        yield str(entry), what, ", ".join(signers) or "-", ", ".join(others)


def paid_table(found: CheckedLedger, deal: Deal) -> ResultTable:
    """What each member agreed to, delivered, measured and is paid; columns that nothing is known of are left out."""
    measured, used = found.entries.get(MEASURED), found.samples
    settled = found.paid
    money: dict[str, Any] = {} if settled is None else settled.record()
    paid = {entry["agent"]: entry["amount"] for entry in money.get("balances", [])}
    due = {entry["agent"]: entry["amount"] for entry in money.get("agreed_balances") or []}
    scores = measured.content["accuracies"] if measured is not None else {}
    accuracies = [scores.get(name, {}).get("accuracy") for name in deal.agents]
    delivered, shares = money.get("delivered"), found.paid_shares
    columns = [
        ("agreed", number_texts(deal.contributions)),
        *([("delivered", number_texts(np.array(delivered)))] if delivered else []),
        *([("arrived", _arrived_texts(deal, shares))] if shares else []),
        ("samples used", [str(max(used[name], default=0)) if name in used else "-" for name in deal.agents]),
        ("accuracy", ["-" if accuracy is None else f"{accuracy:.3f}" for accuracy in accuracies]),
        *([("agreed pay", [due.get(name, "-") for name in deal.agents])] if due else []),
        ("is paid", [paid.get(name, "-") for name in deal.agents])
        if money
        else ("agreed pay", number_texts(deal.payments, signed=True)),
    ]
    currency = PAYOFF_LABEL if settled is None else settled.currency
    return ResultTable(
        title=f"The deal (pay in {currency}: + receives, {MINUS} pays)",
        names=[f"{name} (out)" if name in deal.excluded else name for name in deal.agents],
        columns=dict(columns),
        sizes=deal.contributions,
    )


def _arrived_texts(deal: Deal, shares: Any) -> list[str]:
    """Of each member, the mean share that is paid for, weighted by what would be paid."""
    matrix = np.array(shares, dtype=np.float64)
    weights = np.abs(deal.prices) if deal.prices is not None else np.ones_like(matrix)
    weights = np.where(np.isnan(matrix), 0.0, weights)
    total = weights.sum(axis=0)
    means = np.divide(
        (np.nan_to_num(matrix) * weights).sum(axis=0), total, out=np.full(total.shape, np.nan), where=total > 0
    )
    return ["-" if np.isnan(mean) else f"{100.0 * mean:.0f} %" for mean in means]

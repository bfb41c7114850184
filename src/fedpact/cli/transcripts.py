"""A negotiated deal recomputed from its transcript alone, and held against the one the transcript states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.markup import escape

from fedpact.cli.common import MAX_NAMES, console, print_agents, print_json
from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record, stated_numbers
from fedpact.deals.transcript import Transcript, read_transcript
from fedpact.negotiation import recompute
from fedpact.report.numbers import PAYOFF_LABEL, number_texts
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, error_context
from fedpact.utils.words import join_names

__all__ = ["RECOMPUTED", "Recomputed", "check_transcript", "recomputed", "show_recomputed"]

RECOMPUTED, BALANCE = "recomputed", "budget-balance"
DIGITS = 6  # enough to see by eye which number was changed
ROUNDING = 1e-9  # of the largest contribution, and of the money that changes hands


@dataclass(frozen=True, kw_only=True, eq=False)
class Recomputed:
    """The deal a transcript comes to, and what it states (the same if it states none)."""

    transcript: Transcript
    deal: Deal
    contributions: FloatArray
    payments: FloatArray

    @property
    def money(self) -> float:
        """What changes hands, both ways counted."""
        deal = self.deal
        return float((np.abs(deal.prices) * deal.contributions).sum() + np.abs(deal.payments).sum())

    @property
    def differing(self) -> list[str]:
        """Whose contribution or payment is not the one stated."""
        most = float(np.abs(self.deal.contributions).max())
        moved = np.abs(self.contributions - self.deal.contributions) > ROUNDING * most
        paid = np.abs(self.payments - self.deal.payments) > ROUNDING * self.money
        return [name for name, wrong in zip(self.deal.agents, moved | paid, strict=True) if wrong]

    @property
    def imbalance(self) -> float:
        """What the stated payments sum to."""
        return float(self.payments.sum())

    @property
    def failed(self) -> list[str]:
        """The claims that fail."""
        wrong = [RECOMPUTED] if self.differing else []
        return wrong + ([BALANCE] if abs(self.imbalance) > ROUNDING * self.money else [])


def recomputed(transcript: Transcript) -> Recomputed:
    """A transcript played back, beside what it states."""
    deal = recompute(transcript)
    contributions, payments = deal.contributions, deal.payments
    if transcript.deal is not None:
        with error_context(f"{transcript.path}: the deal"):
            if transcript.deal.get("agents") != list(deal.agents):
                raise InvalidInput("agents must be those of the first line, in their order")
            contributions, payments = (np.array(part) for part in stated_numbers(transcript.deal, len(deal.agents)))
    return Recomputed(transcript=transcript, deal=deal, contributions=contributions, payments=payments)


def check_transcript(path: Path, *, as_json: bool) -> list[str]:
    """Show what a transcript comes to; the claims that fail."""
    found = recomputed(read_transcript(path))
    if as_json:
        stated = {"contributions": found.contributions.tolist(), "payments": found.payments.tolist()}
        record = deal_record(found.deal) | {"stated": stated if found.transcript.deal is not None else None}
        print_json(record | {"checked": [RECOMPUTED, BALANCE], "failed": found.failed})
        return found.failed
    console.print(f"[bold]{escape(_capital(found.transcript.header.description))}[/bold]\n")
    _show_numbers(found)
    show_recomputed(found)
    if not found.failed:
        console.print("Every claim that can be checked holds.")
    return found.failed


def show_recomputed(found: Recomputed) -> None:
    """In words: whether the deal is the one stated, whether payments balance, and who is out."""
    count = found.transcript.count
    for name, reason in found.deal.excluded.items():
        console.print(f"{escape(name)} is out: {escape(reason)}.")
    if found.transcript.deal is None:
        console.print(f"No deal is stated; this is the one that {count} exchanges come to.")
    elif found.differing:
        who = escape(join_names(found.differing, most=MAX_NAMES))
        console.print(f"[red]{RECOMPUTED} is violated[/red]: {count} exchanges come to another deal for {who}.")
    else:
        console.print(f"The deal stated is the one that {count} exchanges come to.")
    if BALANCE in found.failed:
        console.print(f"[red]{BALANCE} is violated[/red]: the payments stated sum to {found.imbalance:+.3g}.")
    else:
        console.print(f"Payments sum to {found.imbalance:+.1e}.")


def _show_numbers(found: Recomputed) -> None:
    deal = found.deal
    columns = [
        ("contributes", number_texts(deal.contributions, digits=DIGITS)),
        ("stated", number_texts(found.contributions, digits=DIGITS)),
        ("is paid", number_texts(deal.payments, signed=True, digits=DIGITS)),
        ("stated", number_texts(found.payments, signed=True, digits=DIGITS)),
    ]
    title = f"Recomputed and stated (payments in {PAYOFF_LABEL})"
    print_agents(title, deal.agents, columns, sizes=deal.contributions)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

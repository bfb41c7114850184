"""What a deal makes of caps that several lots share, in words: raw records or records with noise, for instance."""

from __future__ import annotations

from fedpact.certificates.assumptions import BOUND_TOLERANCE
from fedpact.deals import Outcome
from fedpact.report.numbers import Unit, given_text, number_text
from fedpact.utils.words import join_names


def shared_cap_sentences(outcome: Outcome, unit: Unit, agent: int | None = None) -> list[str]:
    """For every shared cap, of one agent or of all: what is brought of each lot, and what one more would be worth."""
    federation, told = outcome.federation, []
    for shared, price in zip(federation.shared_caps, outcome.shared_cap_prices, strict=True):
        owner = int(federation.lot_owners[shared.lots[0]])
        if agent not in (None, owner):
            continue
        amounts = outcome.contributions[list(shared.lots)]
        parts = [
            f'{number_text(float(amount))} of "{federation.lot_names[lot]}"'
            for lot, amount in zip(shared.lots, amounts, strict=True)
        ]
        total, cap = float(amounts.sum()), given_text(shared.cap)
        if total >= shared.cap * (1.0 - BOUND_TOLERANCE):
            used = f"all of the {cap} that these lots share"
            larger = given_text(shared.cap + 1.0)
            more = f" A cap of {larger} would add {unit.text(float(price))} to the welfare of all." if price > 0 else ""
        else:
            used, more = f"{number_text(total)} of the {cap} that these lots share", ""
        told.append(f"{federation.names[owner]} brings {join_names(parts)}: {used}.{more}")
    return told

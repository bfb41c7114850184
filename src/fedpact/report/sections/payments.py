"""Who pays whom: a picture and the list of transfers, to the cent, for every mechanism with payments."""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome, Settlement
from fedpact.report.html import Child, Html, el, name, table
from fedpact.report.numbers import SPACE, cents_text
from fedpact.report.sections.parts import folded, panel, section
from fedpact.report.svg.flow import flow
from fedpact.report.view import MOST_SHOWN, View
from fedpact.utils.words import count_text

__all__ = ["payments"]

# Transfers beyond these are left to `fedpact settle`.
MOST_TRANSFERS = 500
# Up to this many are listed without asking.
FEW_TRANSFERS = 8


def payments(view: View) -> Html:
    """A panel per mechanism with payments, and a sentence on those without."""
    paying: list[Html] = []
    quiet: list[str] = []
    tiny: list[str] = []
    for outcome in view.comparison:
        settlement = view.settlements[outcome.mechanism]
        if settlement is not None and not settlement.transfers:
            small = np.abs(outcome.payments).max() > view.unit.noise
            (tiny if small else quiet).append(view.title_of(outcome))
        else:
            paying.append(_panel(view, outcome, settlement))
    return section(
        "payments",
        "Who pays whom?",
        el("p", _lead(view)) if paying else None,
        el("div", paying, class_="panels roomy") if paying else None,
        el("p", _quiet(quiet, all_of_them=not paying and not tiny)) if quiet else None,
        el("p", f"All payments under {' and '.join(tiny)} are below one cent.") if tiny else None,
    )


def _lead(view: View) -> str:
    rounding = "to the cent" if view.unit.is_money else "rounded so that they balance exactly"
    picture = "Those on the left pay (−), those on the right receive (+); the wider a ribbon, the more is paid."
    drawn = any(settlement is not None and settlement.transfers for settlement in view.settlements.values())
    return f"Amounts are in {view.unit.label}, {rounding}. {picture}" if drawn else f"Amounts are in {view.unit.label}."


def _quiet(titles: list[str], *, all_of_them: bool) -> str:
    if all_of_them:
        return "No payments: under none of the mechanisms does anybody owe anybody anything."
    return f"No payments under {' and '.join(titles)}."


def _panel(view: View, outcome: Outcome, settlement: Settlement | None) -> Html:
    title = view.title_of(outcome)
    if settlement is None:
        return panel(view.colour(outcome), title, _unbalanced(view, outcome))
    turnover = cents_text(settlement, sum(transfer.cents for transfer in settlement.transfers))
    text = f"{turnover}{SPACE}{settlement.currency} in {count_text(len(settlement.transfers), 'transfer')}"
    fewest = ", which is as few as can be" if settlement.minimal else ""
    return panel(
        view.colour(outcome),
        title,
        el("p", f"{text}{fewest}.", class_="note"),
        flow(settlement, f"Who pays whom under {title}", f"flow-{view.comparison.outcomes.index(outcome)}"),
        _transfers(settlement),
    )


def _transfers(settlement: Settlement) -> Child:
    ranked = settlement.transfers
    if len(ranked) > MOST_SHOWN:
        ranked = tuple(sorted(ranked, key=lambda transfer: -transfer.cents))[:MOST_TRANSFERS]
    rows = [(name(transfer.payer), name(transfer.payee), cents_text(settlement, transfer.cents)) for transfer in ranked]
    listing = table(f"Transfers in {settlement.currency}", ("from", "to", "amount"), rows, css="transfers")
    hidden = len(settlement.transfers) - len(ranked)
    note = el("p", f"{count_text(hidden, 'smaller transfer')} not listed.", class_="note") if hidden else None
    return folded(
        f"The {count_text(len(settlement.transfers), 'transfer')}", listing, note, is_open=len(ranked) <= FEW_TRANSFERS
    )


def _unbalanced(view: View, outcome: Outcome) -> list[Html]:
    """Payments that need somebody from outside: no transfers between members settle them."""
    total = view.unit.text(float(outcome.payments.sum()), signed=True)
    chosen = view.select(np.abs(outcome.payments), "the largest payments")
    amounts = view.unit.column(outcome.payments[list(chosen.agents)], signed=True)
    rows = [(name(view.names[agent]), amount) for agent, amount in zip(chosen.agents, amounts, strict=True)]
    listing = table("Payments", ("Member", "received (+), paid (−)"), rows)
    text = f"The payments do not balance: they sum to {total}, which somebody outside would have to cover."
    return [el("p", text, class_="notice"), listing, *([chosen.note] if chosen.note else [])]

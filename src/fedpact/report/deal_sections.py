"""What the sections about the deal show: contributions, payments, gains and how sure they are;
and what a deal makes of caps that lots share.

Each function prepares what the template of the same name fills in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from fedpact.certificates.assumptions import BOUND_TOLERANCE
from fedpact.comparison import Outlook, StableFederation
from fedpact.deals import Outcome, Settlement
from fedpact.deals.diagnosis import fairness_sentences
from fedpact.report.charts import BarRow, NumberLine, sign_class, whisker
from fedpact.report.deal_table import PAID_AT, price_texts
from fedpact.report.markup import mention_list, name_tag
from fedpact.report.numbers import (
    Unit,
    cents_text,
    gain_share_texts,
    given_text,
    lowest_share_text,
    number_text,
    number_texts,
    percent,
    probability_text,
    share_notes,
    share_text,
    without_rounding,
)
from fedpact.report.stability import leaving_group
from fedpact.report.view import MAX_SHOWN, Selection, View
from fedpact.solvers.standalone import standalone_optimum
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import join_names

# Transfers beyond these are left to `fedpact settle`; up to the other number they are listed without asking.
MAX_TRANSFERS = 500
FEW_TRANSFERS = 8
MAX_SUBSIDIES = 8
# Leaving this probably, or staying this probably, is settled for practical purposes.
UNLIKELY = 0.05
MAX_HARM_SENTENCES = 3
# The lowest ratio of other equilibria is worth a word if it is lower by this much.
LOWER_SHARE = 1e-6
MAX_LEAVERS_NAMED = 3
STAYS_AT_HOME = 1e-9  # of the largest contribution: of a lot less than this is brought


# Contributions


def contributions(view: View) -> dict[str, Any]:
    """A table with a row per agent (or lot) and a column per mechanism, one for standing alone and one for the cap."""
    columns = _profiles(view)
    numbers = np.array(list(columns.values()))
    chosen = view.select(numbers.max(axis=0), "the largest contributions")
    texts = np.array(number_texts(numbers.ravel()), dtype=object).reshape(numbers.shape)
    if view.federation.has_lots:
        texts[numbers == 0.0] = "stays at home"
    caps = [_cap_text(view, lot) for lot in range(view.federation.n_lots)]
    rows = [(name_tag(view.lots[lot]), *texts[:, lot], caps[lot]) for lot in chosen.agents]
    total = ("All together", *number_texts(numbers.sum(axis=1)), "")
    return {
        "heads": ("Lot" if view.federation.has_lots else "Member", *columns, "can give up to"),
        "rows": [*rows, total],
        "alone": list(columns)[-1],
        "chosen": chosen,
        "lots": _which_lots(view),
        "shared": shared_cap_sentences(view.chosen, view.unit) if view.chosen is not None else [],
    }


def _profiles(view: View) -> dict[str, FloatArray]:
    """The contributions of what was solved, by title, with standing alone last, whether it was among it or not."""
    solved = {view.title_of(outcome): outcome.contributions for outcome in view.comparison if outcome.federated}
    alone = {view.title_of(outcome): outcome.contributions for outcome in view.comparison if not outcome.federated}
    return solved | (alone or {"Alone": standalone_optimum(view.federation)[0]})


def _cap_text(view: View, lot: int) -> str:
    cap = float(view.federation.arrays.reachable_caps[lot])
    shared = any(lot in shared.lots for shared in view.federation.shared_caps)
    return "no cap" if np.isinf(cap) else f"{given_text(cap)}{', with the lots it shares a cap with' if shared else ''}"


def _which_lots(view: View) -> Markup | None:
    """Which lots are brought under the recommended deal, and which stay at home; None where everybody has one."""
    outcome, given = view.chosen, view.federation
    if not given.has_lots or outcome is None:
        return None
    brought = outcome.contributions > STAYS_AT_HOME * outcome.contributions.max(initial=0.0)
    whole = brought & (outcome.contributions >= given.arrays.reachable_caps * (1.0 - BOUND_TOLERANCE))
    words = (("brought whole", whole), ("brought in part", brought & ~whole), ("at home", ~brought))
    told = [
        Markup("{}: {}").format(word, mention_list([view.lots[lot] for lot in np.flatnonzero(there)[:MAX_SHOWN]]))
        for word, there in words
        if there.any()
    ]
    return Markup("Under {}, ").format(view.title_of(outcome)) + Markup("; ").join(told) + "."


# Payments


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentPanel:
    """The payments of one outcome: transfers between the members or, if they do not balance, a list."""

    outcome: Outcome
    settlement: Settlement | None
    rows: Sequence[tuple[str, ...]]
    turnover: int = 0
    chosen: Selection | None = None
    prices: Sequence[tuple[str, ...]] = ()


def payments(view: View) -> dict[str, Any]:
    """A panel per mechanism with payments, and the names of those without and of those with tiny ones."""
    paying, quiet, tiny = [], [], []
    for outcome in view.comparison:
        settlement = view.settlements[outcome.mechanism]
        if settlement is None:
            paying.append(_unbalanced(view, outcome))
        elif settlement.transfers:
            paying.append(_transfers(view, outcome, settlement))
        elif np.abs(outcome.payments).max() > view.unit.noise:
            tiny.append(view.title_of(outcome))
        else:
            quiet.append(view.title_of(outcome))
    return {
        "paying": [replace(panel, prices=_prices(view, panel.outcome)) for panel in paying],
        "quiet": join_names(quiet),
        "tiny": join_names(tiny),
        "few": FEW_TRANSFERS,
        "paid_at": PAID_AT,
    }


def _prices(view: View, outcome: Outcome) -> list[tuple[str, ...]]:
    """What is brought of each lot, and what its owner receives for a unit of it."""
    prices, brought = price_texts(outcome, view.unit), number_texts(outcome.contributions)
    chosen = view.select(outcome.contributions, "").agents if prices else []
    return [(name_tag(view.lots[lot]), brought[lot], prices[lot]) for lot in chosen]


def _transfers(view: View, outcome: Outcome, settlement: Settlement) -> PaymentPanel:
    transfers = settlement.transfers
    turnover = sum(transfer.cents for transfer in transfers)
    if len(transfers) > MAX_SHOWN:
        transfers = tuple(sorted(transfers, key=lambda transfer: -transfer.cents))[:MAX_TRANSFERS]
    rows = [
        (name_tag(transfer.payer), name_tag(transfer.payee), cents_text(settlement, transfer.cents))
        for transfer in transfers
    ]
    return PaymentPanel(outcome=outcome, settlement=settlement, rows=rows, turnover=turnover)


def _unbalanced(view: View, outcome: Outcome) -> PaymentPanel:
    """Payments that need somebody from outside: no transfers between members settle them."""
    chosen = view.select(np.abs(outcome.payments), "the largest payments")
    amounts = view.unit.column(outcome.payments[chosen.agents], signed=True)
    rows = [(name_tag(view.names[agent]), amount) for agent, amount in zip(chosen.agents, amounts, strict=True)]
    return PaymentPanel(outcome=outcome, settlement=None, chosen=chosen, rows=rows)


# Gains


def gains(view: View) -> dict[str, Any]:
    """A table of gains against fair gains, and what is to be said of each mechanism under which agents federate."""
    deals = view.deals
    known = bool(deals) and not np.isnan(deals[0].fair_gains).any()
    return {
        "table_of_gains": _gain_table(view, known=known) if deals else None,
        "fair": known,
        "sampled": known and bool(np.nan_to_num(deals[0].fair_gain_errors).any()),
        "limits": [said for outcome in deals for said in fairness_sentences(outcome, view.unit.text)],
        "together": view.comparison.best_welfare_together if view.comparison.outcomes else float("nan"),
        "stories": [{"outcome": outcome, "sentences": _story(view, outcome)} for outcome in view.comparison],
    }


def _gain_table(view: View, *, known: bool) -> dict[str, Any]:
    """What every member gains under each mechanism, and what part of its fair gain that is where it is known."""
    worst = np.min([outcome.ir_gaps for outcome in view.deals], axis=0)
    chosen = view.select(-worst, "the smallest gains")
    columns: dict[str, Sequence[str]] = {"Fair gain": view.unit.column(view.deals[0].fair_gains)} if known else {}
    for outcome in view.deals:
        gaps, shares = view.unit.column(outcome.ir_gaps, signed=True), gain_share_texts(outcome)
        pairs = zip(gaps, shares, outcome.ir_gaps, strict=True)
        cells = [
            Markup('<span class="{}-text">{}</span>{}').format(
                sign_class(gap), text, Markup("<small>{}</small>").format(share) if known else ""
            )
            for text, share, gap in pairs
        ]
        columns[view.title_of(outcome)] = cells
    rows = [(name_tag(view.names[agent]), *(texts[agent] for texts in columns.values())) for agent in chosen.agents]
    return {"heads": ("Member", *columns), "rows": rows, "chosen": chosen}


def _story(view: View, outcome: Outcome) -> list[str]:
    """Who would leave, what would keep them, what is reached together, and the lowest Shapley share."""
    settled = view.comparison.after_departures.get(outcome.mechanism)
    share = percent(view.comparison.share_of_best(outcome.welfare))
    reached = f"Welfare {view.unit.text(outcome.welfare)}, {share} of the best."
    if not outcome.federated:
        return [reached, "Everybody keeps exactly what it makes, so there is nothing to share."]
    told = [_leavers_sentence(view, outcome), *_subsidy_sentences(view, outcome), reached]
    if outcome.leavers:
        told.append(_departure_story(view, outcome, settled))
    return [*told, _share_verdict(view, outcome), *share_notes(outcome, view.unit)[:MAX_HARM_SENTENCES]]


def _leavers_sentence(view: View, outcome: Outcome) -> str:
    if outcome.leavers:
        return f"{len(outcome.leavers):,} of {len(outcome.agents):,} would leave."
    together = len(leaving_group(view.comparison, outcome.mechanism, view.unit).members)
    return f"Nobody would leave alone, but {together:,} would together." if together else "Nobody would leave."


def _subsidy_sentences(view: View, outcome: Outcome) -> list[str]:
    """What would keep those who would leave, the largest first."""
    leaving = np.flatnonzero(np.isin(outcome.agents, outcome.leavers))
    if not leaving.size:
        return []
    ranked = leaving[np.argsort(-outcome.endowments[leaving], kind="stable")]
    total = view.unit.text(float(outcome.endowments[leaving].sum()))
    named = [f"{who}: {amount}" for who, amount in _subsidies(view, ranked[:MAX_SUBSIDIES], outcome.endowments)]
    if ranked.size > MAX_SUBSIDIES:
        rest = float(outcome.endowments[ranked[MAX_SUBSIDIES:]].sum())
        named.append(f"{ranked.size - MAX_SUBSIDIES:,} others, together: {view.unit.text(rest)}")
    if ranked.size == 1:
        return [f"A subsidy of {total} would keep {view.names[ranked[0]]}."]
    return [f"Subsidies of {total} in total would keep each of them from leaving alone ({'; '.join(named)})."]


def _subsidies(view: View, ranked: Sequence[int] | np.ndarray, endowments: FloatArray) -> list[tuple[str, str]]:
    return [(view.names[agent], view.unit.text(float(endowments[agent]))) for agent in ranked]


def _departure_story(view: View, outcome: Outcome, settled: StableFederation | None) -> str:
    """Who leaves in which round, who is left, and with which welfare."""
    if settled is None:
        return f"{len(outcome.leavers):,} would leave; not followed for a baseline."
    rounds = [_who(departure.leavers, "leave") for departure in settled.departures]
    end = _who(settled.members, "stay") if settled.members else Markup("nobody is left")
    share = percent(view.comparison.share_of_best(settled.welfare))
    welfare = f"welfare {view.unit.text(settled.welfare)}, {share} of the best"
    return Markup("{}; {}: {}.").format(Markup("; then ").join(rounds), end, welfare)


def _who(names: Sequence[str], verb: str) -> Markup:
    """Names with their verb; a count where they are many."""
    if len(names) > MAX_LEAVERS_NAMED:
        return Markup(f"{len(names):,} {verb}")
    return Markup("{} {}").format(mention_list(names), f"{verb}s" if len(names) == 1 else verb)


def _share_verdict(view: View, outcome: Outcome) -> str:
    """The lowest part of its Shapley share that anybody gets back, the paper's measure of fairness."""
    if np.isnan(outcome.reciprocity_ratios).any():
        return (
            "Undefined: some group of members would be harmed beyond what its payoff curve describes, so there are no "
            "Shapley shares to compare with."
        )
    if np.isnan(outcome.lowest_fair_part):
        return "Nobody has a Shapley share of anything."
    gaps = np.where(np.abs(outcome.reciprocity_gaps) <= view.unit.noise, 0.0, outcome.reciprocity_gaps)
    short = (without_rounding(outcome, outcome.reciprocity_gaps) < 0).any()
    text = "Everybody gets at least its Shapley share." if gaps.any() else "Everybody gets exactly its Shapley share."
    if short:
        text = f"Lowest Shapley share returned: {lowest_share_text(outcome)}."
    worst = outcome.worst_reciprocity
    lower = worst.value < outcome.lowest_fair_part - LOWER_SHARE
    if worst.searched > 1 and lower and not np.isnan(outcome.fair_parts[worst.agent]):
        lowest = share_text(worst.value, float(outcome.shapley_values[worst.agent]))
        text += f" At another equilibrium of the same deal as low as {lowest}."
    return text


# How sure


@dataclass(frozen=True, kw_only=True, eq=False)
class OutlookPanel:
    """What may become of the agents under one mechanism."""

    outlook: Outlook
    outcome: Outcome
    n_open: int
    gains: Sequence[BarRow]
    payments: Sequence[BarRow]
    chosen: Selection
    subsidies: Sequence[tuple[str, str]]


def uncertainty(view: View) -> dict[str, Any]:
    """A panel per mechanism with error bars for payments and gains, and who may leave."""
    outlooks = list(view.comparison.uncertainty.values())
    lines = [NumberLine.over(*(outlook.interval(what) for outlook in outlooks)) for what in ("ir_gaps", "payments")]
    return {
        "panels": [_outlook_panel(view, outlook, *lines) for outlook in outlooks],
        "level": percent(outlooks[0].level, decimals=0),
        "max_subsidies": MAX_SUBSIDIES,
        "likely": percent(1.0 - UNLIKELY, decimals=0),
    }


def _outlook_panel(view: View, outlook: Outlook, gain_line: NumberLine, payment_line: NumberLine) -> OutlookPanel:
    outcome, chances = view.comparison[outlook.mechanism], outlook.leave_probabilities
    doubt = chances * (1.0 - chances)
    chosen = view.select(doubt + 1e-9 * np.abs(outcome.ir_gaps), "the least certain part in it")
    gains = _whiskers(view, outlook.interval("ir_gaps"), outcome.ir_gaps, chosen.agents, gain_line)
    words = [
        "" if outlook.assumption else f"leaves: {probability_text(float(chances[agent]), outlook.n_draws)}"
        for agent in chosen.agents
    ]
    pays = bool(np.nan_to_num(outlook.outcomes.payments).any())
    needed = np.flatnonzero(outlook.keeping_endowments > view.unit.noise)
    ranked = needed[np.argsort(-outlook.keeping_endowments[needed], kind="stable")]
    return OutlookPanel(
        outlook=outlook,
        outcome=outcome,
        n_open=int(((chances > UNLIKELY) & (chances < 1.0 - UNLIKELY)).sum()),
        gains=[replace(row, word=word) for row, word in zip(gains, words, strict=True)],
        payments=_whiskers(view, outlook.interval("payments"), outcome.payments, chosen.agents, payment_line)
        if pays
        else (),
        chosen=chosen,
        subsidies=_subsidies(view, ranked, outlook.keeping_endowments),
    )


def _whiskers(
    view: View, ends: FloatArray, middles: FloatArray, agents: Sequence[int], line: NumberLine
) -> list[BarRow]:
    lows, highs = (view.unit.column(ends[list(agents), side], signed=True) for side in (0, 1))
    rows = []
    for agent, low, high in zip(agents, lows, highs, strict=True):
        name, middle = view.names[agent], float(middles[agent])
        picture = whisker(line, ends[agent], middle, sign_class(middle), f"{name}: {low} to {high}")
        rows.append(BarRow(label=name_tag(name), picture=picture, number=f"{low} to {high}"))
    return rows


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

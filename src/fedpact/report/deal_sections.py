"""What the sections about the deal show: contributions, payments, gains, how sure they are, fairness, welfare;
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
from fedpact.report.charts import (
    CAP_REACH,
    BarRow,
    NumberLine,
    agent_bar,
    bar,
    dumbbell,
    payment_flow,
    sign_class,
    whisker,
)
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
    share_texts,
    without_rounding,
)
from fedpact.report.stability import leaving_group
from fedpact.report.view import FEW, MAX_SHOWN, Selection, View, losses_first
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """Contributions under one mechanism, or alone."""

    title: str
    css: str
    contributions: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ContributionGroup:
    """The bars of one agent, and the most it could give."""

    agent: str
    rows: Sequence[BarRow]
    note: str


def contributions(view: View) -> dict[str, Any]:
    """A group of bars per agent (or lot), one bar per mechanism and one for standing alone."""
    profiles = _profiles(view)
    numbers = np.array([profile.contributions for profile in profiles])
    chosen = view.select(numbers.max(axis=0), "the largest contributions")
    shown, caps = numbers[:, chosen.agents], view.federation.arrays.reachable_caps
    near = caps[chosen.agents][caps[chosen.agents] <= CAP_REACH * shown.max()]
    line = NumberLine.over(shown, near)
    texts = np.array(number_texts(shown.ravel())).reshape(shown.shape)
    groups = [
        _contribution_bars(view, agent, profiles, line, texts[:, place].tolist())
        for place, agent in enumerate(chosen.agents)
    ]
    return {
        "profiles": profiles,
        "totals": list(zip(profiles, number_texts(numbers.sum(axis=1)), strict=True)),
        "groups": groups,
        "chosen": chosen,
        "caps_marked": caps <= line.high,
        "lots": _which_lots(view),
        "shared": shared_cap_sentences(view.chosen, view.unit) if view.chosen is not None else [],
    }


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


def _profiles(view: View) -> list[Profile]:
    """What was solved, with standing alone last, whether it was among it or not."""
    made = [
        Profile(title=view.title_of(outcome), css=view.colour(outcome), contributions=outcome.contributions)
        for outcome in view.comparison
    ]
    alone = [profile for profile in made if profile.css == "alone"]
    if not alone:
        alone = [Profile(title="Alone", css="alone", contributions=standalone_optimum(view.federation)[0])]
    return [profile for profile in made if profile.css != "alone"] + alone


def _contribution_bars(
    view: View, agent: int, profiles: Sequence[Profile], line: NumberLine, texts: Sequence[str]
) -> ContributionGroup:
    who, cap = view.lots[agent], float(view.federation.arrays.reachable_caps[agent])
    rows = []
    for profile, text in zip(profiles, texts, strict=True):
        given = float(profile.contributions[agent])
        title = f"{who}, {profile.title}: {text}"
        picture = bar(line, given, profile.css, title, mark=cap if cap <= line.high else None)
        at_cap = 0 < cap * (1.0 - BOUND_TOLERANCE) <= given
        before = ("all of it " if view.federation.has_lots else "all it has ") if at_cap else ""
        if view.federation.has_lots and given == 0.0:
            before = "stays at home "
        rows.append(BarRow(label=profile.title, picture=picture, number=text, before=before))
    note = "no cap" if np.isinf(cap) else f"can give up to {given_text(cap)}" if cap > 0 else "has nothing to give"
    if any(agent in shared.lots for shared in view.federation.shared_caps):
        note += ", counting the lots it shares a cap with"
    return ContributionGroup(agent=who, rows=rows, note=note)


# Payments


@dataclass(frozen=True, kw_only=True, eq=False)
class PaymentPanel:
    """The payments of one outcome: transfers between the members or, if they do not balance, a list."""

    outcome: Outcome
    settlement: Settlement | None
    rows: Sequence[tuple[str, ...]]
    picture: str = ""
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
    ident = f"flow-{view.comparison.outcomes.index(outcome)}"
    picture = payment_flow(settlement, f"Who pays whom under {view.title_of(outcome)}", ident)
    rows = [
        (name_tag(transfer.payer), name_tag(transfer.payee), cents_text(settlement, transfer.cents))
        for transfer in transfers
    ]
    return PaymentPanel(outcome=outcome, settlement=settlement, rows=rows, picture=picture, turnover=turnover)


def _unbalanced(view: View, outcome: Outcome) -> PaymentPanel:
    """Payments that need somebody from outside: no transfers between members settle them."""
    chosen = view.select(np.abs(outcome.payments), "the largest payments")
    amounts = view.unit.column(outcome.payments[chosen.agents], signed=True)
    rows = [(name_tag(view.names[agent]), amount) for agent, amount in zip(chosen.agents, amounts, strict=True)]
    return PaymentPanel(outcome=outcome, settlement=None, chosen=chosen, rows=rows)


# Gains


@dataclass(frozen=True, kw_only=True, eq=False)
class MechanismPanel:
    """Bars of the agents under one mechanism, and the subsidies that would keep those who would leave."""

    outcome: Outcome
    note: str
    rows: Sequence[BarRow] = ()
    chosen: Selection | None = None
    subsidies: Sequence[tuple[str, str]] = ()
    rest: str = ""
    total: str = ""


def gains(view: View) -> dict[str, Any]:
    """A panel of diverging bars per mechanism under which agents federate."""
    line = NumberLine.over(*(outcome.ir_gaps for outcome in view.deals))
    panels = [_gain_panel(view, outcome, line) for outcome in view.deals]
    return {"panels": panels, "max_subsidies": MAX_SUBSIDIES}


def _gain_panel(view: View, outcome: Outcome, line: NumberLine) -> MechanismPanel:
    gaps = np.where(np.abs(outcome.ir_gaps) <= view.unit.noise, 0.0, outcome.ir_gaps)
    chosen = view.select(losses_first(gaps), "the largest losses and gains")
    n_leavers = len(outcome.leavers)
    together = len(leaving_group(view.comparison, outcome.mechanism, view.unit).members)
    if n_leavers:
        note = f"{n_leavers:,} of {len(outcome.agents):,} would leave."
    else:
        note = f"Nobody would leave alone, but {together:,} would together." if together else "Nobody would leave."
    texts = view.unit.column(gaps[chosen.agents], signed=True)
    rows = []
    for agent, text in zip(chosen.agents, texts, strict=True):
        name, gap = outcome.agents[agent], float(gaps[agent])
        word = "would leave" if name in outcome.leavers else None
        rows.append(agent_bar(line, name, gap, text, word=word, text_css=f"{sign_class(gap)}-text" if gap else ""))
    leaving = np.flatnonzero(np.isin(outcome.agents, outcome.leavers))
    ranked = leaving[np.argsort(-outcome.endowments[leaving], kind="stable")]
    rest = float(outcome.endowments[ranked[MAX_SUBSIDIES:]].sum())
    return MechanismPanel(
        outcome=outcome,
        note=note,
        rows=rows,
        chosen=chosen,
        subsidies=_subsidies(view, ranked, outcome.endowments),
        rest=f"{ranked.size - MAX_SUBSIDIES:,} others, together: {view.unit.text(rest)}",
        total=view.unit.text(float(outcome.endowments[leaving].sum())),
    )


def _subsidies(view: View, ranked: Sequence[int] | np.ndarray, endowments: FloatArray) -> list[tuple[str, str]]:
    return [(view.names[agent], view.unit.text(float(endowments[agent]))) for agent in ranked]


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


# Fairness


def fairness(view: View) -> dict[str, Any]:
    """A table of gains against fair gains, and a panel of dumbbells, per mechanism under which agents federate."""
    deals = view.deals
    line = NumberLine.over(*(part for deal in deals for part in (deal.payoffs + deal.payments, deal.shapley_values)))
    alone = [view.title_of(outcome) for outcome in view.comparison if not outcome.federated]
    sampled = bool(deals) and bool(np.nan_to_num(deals[0].fair_gain_errors).any())
    return {
        "gains": _fair_gains(view) if deals and not np.isnan(deals[0].fair_gains).any() else None,
        "sampled": sampled,
        "limits": [said for outcome in deals for said in fairness_sentences(outcome, view.unit.text)],
        "panels": [_share_panel(view, outcome, line) for outcome in deals],
        "alone": alone[:1],
    }


def _fair_gains(view: View) -> dict[str, Any]:
    """The fair gain of every member, and what it gains under each mechanism, with its part of the fair gain."""
    fair = view.deals[0].fair_gains
    chosen = view.select(np.abs(fair), "the largest fair gains")
    columns: dict[str, Sequence[str]] = {"Fair gain": view.unit.column(fair)}
    for outcome in view.deals:
        gains, shares = view.unit.column(outcome.ir_gaps, signed=True), gain_share_texts(outcome)
        cells = [Markup("{}<small>{}</small>").format(gain, share) for gain, share in zip(gains, shares, strict=True)]
        columns[view.title_of(outcome)] = cells
    rows = [(name_tag(view.names[agent]), *(texts[agent] for texts in columns.values())) for agent in chosen.agents]
    return {"heads": ("Member", *columns), "rows": rows, "chosen": chosen}


def _share_panel(view: View, outcome: Outcome, line: NumberLine) -> MechanismPanel:
    gaps = np.where(np.abs(outcome.reciprocity_gaps) <= view.unit.noise, 0.0, outcome.reciprocity_gaps)
    exact = not gaps.any()
    verdict = "Everybody gets exactly its share." if exact else _share_verdict(outcome)
    note = " ".join([verdict, *share_notes(outcome, view.unit)[:MAX_HARM_SENTENCES]])
    if exact and len(gaps) > FEW:
        return MechanismPanel(outcome=outcome, note=note)
    chosen = view.select(losses_first(gaps), "the largest differences either way")
    gap_texts = view.unit.column(gaps[chosen.agents], signed=True)
    rows, parts = [], share_texts(outcome)
    for agent, gap in zip(chosen.agents, gap_texts, strict=True):
        benefit, share = float(outcome.payoffs[agent] + outcome.payments[agent]), float(outcome.shapley_values[agent])
        short, undefined = gaps[agent] < 0, bool(np.isnan(share))
        title = f"{view.names[agent]}: benefit {view.unit.text(benefit)}, Shapley share {view.unit.text(share)}"
        rows.append(
            BarRow(
                label=name_tag(view.names[agent]),
                picture=dumbbell(line, share, benefit, "alone" if undefined else "loss" if short else "gain", title),
                number=parts[agent],
                word=None if undefined else gap,
                css="loss-text" if short else "",
            )
        )
    return MechanismPanel(outcome=outcome, note=note, rows=rows, chosen=chosen)


def _share_verdict(outcome: Outcome) -> str:
    ratios = outcome.reciprocity_ratios
    if np.isnan(ratios).any():
        return (
            "Undefined: some group of members would be harmed beyond what its payoff curve describes, so there are no "
            "Shapley shares to compare with."
        )
    short = (without_rounding(outcome, outcome.reciprocity_gaps) < 0).any()
    text = f"Lowest: {lowest_share_text(outcome)}." if short else "Everybody gets at least its share."
    worst = outcome.worst_reciprocity
    lower = worst.value < outcome.lowest_fair_part - LOWER_SHARE
    if worst.searched > 1 and lower and not np.isnan(outcome.fair_parts[worst.agent]):
        lowest = share_text(worst.value, float(outcome.shapley_values[worst.agent]))
        text += f" At another equilibrium of the same deal as low as {lowest}."
    return text


# Welfare


@dataclass(frozen=True, kw_only=True, eq=False)
class WelfareGroup:
    """The welfare of one outcome, with everybody in and once the unwilling have left."""

    outcome: Outcome
    rows: Sequence[BarRow]
    story: str


def welfare(view: View) -> dict[str, Any]:
    """Two bars per mechanism, with the best possible welfare as a tick."""
    stable = view.comparison.after_departures
    line = NumberLine.over(
        [outcome.welfare for outcome in view.comparison],
        [settled.welfare for settled in stable.values()],
        [view.best_welfare],
    )
    together = view.comparison.best_welfare_together if view.comparison.outcomes else float("nan")
    return {
        "together": together,
        "apart": view.best_welfare > together + view.unit.noise,
        "groups": [
            WelfareGroup(
                outcome=outcome,
                rows=_welfare_bars(view, outcome, stable.get(outcome.mechanism), line),
                story=_departure_story(outcome, stable.get(outcome.mechanism)),
            )
            for outcome in view.comparison
        ],
    }


def _welfare_bars(view: View, outcome: Outcome, settled: StableFederation | None, line: NumberLine) -> list[BarRow]:
    colour = view.colour(outcome)
    levels = [("everybody stays" if outcome.federated else "everybody alone", outcome.welfare, colour)]
    if settled is not None:
        levels.append(("after departures", settled.welfare, f"{colour} later"))
    texts = view.unit.column([level for _, level, _ in levels])
    return [
        BarRow(
            label=label,
            picture=bar(line, level, css, f"{view.title_of(outcome)}, {label}: {text}", mark=view.best_welfare),
            number=text,
            word=percent(view.comparison.share_of_best(level)),
            word_css="below",
        )
        for (label, level, css), text in zip(levels, texts, strict=True)
    ]


def _departure_story(outcome: Outcome, settled: StableFederation | None) -> str:
    """Who leaves in which round, and who is left."""
    if settled is None:
        return f"{len(outcome.leavers):,} would leave; not followed for a baseline." if outcome.leavers else ""
    if not settled.departures:
        return "Nobody leaves."
    rounds = [_who(departure.leavers, "leave") for departure in settled.departures]
    end = _who(settled.members, "stay") if settled.members else Markup("nobody is left")
    return Markup("{}; {}.").format(Markup("; then ").join(rounds), end)


def _who(names: Sequence[str], verb: str) -> Markup:
    """Names with their verb; a count where they are many."""
    if len(names) > MAX_LEAVERS_NAMED:
        return Markup(f"{len(names):,} {verb}")
    return Markup("{} {}").format(mention_list(names), f"{verb}s" if len(names) == 1 else verb)


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

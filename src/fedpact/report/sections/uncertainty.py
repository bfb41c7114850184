"""How sure the deal is while the numbers behind it are uncertain."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedpact.comparison import Outlook
from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, listed, mention, name
from fedpact.report.numbers import SPACE, probability_text
from fedpact.report.sections.parts import BarRow, bar_table, panel, section
from fedpact.report.svg.bars import Axis, whisker
from fedpact.report.view import View
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text

__all__ = ["uncertainty"]

MOST_SUBSIDISED = 8
DOUBTFUL = 0.05  # leaving this probably, or staying this probably, is settled for practical purposes


def uncertainty(view: View) -> Html:
    """A panel per mechanism with error bars for payments and gains, and who may leave."""
    prospects = view.comparison.uncertainty
    gains = Axis.over(*(outlook.interval("ir_gaps") for outlook in prospects.values()))
    payments = Axis.over(*(outlook.interval("payments") for outlook in prospects.values()))
    first = next(iter(prospects.values()))
    level = f"{100 * first.level:.0f}{SPACE}%"
    return section(
        "uncertainty",
        "How sure is this?",
        el(
            "p",
            "The numbers behind this deal were estimated, so the deal is uncertain too. Each mechanism was worked out "
            f"again for federations as they may be. A dot is the amount above, the line around it where {level} of "
            "these federations lie. A line across zero means that it is open whether the member gains.",
        ),
        el("div", [_panel(view, outlook, gains, payments) for outlook in prospects.values()], class_=view.panels),
    )


def _panel(view: View, outlook: Outlook, gains: Axis, payments: Axis) -> Html:
    outcome = view.comparison[outlook.mechanism]
    doubt = outlook.leave_probabilities * (1.0 - outlook.leave_probabilities)
    chosen = view.select(doubt + 1e-9 * np.abs(outcome.ir_gaps), "the least certain part in it")
    agents = list(chosen.agents)
    title = view.title_of(outcome)
    pays = bool(np.nan_to_num(outlook.payments).any())
    chances = outlook.leave_probabilities[agents]
    words = [f"leaves: {probability_text(float(chance), outlook.n_draws)}" for chance in chances]
    return panel(
        view.colour(outcome),
        title,
        el("p", _count(outlook), class_="note"),
        bar_table(
            f"Gain against standing alone under {title}, with its interval",
            _rows(view, outlook.interval("ir_gaps"), outcome.ir_gaps, dict(zip(agents, words, strict=True)), gains),
            heads=("Member", f"Gain, {view.unit.label}"),
        ),
        bar_table(
            f"Payment under {title}, with its interval",
            _rows(view, outlook.interval("payments"), outcome.payments, dict.fromkeys(agents), payments),
            heads=("Member", f"Payment, {view.unit.label}"),
        )
        if pays
        else None,
        chosen.note,
        _keeping(view, outcome, outlook),
    )


def _rows(
    view: View,
    ends: FloatArray,
    middles: FloatArray,
    words: Mapping[int, Child],
    axis: Axis,
) -> list[BarRow]:
    """A row for each agent there is a word on, or None."""
    lows, highs = (view.unit.column(ends[list(words), side], signed=True) for side in (0, 1))
    rows = []
    for place, (agent, word) in enumerate(words.items()):
        text = f"{lows[place]} to {highs[place]}"
        sign = "loss" if middles[agent] < 0 else "gain"
        picture = whisker(axis, ends[agent], float(middles[agent]), sign, f"{view.names[agent]}: {text}")
        rows.append(BarRow(label=name(view.names[agent]), picture=picture, number=text, word=word))
    return rows


def _count(outlook: Outlook) -> str:
    open_ = int(((outlook.leave_probabilities > DOUBTFUL) & (outlook.leave_probabilities < 1 - DOUBTFUL)).sum())
    doubt = f"Of {count_text(open_, 'member')} it is open whether they stay." if open_ else "Who stays is settled."
    left_out = f" {count_text(outlook.n_unsolved, 'draw')} without an outcome." if outlook.n_unsolved else ""
    return f"{count_text(outlook.n_draws, 'draw')}. {doubt}{left_out}"


def _keeping(view: View, outcome: Outcome, outlook: Outlook) -> Child:
    """What keeps those who may leave, with the probability the outlook is for."""
    needed = np.flatnonzero(outlook.keeping_endowments > view.unit.noise)
    if not needed.size:
        return None
    ranked = needed[np.argsort(-outlook.keeping_endowments[needed], kind="stable")]
    surely = f"{100 * outlook.assurance:.0f}{SPACE}%"
    if ranked.size == 1:
        amount = view.unit.text(float(outlook.keeping_endowments[ranked[0]]))
        return el("p", "A subsidy of ", el("b", amount), " keeps ", listed([view.names[ranked[0]]]), f" with {surely}.")
    items = [
        el("li", mention(view.names[agent]), f": {view.unit.text(float(outlook.keeping_endowments[agent]))}")
        for agent in ranked[:MOST_SUBSIDISED]
    ]
    if ranked.size > MOST_SUBSIDISED:
        items.append(el("li", f"and {count_text(ranked.size - MOST_SUBSIDISED, 'other')}."))
    return [el("p", f"Subsidies that keep each with {surely} probability:"), el("ul", items)]

"""Who gains and who loses against standing alone, who would leave, and what would keep them."""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, listed, mention, name
from fedpact.report.sections.parts import BarRow, bar_table, panel, section
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.view import View, losses_first

__all__ = ["gains"]

MOST_SUBSIDISED = 8


def gains(view: View) -> Html:
    """A panel of diverging bars per mechanism under which agents federate."""
    deals = view.deals
    axis = Axis.over(*(outcome.ir_gaps for outcome in deals))
    return section(
        "gains",
        "Who gains, who loses, who would leave?",
        el(
            "p",
            f"Each member's net benefit minus what it could reach alone, in {view.unit.label}. ",
            el("span", "Blue with a plus", class_="gain-text"),
            " is a gain from taking part; ",
            el("span", "orange with a minus", class_="loss-text"),
            " is a loss: such a member would rather leave.",
        ),
        el("div", [_panel(view, outcome, axis) for outcome in deals], class_=view.panels) if deals else None,
        el("p", "No mechanism under which the members federate was solved.") if not deals else None,
    )


def _panel(view: View, outcome: Outcome, axis: Axis) -> Html:
    gaps = np.where(np.abs(outcome.ir_gaps) <= view.unit.noise, 0.0, outcome.ir_gaps)
    chosen = view.select(losses_first(gaps), "the largest losses and gains")
    texts = view.unit.column(gaps[list(chosen.agents)], signed=True)
    leavers = set(outcome.leavers)
    rows = [
        BarRow(
            label=name(view.names[agent]),
            picture=bar(axis, float(gaps[agent]), _sign(gaps[agent]), f"{view.names[agent]}: {text}"),
            number=text,
            word="would leave" if view.names[agent] in leavers else None,
            css=f"{_sign(gaps[agent])}-text" if gaps[agent] else "",
        )
        for agent, text in zip(chosen.agents, texts, strict=True)
    ]
    caption = f"Gain against standing alone under {view.title_of(outcome)}"
    return panel(
        view.colour(outcome),
        view.title_of(outcome),
        el("p", _count(outcome), class_="note"),
        bar_table(caption, rows, heads=("Member", f"Gain, {view.unit.label}")),
        chosen.note,
        _keeping(view, outcome),
    )


def _sign(gap: float) -> str:
    return "loss" if gap < 0 else "gain"


def _count(outcome: Outcome) -> str:
    count = len(outcome.leavers)
    if not count:
        return "Nobody would leave."
    return f"{count:,} of {len(outcome.agents):,} would leave."


def _keeping(view: View, outcome: Outcome) -> Child:
    """The subsidies that would keep the leavers."""
    if not outcome.leavers:
        return None
    leaving = np.flatnonzero(np.isin(outcome.agents, outcome.leavers))
    ranked = leaving[np.argsort(-outcome.endowments[leaving], kind="stable")]
    total = view.unit.text(float(outcome.endowments[leaving].sum()))
    if len(ranked) == 1:
        return el("p", "A subsidy of ", el("b", total), " would keep ", listed(outcome.leavers), ".")
    items = [
        el("li", mention(view.names[agent]), f": {view.unit.text(float(outcome.endowments[agent]))}")
        for agent in ranked[:MOST_SUBSIDISED]
    ]
    if len(ranked) > MOST_SUBSIDISED:
        rest = float(outcome.endowments[ranked[MOST_SUBSIDISED:]].sum())
        items.append(el("li", f"{len(ranked) - MOST_SUBSIDISED:,} others, together: {view.unit.text(rest)}"))
    return [el("p", "Subsidies of ", el("b", total), " in total would keep them:"), el("ul", items)]

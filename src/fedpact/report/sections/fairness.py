"""What each agent gets out of the federation against its Shapley share."""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, name
from fedpact.report.numbers import percent, share_text
from fedpact.report.sections.parts import BarRow, bar_table, panel, section
from fedpact.report.svg.bars import Axis, dumbbell
from fedpact.report.view import FEW, View, losses_first

__all__ = ["fairness"]

KEYS = {"ring": "Shapley share", "gain": "benefit, at least the share", "loss": "benefit, less than the share"}


def fairness(view: View) -> Html:
    """A panel of dumbbells per mechanism under which agents federate."""
    deals = view.deals
    axis = Axis.over(*(numbers for deal in deals for numbers in (deal.payoffs + deal.payments, deal.shapley_values)))
    return section(
        "fairness",
        "Does everybody get its fair share?",
        el(
            "p",
            "A member's Shapley share is what it adds to the federation, averaged over all orders in which members "
            "could have joined. It is compared with the member's benefit, that is its payoff plus its payment, before "
            "costs.",
        ),
        el(
            "p",
            *(
                part
                for css, text in KEYS.items()
                for part in (el("span", el("span", class_=f"key {css}"), text, class_="nowrap"), " ")
            ),
            class_="legend",
        ),
        el("div", [_panel(view, outcome, axis) for outcome in deals], class_=view.panels) if deals else None,
        _alone(view),
    )


def _panel(view: View, outcome: Outcome, axis: Axis) -> Html:
    benefits, shares = outcome.payoffs + outcome.payments, outcome.shapley_values
    gaps = np.where(np.abs(outcome.reciprocity_gaps) <= view.unit.noise, 0.0, outcome.reciprocity_gaps)
    exact = not gaps.any()
    heading = el("p", "Everybody gets exactly its share." if exact else _verdict(outcome), class_="note")
    if exact and len(gaps) > FEW:
        return panel(view.colour(outcome), view.title_of(outcome), heading)
    chosen = view.select(losses_first(gaps), "the largest differences either way")
    shown = list(chosen.agents)
    gap_texts = view.unit.column(gaps[shown], signed=True)
    rows = []
    for agent, gap in zip(shown, gap_texts, strict=True):
        benefit, share = view.unit.text(float(benefits[agent])), view.unit.text(float(shares[agent]))
        below = gaps[agent] < 0
        rows.append(
            BarRow(
                label=name(view.names[agent]),
                picture=dumbbell(
                    axis,
                    float(shares[agent]),
                    float(benefits[agent]),
                    "alone" if np.isnan(shares[agent]) else "loss" if below else "gain",
                    f"{view.names[agent]}: benefit {benefit}, Shapley share {share}",
                ),
                number=share_text(float(outcome.reciprocity_ratios[agent]), float(shares[agent])),
                word=None if np.isnan(shares[agent]) else gap,
                css="loss-text" if below else "",
            )
        )
    caption = f"Benefit against Shapley share under {view.title_of(outcome)}"
    return panel(
        view.colour(outcome),
        view.title_of(outcome),
        heading,
        bar_table(caption, rows, heads=("Member", "Share back")),
        chosen.note,
    )


def _verdict(outcome: Outcome) -> Child:
    ratios = outcome.reciprocity_ratios
    if np.isnan(ratios).any():
        return (
            "Undefined: some group of members would be harmed beyond what its payoff curve describes, so there are no "
            "Shapley shares to compare with."
        )
    agent = int(ratios.argmin())
    if ratios[agent] >= 1.0 - 1e-9:
        text = "Everybody gets at least its share."
    else:
        lowest = share_text(float(ratios[agent]), float(outcome.shapley_values[agent]))
        text = f"Lowest: {lowest}."
    worst = outcome.worst_reciprocity
    if worst.searched > 1 and worst.value < ratios[agent] - 1e-6:
        text += f" At another equilibrium of the same deal as low as {percent(worst.value, decimals=0)}."
    return text


def _alone(view: View) -> Html | None:
    alone = [view.title_of(outcome) for outcome in view.comparison if not outcome.federated]
    text = f"Under {alone[0]} everybody keeps exactly what it makes, so there is nothing to share." if alone else ""
    return el("p", text, class_="note") if text else None

"""The top of the report: the recommendation with its reason, the headline numbers, the mechanisms at a glance."""

from __future__ import annotations

import numpy as np

from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, listed, mention, name, table
from fedpact.report.numbers import SPACE, percent, share_text
from fedpact.report.sections.parts import folded
from fedpact.report.view import View
from fedpact.utils.words import count_text

__all__ = ["summary"]

LONGEST_REASON = 900


def summary(view: View) -> Html:
    """Recommendation, headline numbers, overview and what could not be solved."""
    unsolved = [
        el("p", el("b", f"{view.comparison.title(mechanism)} has no outcome: "), reason, class_="notice")
        for mechanism, reason in view.comparison.unsolved.items()
    ]
    return el(
        "section",
        el("h2", "Summary", id="summary-heading", class_="plain"),
        _recommendation(view),
        _headlines(view),
        _overview(view) if view.comparison.outcomes else None,
        unsolved,
        id="summary",
        aria_labelledby="summary-heading",
    )


def _recommendation(view: View) -> Html:
    recommendation = view.comparison.recommendation if view.comparison.outcomes else None
    if recommendation is None:
        text = "No mechanism with payments was solved, so nothing is recommended."
        return el("div", el("p", text), class_="recommendation")
    about = view.comparison.mechanism(recommendation.mechanism).description
    short = len(recommendation.reason) <= LONGEST_REASON
    return el(
        "div",
        el("p", "We recommend", class_="kicker"),
        el("p", f"The {view.comparison.title(recommendation.mechanism)} mechanism", class_="choice"),
        el("p", about) if about else None,
        el("p", recommendation.reason) if short else folded("The reason in full", el("p", recommendation.reason)),
        class_="recommendation",
    )


def _headlines(view: View) -> Html:
    chosen = view.chosen
    cards = [_card("Members", f"{view.federation.n_agents:,}", None if chosen is None else _leaving(chosen))]
    if chosen is not None:
        cards += [_welfare_card(view, chosen), _money_card(view, chosen), _fairness_card(chosen)]
    return el("dl", cards, class_="cards")


def _leaving(outcome: Outcome) -> Child:
    if not outcome.leavers:
        return "nobody would leave"
    return [listed(outcome.leavers, most=3), " would leave"]


def _welfare_card(view: View, chosen: Outcome) -> Html:
    stable = view.comparison.after_departures.get(chosen.mechanism)
    welfare = stable.welfare if stable is not None else chosen.welfare
    alone = float(chosen.standalone.sum())
    against = f"; {percent(welfare / alone - 1.0, signed=True)} against everybody alone" if alone > 0 else ""
    left = "Welfare, once the unwilling have left" if chosen.leavers and stable is not None else "Welfare, all members"
    share = view.comparison.share_of_best(welfare)
    of_best = f"{percent(share)} of the best possible" if np.isfinite(share) else ""
    return _card(left, view.unit.text(welfare), f"{of_best}{against}".removeprefix("; "))


def _money_card(view: View, chosen: Outcome) -> Html:
    settlement = view.settlements[chosen.mechanism]
    label = "Changes hands"
    if settlement is None:
        return _card(label, view.unit.text(float(np.abs(chosen.payments).sum()) / 2), "the payments do not balance")
    if not settlement.transfers:
        return _card(label, "nothing", "no payments")
    received = float(np.maximum(chosen.payments, 0.0).sum())
    return _card(label, view.unit.text(received), f"in {count_text(len(settlement.transfers), 'transfer')}")


def _fairness_card(chosen: Outcome) -> Html:
    label = "Lowest Shapley share returned"
    if np.isnan(chosen.reciprocity_ratios).any():
        return _card(label, "undefined", "some groups of members have no payoff")
    agent = int(chosen.reciprocity_ratios.argmin())
    text = share_text(float(chosen.reciprocity_ratios[agent]), float(chosen.shapley_values[agent]))
    if chosen.reciprocity >= 1.0 - 1e-9:
        return _card(label, text, "everybody gets its share, or more")
    return _card(label, text, ["to ", mention(chosen.agents[agent])])


def _card(label: str, figure: str, note: Child) -> Html:
    wrapping = figure.replace(SPACE, " ")  # a long amount may go below its currency
    return el("div", el("dt", label), el("dd", wrapping, class_="figure"), el("dd", note) if note else None)


def _overview(view: View) -> Html:
    heads = ("Mechanism", "Welfare", "of the best", "after departures", "would leave", "lowest share back")
    welfare = view.unit.column([outcome.welfare for outcome in view.comparison])
    rows = []
    for outcome, text in zip(view.comparison, welfare, strict=True):
        stable = view.comparison.after_departures.get(outcome.mechanism)
        later = "–" if stable is None else percent(view.comparison.share_of_best(stable.welfare))
        rows.append(
            (
                _mechanism(view, outcome),
                text,
                percent(view.comparison.share_of_best(outcome.welfare)),
                later,
                _leavers(outcome),
                _lowest(outcome),
            )
        )
    return table(f"The mechanisms at a glance; welfare in {view.unit.label}", heads, rows, css="overview stacked")


def _mechanism(view: View, outcome: Outcome) -> Child:
    about = view.comparison.mechanism(outcome.mechanism).description
    head = [el("span", class_=f"swatch {view.colour(outcome)}"), view.title_of(outcome)]
    return [el("span", head, class_="nowrap"), el("small", about) if about else None]


def _leavers(outcome: Outcome) -> Child:
    count = len(outcome.leavers)
    if not outcome.federated:
        return "–"
    if not count:
        return "nobody"
    return name(outcome.leavers[0]) if count == 1 else f"{count:,} of {len(outcome.agents):,}"


def _lowest(outcome: Outcome) -> str:
    ratios = outcome.reciprocity_ratios
    if np.isnan(ratios).any():
        return "undefined"
    agent = int(ratios.argmin())
    return share_text(float(ratios[agent]), float(outcome.shapley_values[agent]))

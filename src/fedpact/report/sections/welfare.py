"""How much each mechanism achieves for all together, with everybody in and once the unwilling have left."""

from __future__ import annotations

from collections.abc import Sequence

from fedpact.deals import Outcome
from fedpact.report.html import Child, Html, el, listed
from fedpact.report.numbers import percent
from fedpact.report.sections.parts import BarRow, bar_table, group, section
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.view import View
from fedpact.stability import StableFederation

__all__ = ["welfare"]

MOST_NAMED = 3


def welfare(view: View) -> Html:
    """Two bars per mechanism, with the best possible welfare as a tick."""
    stable = view.comparison.after_departures
    axis = Axis.over(
        [outcome.welfare for outcome in view.comparison],
        [settled.welfare for settled in stable.values()],
        [view.best_welfare],
    )
    return section(
        "welfare",
        "How good is the deal for all together?",
        el(
            "p",
            "Welfare is the net benefits of all members added up. The best that any contributions could reach is ",
            el("b", view.unit.text(view.best_welfare)),
            ", marked by the upright line. Members who would do better alone may leave; then the others make a new "
            "deal, until nobody wants to leave. Those who left count with what they reach alone.",
        ),
        el(
            "div",
            [
                group(_head(view, outcome, settled), _bars(view, outcome, settled, axis))
                for outcome, settled in ((outcome, stable.get(outcome.mechanism)) for outcome in view.comparison)
            ],
            class_="groups",
        ),
    )


def _head(view: View, outcome: Outcome, settled: StableFederation | None) -> Child:
    head = el("h3", el("span", class_=f"swatch {view.colour(outcome)}"), view.title_of(outcome))
    if settled is not None:
        return [head, el("p", _story(settled), class_="note")]
    unfollowed = f"{len(outcome.leavers):,} would leave; not followed for a baseline." if outcome.leavers else None
    return [head, el("p", unfollowed, class_="note") if unfollowed else None]


def _bars(view: View, outcome: Outcome, settled: StableFederation | None, axis: Axis) -> Html:
    colour = view.colour(outcome)
    levels = [("everybody stays" if outcome.federated else "everybody alone", outcome.welfare, colour)]
    if settled is not None:
        levels.append(("after departures", settled.welfare, f"{colour} later"))
    texts = view.unit.column([level for _, level, _ in levels])
    rows = [
        BarRow(
            label=label,
            picture=bar(axis, level, css, f"{view.title_of(outcome)}, {label}: {text}", mark=view.best_welfare),
            number=[text, el("small", percent(view.comparison.share_of_best(level)), class_="below")],
        )
        for (label, level, css), text in zip(levels, texts, strict=True)
    ]
    caption = f"Welfare under {view.title_of(outcome)}"
    return bar_table(caption, rows, heads=("", f"Welfare, {view.unit.label}"), show_heads=False)


def _story(stable: StableFederation) -> Child:
    """Who leaves in which round, and who is left."""
    if not stable.departures:
        return "Nobody leaves."
    rounds = [
        ["then " if place else None, _who(departure.leavers, "leave"), "; "]
        for place, departure in enumerate(stable.departures)
    ]
    return [rounds, _who(stable.members, "stay") if stable.members else "nobody is left", "."]


def _who(names: Sequence[str], verb: str) -> Child:
    """Names with their verb; a count where they are many."""
    if len(names) > MOST_NAMED:
        return f"{len(names):,} {verb}"
    return [listed(names), f" {verb}s" if len(names) == 1 else f" {verb}"]

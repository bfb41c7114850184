"""What if: the deals at one point of a slider against the deals now, and the curves over its whole range."""

from __future__ import annotations

import numpy as np

from fedpact.certificates.tolerances import utility_tolerances, would_leave
from fedpact.comparison import Comparison, Sweep
from fedpact.explorer.service import Range
from fedpact.explorer.views.charts import Curve, curves
from fedpact.explorer.views.deal import view_of
from fedpact.mechanisms import MECHANISMS
from fedpact.report.html import Child, Html, el, name
from fedpact.report.numbers import number_texts
from fedpact.report.sections.parts import BarRow, bar_table, panel
from fedpact.report.svg.bars import Axis, bar
from fedpact.report.view import View
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray

__all__ = ["moved", "range_curves"]

MOST_CURVES = 6
ROOM = 1.5  # of the deals as they are now, on the axes of bars
METRICS = {
    "ir_gaps": ("Gain", True),
    "payments": ("Payment", True),
    "contributions": ("Contribution", False),
}


def moved(scenario: Scenario, now: Comparison, there: Sweep) -> Html:
    """The deals at one value of a parameter; ticks mark the deals as they are now."""
    view = view_of(scenario, now)
    panels = [
        panel(
            view.colour(now[mechanism]),
            MECHANISMS[mechanism].title,
            el("p", _headline(view, there, mechanism), class_="note"),
            [_table(view, there, mechanism, metric) for metric in METRICS] if there.solved[mechanism][0] else None,
        )
        for mechanism in there.metrics
    ]
    return el("div", panels, class_="panels pair")


def range_curves(scenario: Scenario, now: Comparison, along: Range, words: str) -> Html:
    """How the members' gains change over the whole range, one picture per mechanism."""
    view = view_of(scenario, now)
    names = scenario.federation.names
    pictures = []
    for mechanism, gaps in along.gaps.items():
        lines = [Curve(label=names[agent], points=gaps[:, agent]) for agent in _liveliest(gaps)]
        left = len(names) - len(lines)
        note = f" The {len(lines)} members it moves most; {left} more." if left else ""
        pictures.append(
            el(
                "div",
                el("h3", el("span", class_=f"swatch {view.colour(now[mechanism])}"), MECHANISMS[mechanism].title),
                curves(
                    along.points,
                    lines,
                    title=f"Gains under {MECHANISMS[mechanism].title}",
                    below=f"Gain in {view.unit.label}, over the {words}.{note}",
                    scale=view.unit.per_payoff,
                    marker=float(along.points[0]),
                ),
                class_="panel",
            )
        )
    return el("div", pictures, class_="panels pair")


def _liveliest(gaps: FloatArray) -> list[int]:
    """The members whose gain changes most, in their own order."""
    known = np.where(np.isfinite(gaps), gaps, np.nan)
    lowest = np.nanmin(known, axis=0, initial=np.inf, where=np.isfinite(known))
    highest = np.nanmax(known, axis=0, initial=-np.inf, where=np.isfinite(known))
    there = np.flatnonzero(np.isfinite(known).any(axis=0))
    ranked = there[np.argsort(-(highest - lowest)[there], kind="stable")][:MOST_CURVES]
    return sorted(int(agent) for agent in ranked)


def _headline(view: View, there: Sweep, mechanism: str) -> Child:
    if not there.solved[mechanism][0]:
        return "There is no equilibrium here."
    found = there.metrics[mechanism]
    welfare, before = float(found["welfare"][0]), view.comparison[mechanism].welfare
    change = view.unit.text(welfare - before, signed=True)
    payoffs, costs, payments = (found[metric][0] for metric in ("payoffs", "costs", "payments"))
    tolerances = utility_tolerances(payoffs, costs, payments, view.comparison[mechanism].federation.values)
    leaves = would_leave(found["ir_gaps"][0], tolerances)
    losing = [agent for agent, goes in zip(there.agents, leaves, strict=True) if goes]
    verb = "would leave" if losing else "nobody would leave"
    who: Child = [*(_separated(losing)), f" {verb}"] if losing else verb
    return ["Welfare ", el("b", view.unit.text(welfare)), f" ({change} against now); ", who, "."]


def _separated(names: list[str]) -> list[Child]:
    shown: list[Child] = []
    for place, each in enumerate(names[:3]):
        shown += [", " if place else None, el("bdi", each)]
    return shown if len(names) <= 3 else [*shown, f" and {len(names) - 3} more"]


def _table(view: View, there: Sweep, mechanism: str, metric: str) -> Html:
    label, signed = METRICS[metric]
    outcome = view.comparison[mechanism]
    before: FloatArray = getattr(outcome, metric)
    # The same axis for both mechanisms, with room around the deals of now: bars move, and the axis mostly stays.
    known = [ROOM * getattr(view.comparison[rules], metric) for rules in there.metrics]
    axis = Axis.over(*known, *(found[metric] for found in there.metrics.values()))
    numbers = there.metrics[mechanism][metric][0]
    amounts = metric != "contributions"
    chosen = view.select(np.abs(numbers), "the largest numbers")
    shown = [float(numbers[agent]) for agent in chosen.agents]
    texts = view.unit.column(shown, signed=signed) if amounts else number_texts(shown)
    rows = [
        BarRow(
            label=name(there.agents[agent]),
            picture=bar(
                axis,
                float(numbers[agent]),
                ("loss" if numbers[agent] < 0 else "gain") if signed else view.colour(outcome),
                f"{there.agents[agent]}: {text}",
                mark=float(before[agent]),
            ),
            number=text,
        )
        for agent, text in zip(chosen.agents, texts, strict=True)
    ]
    heads = ("Member", f"{label}, {view.unit.label}" if amounts else label)
    return bar_table(f"{label} under {MECHANISMS[mechanism].title}", rows, heads=heads)

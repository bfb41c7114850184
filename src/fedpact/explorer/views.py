"""The explorer's answers as HTML: the deal, what if, maps, departures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from fedpact.comparison import Comparison, StableFederation, Sweep
from fedpact.comparison.sweeps import unit_of
from fedpact.deals import Outcome
from fedpact.explorer.charts import (
    BarRow,
    ChartLine,
    NumberLine,
    agent_bar,
    colour_class,
    curve_chart,
    heat_cells,
    tick_marks,
)
from fedpact.explorer.files import PACKAGE
from fedpact.federation import Federation
from fedpact.report.markup import render
from fedpact.report.numbers import Unit, number_texts, percent
from fedpact.report.page import MAX_NAMES, View, render_section
from fedpact.utils.arrays import FloatArray
from fedpact.utils.jsonl import jsonable

SECTIONS = {
    "gains": "Gains",
    "deals": "All numbers",
    "certificates": "Certificates",
    "federation": "Federation",
}
GAIN_CURVE_POINTS = 121
CURVE_REACH = 1.15  # the curve goes on beyond the most data anybody reaches
MAX_CURVES_DRAWN = 6  # of a picture
LINE_ROOM = 1.5  # of the deals as they are now, on the lines of bars
MOVED: Mapping[str, str] = {"ir_gaps": "Gain", "payments": "Payment", "contributions": "Contribution"}
MAPPED: Mapping[str, tuple[str, bool]] = {
    "individual-rationality": ("Smallest gain of anybody", False),
    "core": ("Smallest gain of any group by staying", False),
    "welfare": ("Welfare", False),
    "lowest_gain_share": ("Lowest share of a fair gain", False),
    "lowest_fair_part": ("Reciprocity: lowest part of a Shapley share returned", False),
    "ir_gaps": ("Gain of one member", True),
    "payments": ("Payment of one member", True),
    "contributions": ("Contribution of one member", True),
    "utilities": ("Net benefit of one member", True),
}
"""What a map can show, and whether it is about one member."""


# The deal


def deal_view(view: View) -> Markup:
    """Recommendation, and a section for every question about the deal."""
    parts = [render_section(ident, view) for ident in SECTIONS]
    return render("deal.html", package=PACKAGE, summary=render_section("summary", view), contents=SECTIONS, parts=parts)


def payoff_chart(federation: Federation, comparison: Comparison) -> Markup:
    """What data is worth: one curve if the members share it, else those of the first few."""
    most = max((float(federation.data(outcome.contributions).max()) for outcome in comparison), default=0.0)
    across = np.linspace(0.0, CURVE_REACH * (most if most > 0 else 1.0), GAIN_CURVE_POINTS)
    own = any(np.ndim(numbers) for numbers in federation.payoff.parameters.values())
    curves = [
        federation.payoff.take([agent]).value(across) if own else federation.payoff.value(across)
        for agent in range(federation.n_agents)
    ]
    worth = federation.values[:, None] * np.array(curves)
    alike = bool((worth == worth[0]).all())
    shown = [0] if alike else range(min(federation.n_agents, MAX_CURVES_DRAWN))
    lines = [ChartLine(label="all" if alike else federation.names[agent], points=worth[agent]) for agent in shown]
    below = "Payoff over the weighted data that reaches a member"
    return curve_chart(across, lines, title="The payoff curve", below=below)


# What if


def what_if(view: View, there: Mapping[str, Outcome | None]) -> Markup:
    """The deals at one value of a parameter, None where there is none; ticks mark the deals as they are now."""
    panels = []
    for mechanism, outcome in there.items():
        now = view.comparison[mechanism]
        panel: dict[str, Any] = {"title": view.title_of(now), "colour": colour_class(now), "outcome": outcome}
        if outcome is not None:
            panel["change"] = view.unit.text(outcome.welfare - now.welfare, signed=True)
            panel["tables"] = [_moved_bars(view, there, outcome, metric) for metric in MOVED]
        panels.append(panel)
    return render("whatif.html", package=PACKAGE, panels=panels, unit=view.unit, max_leavers=MAX_NAMES)


def _moved_bars(view: View, there: Mapping[str, Outcome | None], outcome: Outcome, metric: str) -> dict[str, Any]:
    label, now = MOVED[metric], view.comparison[outcome.mechanism]
    # The same line for both mechanisms, with room around the deals of now: bars move, and the line mostly stays.
    known = [LINE_ROOM * getattr(view.comparison[rules], metric) for rules in there]
    line = NumberLine.over(*known, *(getattr(each, metric) for each in there.values() if each is not None))
    before, numbers = getattr(now, metric), getattr(outcome, metric)
    amounts = metric != "contributions"
    texts = view.unit.column(numbers, signed=True) if amounts else number_texts(numbers)
    css = None if amounts else colour_class(now)
    rows = [
        agent_bar(line, name, float(number), text, css=css, mark=float(mark))
        for name, number, text, mark in zip(outcome.agents, numbers, texts, before, strict=True)
    ]
    return {"label": label, "rows": rows, "head": f"{label}, {view.unit.label}" if amounts else label}


def gain_charts(view: View, found: Sweep, words: str) -> Markup:
    """How the members' gains change over the whole range of a parameter, one picture per mechanism."""
    panels, points = [], found.axes[0].points
    for mechanism, metrics in found.metrics.items():
        outcome, gaps = view.comparison[mechanism], metrics["ir_gaps"]
        lines = [ChartLine(label=view.names[agent], points=gaps[:, agent]) for agent in _most_moved(gaps)]
        rest = len(view.names) - len(lines)
        note = f" The {len(lines)} members it moves most; {rest} more." if rest else ""
        chart = curve_chart(
            points,
            lines,
            title=f"Gains under {view.title_of(outcome)}",
            below=f"Gain in {view.unit.label}, over the {words}.{note}",
            scale=view.unit.per_payoff,
            marker=float(points[0]),
        )
        panels.append((view.title_of(outcome), colour_class(outcome), chart))
    return render("gain_curves.html", package=PACKAGE, panels=panels)


def _most_moved(gaps: FloatArray) -> list[int]:
    """The members whose gain changes most, in their own order."""
    known = np.isfinite(gaps)
    lowest, highest = (
        np.where(known, gaps, np.inf).min(axis=0),
        np.where(known, gaps, -np.inf).max(axis=0),
    )
    there = np.flatnonzero(known.any(axis=0))
    ranked = there[np.argsort(-(highest - lowest)[there], kind="stable")][:MAX_CURVES_DRAWN]
    return sorted(ranked.tolist())


# Maps


def map_values(found: Sweep, agent: int) -> FloatArray:
    """The numbers of a map with one mechanism and one metric, of one member where they are members'.

    Below zero, the margin of a proved claim is rounding, and a part of a share is no part: both are shown as zero.
    """
    ((mechanism, metrics),) = found.metrics.items()
    ((metric, values),) = metrics.items()
    if unit_of(metric) == "ratio":
        values = np.maximum(values, 0.0)
    for claim in found.holds.get(mechanism, {}).values():
        values = np.where(claim, np.maximum(values, 0.0), values)
    return values[..., agent] if found.is_per_agent(metric) else values


def heat_map(found: Sweep, *, agent: int, unit: Unit, words: tuple[str, str]) -> tuple[Markup, dict[str, Any]]:
    """The map, and its numbers for the page to read out: the first axis upwards, the second to the right."""
    ((mechanism, metrics),) = found.metrics.items()
    (metric,) = metrics
    label, of_member = MAPPED[metric]
    measure, scale = unit.of_measure(unit_of(metric))
    values = map_values(found, agent) * scale
    if of_member:
        label = f"{label} ({found.agents[agent]})"
    up, right = (axis.points for axis in found.axes)
    y_ticks, x_ticks = (tick_marks(float(side.min()), float(side.max()), cells=side.size) for side in (up, right))
    picture = render(
        "map.html",
        package=PACKAGE,
        title=f"{label} under {found.title(mechanism)}",
        values=values,
        finite=values[np.isfinite(values)],
        cells=heat_cells(values),
        measure=measure,
        y_ticks=y_ticks,
        x_ticks=x_ticks,
        words=words,
    )
    numbers = np.where(np.isfinite(values), values, np.nan)
    return picture, jsonable(
        {"values": numbers, "up": up, "right": right, "words": words, "measure": measure, "label": label}
    )


# Who leaves


def departure_steps(view: View, settled: StableFederation, *, together: bool = False) -> list[Markup]:
    """The deal of every round with who leaves it, alone or `together`, then what is left."""
    outcomes = [departure.outcome for departure in settled.departures]
    line = NumberLine.over(*(each.ir_gaps for each in [*outcomes, settled.outcome] if each is not None))
    steps = []
    for index, departure in enumerate(settled.departures):
        outcome = departure.outcome
        missing = departure.endowments[np.isin(outcome.agents, departure.leavers)]
        step = {
            "round": index + 1,
            "departure": departure,
            "together": together,
            "missing": view.unit.text(float(missing.sum())),
            "rows": _gain_bars(outcome, departure.leavers, view.unit, line),
        }
        steps.append(render("departure.html", package=PACKAGE, view=view, **step))
    share = view.comparison.share_of_best(settled.welfare)
    lost = settled.welfare_all_stay - settled.welfare
    end = {
        "settled": settled,
        "together": together,
        "share": percent(share) if np.isfinite(share) else "",
        "lost": view.unit.text(lost) if lost > view.unit.noise else "",
        "rows": [] if settled.outcome is None else _gain_bars(settled.outcome, (), view.unit, line),
    }
    return [*steps, render("departures_end.html", package=PACKAGE, view=view, **end)]


def _gain_bars(outcome: Outcome, leavers: Sequence[str], unit: Unit, line: NumberLine) -> list[BarRow]:
    rows = []
    for agent, gap, text in zip(
        outcome.agents, outcome.ir_gaps, unit.column(outcome.ir_gaps, signed=True), strict=True
    ):
        css = "loss" if agent in outcome.leavers else "gain"
        rows.append(agent_bar(line, agent, float(gap), text, css=css, word="leaves" if agent in leavers else None))
    return rows

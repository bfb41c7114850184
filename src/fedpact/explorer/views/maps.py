"""A heat map over two parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpact.comparison import Sweep
from fedpact.comparison.sweep_result import unit_of
from fedpact.explorer.views.charts import heat_cells, tick_texts, ticks
from fedpact.report.html import Html, el, join
from fedpact.report.numbers import Unit, given_text
from fedpact.utils.arrays import FloatArray
from fedpact.utils.jsonl import jsonable

__all__ = ["MAPPED", "heat_map", "map_values"]

MAPPED: Mapping[str, tuple[str, bool]] = {
    "individual-rationality": ("Smallest gain of anybody", False),
    "welfare": ("Welfare", False),
    "reciprocity": ("Lowest part of a Shapley share returned", False),
    "ir_gaps": ("Gain of one member", True),
    "payments": ("Payment of one member", True),
    "contributions": ("Contribution of one member", True),
    "utilities": ("Net benefit of one member", True),
}
"""What a map can show, and whether it is about one member."""


def map_values(found: Sweep, agent: int) -> FloatArray:
    """The numbers of a map with one mechanism and one metric, of one member where they are members'."""
    (metrics,) = found.metrics.values()
    ((metric, values),) = metrics.items()
    return values[..., agent] if found.is_per_agent(metric) else values


def heat_map(found: Sweep, *, agent: int, unit: Unit, words: tuple[str, str]) -> tuple[Html, dict[str, Any]]:
    """The map, and its numbers for the page to read out: the first axis upwards, the second to the right."""
    ((mechanism, metrics),) = found.metrics.items()
    (metric,) = metrics
    label, of_member = MAPPED[metric]
    amounts = unit_of(metric) == "payoff"
    scale = unit.per_payoff if amounts else 1.0
    values = map_values(found, agent) * scale
    whose = f" ({found.agents[agent]})" if of_member else ""
    title = f"{label}{whose} under {found.title(mechanism)}"
    measure = unit.label if amounts else unit_of(metric)
    first, second = found.axes
    picture = el(
        "div",
        el("div", _marks(first.points, "bottom"), class_="y-ticks", aria_hidden="true"),
        el(
            "div",
            heat_cells(values, title=title),
            class_="canvas",
            tabindex=0,
            role="application",
            aria_label=f"{title}; arrow keys move over the map",
        ),
        class_="plot-row",
    )
    made = join(
        el("h3", title),
        el("p", _legend(values, measure), class_="legend"),
        el(
            "figure",
            picture,
            el("div", _marks(second.points, "left"), class_="x-ticks", aria_hidden="true"),
            el("figcaption", f"Upwards: {words[0]}. To the right: {words[1]}."),
            class_="plot heat",
        ),
        el("p", "Point at the map, or focus it and use the arrow keys.", id="x-map-here", role="status"),
    )
    data = {
        "values": np.where(np.isfinite(values), values, np.nan),
        "up": first.points,
        "right": second.points,
        "words": words,
        "measure": measure,
        "label": label + whose,
    }
    return made, jsonable(data)


def _marks(points: FloatArray, side: str) -> list[Html]:
    low, high = float(points.min()), float(points.max())
    half = 0.5 / points.size  # ticks stand at the middles of cells
    found = ticks(low, high)
    return [
        el("span", text, style=f"{side}:{100.0 * (half + (1 - 2 * half) * (tick - low) / (high - low)):.2f}%")
        for tick, text in zip(found, tick_texts(found), strict=True)
    ]


def _legend(values: FloatArray, measure: str) -> list[Html]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return [el("span", "No number anywhere on this map.")]
    low, high = given_text(float(finite.min())), given_text(float(finite.max()))
    keys = []
    if (finite < 0).any():
        keys.append(el("span", el("span", class_="key loss"), "below zero", class_="nowrap"))
    if (finite > 0).any():
        keys.append(el("span", el("span", class_="key gain"), "above zero", class_="nowrap"))
    keys.append(el("span", "the stronger the colour, the further from zero. "))
    if finite.size < values.size:
        keys.append(el("span", el("span", class_="key none"), "undefined", class_="nowrap"))
    return [*keys, el("span", f"From {low} to {high} {measure}", class_="nowrap")]

"""Curves and heat maps that fill the width they are given; words stand beside the picture, in the page's own size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.report.html import Child, Html, el, name
from fedpact.report.numbers import MINUS
from fedpact.utils.arrays import FloatArray

__all__ = ["Curve", "curves", "heat_cells", "tick_texts", "ticks"]

STYLES = 6  # curves that look different
MOST_TICKS = 5
MOST_DECIMALS = 7  # of a tick; smaller ones are written with an exponent
LARGE = 1e12
NEAR = 0.075  # of the height: labels keep this far apart
MARGIN = 0.04  # of the range, above and below the curves
DEEPEST = 0.92  # opacity of the strongest colour of a heat map


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Numbers over the horizontal axis, with the name that stands at their end."""

    label: str
    points: FloatArray


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, a handful.

    Examples
    --------
    >>> ticks(0.0, 9.0)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / MOST_TICKS
    size = 10.0 ** np.floor(np.log10(rough))
    step = float(next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough * (1 - 1e-9)))
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [float(f"{place * step:.15g}") for place in range(first, last + 1)]


def tick_texts(found: Sequence[float]) -> list[str]:
    """Ticks with as many decimals as tell them apart.

    Examples
    --------
    >>> tick_texts([0.0, 0.025, 0.05])
    ['0', '0.025', '0.050']
    """
    step = found[1] - found[0] if len(found) > 1 else abs(found[0]) or 1.0
    decimals = next((count for count in range(MOST_DECIMALS) if abs(round(step, count) - step) <= 1e-6 * step), None)
    if decimals is None or max(map(abs, found)) >= LARGE:
        return [f"{tick:.6g}".replace("-", MINUS) for tick in found]
    return [f"{tick:,.{decimals}f}".replace("-", MINUS) if tick else "0" for tick in found]


def curves(
    across: FloatArray,
    lines: Sequence[Curve],
    *,
    title: str,
    below: str,
    scale: float = 1.0,
    marker: float | None = None,
    zero: bool = True,
) -> Html:
    """Curves over a common axis; `marker` is an upright line the page can move."""
    low, high = _span(lines, zero=zero)
    left, right = float(across.min()), float(across.max())

    def at(points: FloatArray | float) -> FloatArray:
        return 100.0 * (high - np.asarray(points)) / (high - low)

    def place(points: FloatArray | float) -> FloatArray:
        return 100.0 * (np.asarray(points) - left) / (right - left or 1.0)

    levels = [("grid", tick / scale) for tick in ticks(low * scale, high * scale)] + ([("zero", 0.0)] if zero else [])
    parts = [
        el("line", x1=0, x2=100, y1=f"{at(level):.2f}", y2=f"{at(level):.2f}", class_=css) for css, level in levels
    ]
    parts += [
        el("path", d=_path(place(across), at(curve.points)), class_=f"curve curve{number % STYLES}")
        for number, curve in enumerate(lines)
    ]
    if marker is not None:
        spot = f"{place(marker):.3f}"
        parts.append(el("line", x1=spot, x2=spot, y1=0, y2=100, class_="marker"))
    picture = el("svg", el("title", title), parts, viewBox="0 0 100 100", preserveAspectRatio="none", role="img")
    return el(
        "figure",
        el(
            "div",
            el("div", _side(low, high, scale), class_="y-ticks", aria_hidden="true"),
            el("div", picture, class_="canvas"),
            el("div", _ends(lines, at), class_="ends"),
            class_="plot-row",
        ),
        el("div", _bottom(left, right), class_="x-ticks", aria_hidden="true"),
        el("figcaption", below),
        class_="plot",
    )


def _span(lines: Sequence[Curve], *, zero: bool) -> tuple[float, float]:
    """The numbers an upright axis goes from and to, with a little room."""
    numbers = np.concatenate([*(curve.points[np.isfinite(curve.points)] for curve in lines), np.zeros(int(zero))])
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    room = MARGIN * (high - low) or 1.0
    return low - room, high + room


def heat_cells(values: FloatArray, *, title: str) -> Html:
    """Cells of a map, the first axis upwards: blue above zero, orange below, deeper where further from it.

    Where all are on one side of zero the colours begin with the number nearest to it, so that differences show.
    """
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    signed = bool((finite < 0).any() and (finite > 0).any())
    least = 0.0 if signed or not finite.size else float(np.abs(finite).min())
    span = (largest - least) or 1.0
    rows, columns = values.shape
    cells = []
    for row in range(rows):
        for column in range(columns):
            number = float(values[row, column])
            kind = "none" if not np.isfinite(number) else "loss" if number < 0 else "gain"
            depth = 1.0 if kind == "none" else DEEPEST * (abs(number) - least) / span
            cells.append(
                el("rect", x=column, y=rows - 1 - row, width=1, height=1, class_=kind, fill_opacity=f"{depth:.3f}")
            )
    return el(
        "svg",
        el("title", title),
        cells,
        el("rect", x=0, y=0, width=1, height=1, class_="cursor"),
        viewBox=f"0 0 {columns} {rows}",
        preserveAspectRatio="none",
        role="img",
    )


def _path(places: FloatArray, heights: FloatArray) -> str:
    """A path that is lifted where there is no number."""
    words, down = [], False
    for place, height in zip(places, heights, strict=True):
        if np.isfinite(height):
            words.append(f"{'L' if down else 'M'}{place:.2f} {height:.2f}")
        down = bool(np.isfinite(height))
    return " ".join(words)


def _side(low: float, high: float, scale: float) -> list[Html]:
    found = ticks(low * scale, high * scale)
    return [
        el("span", text, style=f"top:{100.0 * (high * scale - tick) / ((high - low) * scale):.2f}%")
        for tick, text in zip(found, tick_texts(found), strict=True)
    ]


def _bottom(left: float, right: float) -> list[Html]:
    found, span = ticks(left, right), right - left or 1.0
    return [
        el("span", text, style=f"left:{100.0 * (tick - left) / span:.2f}%")
        for tick, text in zip(found, tick_texts(found), strict=True)
    ]


def _ends(lines: Sequence[Curve], at: Callable[[FloatArray], FloatArray]) -> list[Child]:
    """The curves' names at their right ends, moved apart where they would cover each other."""
    heights = np.array([float(at(curve.points[np.isfinite(curve.points)][-1:]).sum()) / 100.0 for curve in lines])
    order = np.argsort(heights, kind="stable")
    apart = min(NEAR, 1.0 / max(len(lines), 1))
    steps = apart * np.arange(len(lines))
    down = np.maximum.accumulate(heights[order] - steps) + steps  # each at least one step below the one before
    lowest = 1.0 - steps[::-1]
    spots = np.empty(len(lines))
    spots[order] = np.minimum(down, lowest)
    return [
        el(
            "span",
            el("i", class_=f"stroke curve{place % STYLES}"),
            name(curve.label),
            style=f"top:{100.0 * spots[place]:.2f}%",
        )
        for place, curve in enumerate(lines)
    ]

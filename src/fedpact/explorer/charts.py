"""Curves and heat maps that fill the width they are given; words stand beside the picture, in the page's own size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from fedpact.report.markup import render
from fedpact.report.numbers import MINUS
from fedpact.utils.arrays import FloatArray

PACKAGE = "fedpact.explorer"
N_STYLES = 6  # curves that look different
MAX_TICKS = 5
MAX_TICK_DECIMALS = 7  # smaller ticks are written with an exponent, and so are larger ones than the other
MAX_TICK = 1e12
MIN_LABEL_GAP = 0.075  # of the height
RANGE_MARGIN = 0.04  # of the range, above and below the curves
MAX_OPACITY = 0.92  # of the strongest colour of a heat map


@dataclass(frozen=True, kw_only=True, eq=False)
class ChartLine:
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
    rough = (high - low) / MAX_TICKS
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
    decimals = next(
        (count for count in range(MAX_TICK_DECIMALS) if abs(round(step, count) - step) <= 1e-6 * step), None
    )
    if decimals is None or max(map(abs, found)) >= MAX_TICK:
        return [f"{tick:.6g}".replace("-", MINUS) for tick in found]
    return [f"{tick:,.{decimals}f}".replace("-", MINUS) if tick else "0" for tick in found]


def tick_marks(low: float, high: float, *, cells: int | None = None) -> list[tuple[float, str]]:
    """Ticks with their places in per cent; where the axis is made of cells, it goes from the middle of the first."""
    half = 0.5 / cells if cells else 0.0
    found, span = ticks(low, high), (high - low) or 1.0
    places = [100.0 * (half + (1.0 - 2.0 * half) * (tick - low) / span) for tick in found]
    return list(zip(places, tick_texts(found), strict=True))


def curve_chart(
    across: FloatArray,
    lines: Sequence[ChartLine],
    *,
    title: str,
    below: str,
    scale: float = 1.0,
    marker: float | None = None,
    zero: bool = True,
) -> Markup:
    """Curves over a common axis; `marker` is an upright line the page can move."""
    low, high = _span(lines, zero=zero)
    left, right = float(across.min()), float(across.max())
    places = 100.0 * (across - left) / (right - left or 1.0)
    heights = [100.0 * (high - line.points) / (high - low) for line in lines]
    levels = [100.0 - at for at, _ in tick_marks(low * scale, high * scale)]
    return render(
        "curves.html",
        package=PACKAGE,
        title=title,
        below=below,
        y_ticks=[(100.0 - at, text) for at, text in tick_marks(low * scale, high * scale)],
        x_ticks=tick_marks(left, right),
        levels=[("grid", level) for level in levels] + ([("zero", 100.0 * high / (high - low))] if zero else []),
        paths=[_path(places, each) for each in heights],
        ends=list(zip([line.label for line in lines], _label_places(heights), strict=True)),
        n_styles=N_STYLES,
        marker=None if marker is None else 100.0 * (marker - left) / (right - left or 1.0),
    )


def heat_cells(values: FloatArray) -> list[tuple[int, int, str, float]]:
    """Column, row from above, class and opacity of every cell of a map whose first axis goes upwards.

    Blue is above zero, orange below, deeper where further from it. Where all are on one side of zero the colours begin
    with the number nearest to it, so that differences show.
    """
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max(initial=0.0))
    signed = bool((finite < 0).any() and (finite > 0).any())
    least = 0.0 if signed or not finite.size else float(np.abs(finite).min())
    span = (largest - least) or 1.0
    cells = []
    for (row, column), number in np.ndenumerate(values):
        kind = "none" if not np.isfinite(number) else "loss" if number < 0 else "gain"
        opacity = 1.0 if kind == "none" else MAX_OPACITY * (abs(number) - least) / span
        cells.append((column, values.shape[0] - 1 - row, kind, opacity))
    return cells


def _span(lines: Sequence[ChartLine], *, zero: bool) -> tuple[float, float]:
    """The numbers an upright axis goes from and to, with a little room."""
    numbers = np.concatenate([*(line.points[np.isfinite(line.points)] for line in lines), np.zeros(int(zero))])
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    room = RANGE_MARGIN * (high - low) or 1.0
    return low - room, high + room


def _path(places: FloatArray, heights: FloatArray) -> str:
    """A path that is lifted where there is no number."""
    words, down = [], False
    for place, height in zip(places, heights, strict=True):
        if np.isfinite(height):
            words.append(f"{'L' if down else 'M'}{place:.2f} {height:.2f}")
        down = bool(np.isfinite(height))
    return " ".join(words)


def _label_places(heights: Sequence[FloatArray]) -> list[float]:
    """Where the curves end, in per cent from above, moved apart where their names would cover each other."""
    ends = np.array([float(each[np.isfinite(each)][-1:].sum()) / 100.0 for each in heights])
    order = np.argsort(ends, kind="stable")
    apart = min(MIN_LABEL_GAP, 1.0 / max(len(heights), 1))
    steps = apart * np.arange(len(heights))
    down = np.maximum.accumulate(ends[order] - steps) + steps  # each at least one step below the one before
    spots = np.empty(len(heights))
    spots[order] = np.minimum(down, 1.0 - steps[::-1])
    return (100.0 * spots).tolist()

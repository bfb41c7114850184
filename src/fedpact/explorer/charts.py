"""Curves and heat maps that fill the width they are given; words stand beside the picture, in the page's own size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from fedpact.report.charts import spread_labels, tick_marks
from fedpact.report.markup import render
from fedpact.utils.arrays import FloatArray

PACKAGE = "fedpact.explorer"
N_STYLES = 6  # curves that look different
MIN_LABEL_GAP = 7.5  # per cent of the height
RANGE_MARGIN = 0.04  # of the range, above and below the curves
MAX_OPACITY = 0.92  # of the strongest colour of a heat map


@dataclass(frozen=True, kw_only=True, eq=False)
class ChartLine:
    """Numbers over the horizontal axis, with the name that stands at their end."""

    label: str
    points: FloatArray


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
    ends = [float(each[np.isfinite(each)][-1:].sum()) for each in heights]
    return spread_labels(ends, gap=MIN_LABEL_GAP, end=100.0)

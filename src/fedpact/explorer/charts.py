"""SVG pictures as wide as the page: bars in the cells of a table, curves, and maps.

Lengths are percentages, so a picture fills whatever width it has while lines and dots keep their size. Rows that
share a `NumberLine` can be compared. Axes have round numbers. A mechanism has the same colour in every picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from fedpact.deals import Outcome
from fedpact.report.markup import name_tag, render
from fedpact.report.numbers import MINUS
from fedpact.utils.arrays import FloatArray

MAX_TICKS = 5
MAX_TICK_DECIMALS = 7  # smaller ticks are written with an exponent, and so are larger ones than the other
MAX_TICK = 1e12
COLOURS = ("externality", "shapley", "fair", "voluntary")
BAR_HEIGHT = 16
REACH = 4  # upright lines go this far beyond the picture, to meet those of the next row
MARGIN = 1.5  # per cent: the line ends this short of the picture's edges, so that dots are not cut
MIN_BAR = 0.4  # per cent: bars of something are at least this long
N_STYLES = 6  # curves that look different
RANGE_MARGIN = 0.04  # of the range, above and below the curves
MAX_OPACITY = 0.92  # of the strongest colour of a heat map


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
    return [float(f"{index * step:.15g}") for index in range(first, last + 1)]


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
    """Ticks with their positions in per cent; where the axis is made of cells, it goes from the middle of the first."""
    half = 0.5 / cells if cells else 0.0
    found, span = ticks(low, high), (high - low) or 1.0
    indices = [100.0 * (half + (1.0 - 2.0 * half) * (tick - low) / span) for tick in found]
    return list(zip(indices, tick_texts(found), strict=True))


def colour_class(outcome: Outcome) -> str:
    """The class that gives an outcome's mechanism its colour."""
    return f"mech{COLOURS.index(outcome.mechanism)}" if outcome.mechanism in COLOURS else "alone"


@dataclass(frozen=True)
class NumberLine:
    """The numbers from `low` to `high`, zero among them, on the width of a picture."""

    low: float
    high: float

    @classmethod
    def over(cls, *columns: ArrayLike) -> NumberLine:
        """The shortest line with room for all finite numbers, and zero."""
        numbers = np.concatenate([np.zeros(1), *(np.ravel(np.asarray(column, dtype=np.float64)) for column in columns)])
        finite = numbers[np.isfinite(numbers)]
        low, high = float(finite.min()), float(finite.max())
        return cls(low, high if high > low else low + 1.0)

    def at(self, number: float) -> float:
        """Where a number is, in per cent of the width."""
        share = (number - self.low) / (self.high - self.low)
        return round(MARGIN + share * (100.0 - 2.0 * MARGIN), 2)


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """A row of a bar table: what it is about, its picture, its number and a word after that."""

    label: str
    picture: Markup
    number: str
    word: str | None = None
    css: str = ""


def agent_bar(
    line: NumberLine,
    agent: str,
    number: float,
    text: str,
    *,
    css: str | None = None,
    mark: float | None = None,
    word: str | None = None,
) -> BarRow:
    """A row with an agent's bar from zero to `number`, in the colour of its sign unless a class gives it another.

    `mark` adds a tick, such as what there is now; a `word` stands beside the number of whoever leaves.
    """
    upright = Markup(f'<line x1="{{0:g}}%" x2="{{0:g}}%" y1="{-REACH}" y2="{BAR_HEIGHT + REACH}" class="{{1}}"></line>')
    zero = line.at(0.0)
    parts = [upright.format(zero, "zero")]
    if np.isfinite(number) and number != 0:
        end = line.at(number)
        rectangle = Markup('<rect x="{:g}%" y="2" width="{:.2f}%" height="{}" rx="1.5" class="bar {}"></rect>')
        kind = css or ("loss" if number < 0 else "gain")
        parts.append(rectangle.format(min(zero, end), max(abs(end - zero), MIN_BAR), BAR_HEIGHT - 4, kind))
    if mark is not None and np.isfinite(mark):
        parts.append(upright.format(line.at(mark), "mark"))
    picture = Markup('<svg width="100%" height="{}" class="chart" aria-hidden="true"><title>{}</title>{}</svg>').format(
        BAR_HEIGHT, f"{agent}: {text}", Markup().join(parts)
    )
    return BarRow(label=name_tag(agent), picture=picture, number=text, word=word, css="loss-text" if word else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class ChartLine:
    """Numbers over the horizontal axis, and the name of their curve."""

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
) -> Markup:
    """Curves over a common axis, with zero; `marker` is an upright line the page can move."""
    numbers = np.concatenate([*(line.points[np.isfinite(line.points)] for line in lines), np.zeros(1)])
    low, high = float(numbers.min()), float(numbers.max())
    room = RANGE_MARGIN * (high - low) or 1.0
    low, high = low - room, high + room
    left, right = float(across.min()), float(across.max())
    indices = 100.0 * (across - left) / (right - left or 1.0)
    y_ticks = [(100.0 - at, text) for at, text in tick_marks(low * scale, high * scale)]
    return render(
        "curves.html",
        package="fedpact.explorer",
        title=title,
        below=below,
        y_ticks=y_ticks,
        x_ticks=tick_marks(left, right),
        levels=[*(("grid", at) for at, _ in y_ticks), ("zero", 100.0 * high / (high - low))],
        paths=[_path(indices, 100.0 * (high - line.points) / (high - low)) for line in lines],
        labels=[line.label for line in lines],
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


def _path(indices: FloatArray, heights: FloatArray) -> str:
    """A path that is lifted where there is no number."""
    words, down = [], False
    for index, height in zip(indices, heights, strict=True):
        if np.isfinite(height):
            words.append(f"{'L' if down else 'M'}{index:.2f} {height:.2f}")
        down = bool(np.isfinite(height))
    return " ".join(words)

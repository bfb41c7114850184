"""Pictures of sweeps: curves over one parameter, heat maps over two.

In heat maps red is below zero and blue above, with the numbers' change of sign drawn as a line, so that no reader
depends on the colours. Where some agent contributes nothing or its cap, the map is hatched lightly; where some
coalition leaves the domain of the payoffs, it is dotted; where a number is undefined or infinite, it is grey, and
crossed where there is no equilibrium.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.comparison.sweeps import unit_of
from fedpact.report.numbers import MINUS, Unit
from fedpact.report.plots.style import (
    FAINT,
    INK,
    MAX_NAMED_LINES,
    dress_axes,
    legend_below,
    legend_name,
    line_style,
    new_figure,
)
from fedpact.report.words import metric_name
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import Sweep
    from fedpact.scenario import Money

BELOW_TO_ABOVE = ("#a50f15", "#de2d26", "#fc9272", "#f7f7f7", "#9ecae1", "#4292c6", "#08519c")
GREY = "#d9d9d9"
HATCHING = "#00000060"
BOUNDARY, OUTSIDE, UNSOLVED = "///", "...", "xxx"
MAX_PANEL_ROWS = 8  # of panels in a picture
MAX_MARKED_POINTS = 25  # points of a curve
MAX_LABEL_LENGTH = 34
PANEL, PANEL_HEIGHT = 2.9, 2.5  # inches
FAR = 0.5  # of the largest number: colours then begin at the smallest instead of zero
MAP_NOISE = 1e-9  # of the largest number of a map
FLAT = 1e-12  # where no number is larger, there is nothing to draw
LOG_RANGE = 10.0  # the ratio of the largest value to the smallest from which an axis may be logarithmic
MAX_WORDS = 6  # at an axis
MIN_CROSSED = 5  # values of both parameters, to draw a line between the signs


def plot_sweep(sweep: Sweep, *, money: Money | None = None, data: str = "") -> Any:
    """Every metric of a sweep, a column for each mechanism, as far as a picture holds them; in money if it is given.

    Over one parameter a row is a metric with a curve for each member, over two it is a map of one member.
    """
    unit, mechanisms, is_map = Unit.of(money, data=data), list(sweep.metrics), len(sweep.shape) > 1
    metrics = list(next(iter(sweep.metrics.values())))
    rows = [
        (metric, [series[index] for series in found] if is_map else found)
        for metric in metrics
        for found in [[_series(sweep, unit, name, metric) for name in mechanisms]]
        for index in range(len(found[0]) if is_map else 1)
    ]
    shown = rows[:MAX_PANEL_ROWS]
    figure = new_figure(1.5 + PANEL * len(mechanisms), 0.7 + PANEL_HEIGHT * len(shown))
    panels = figure.subplots(len(shown), len(mechanisms), squeeze=False, sharex=not is_map, sharey=not is_map and "row")
    draw = _draw_maps if is_map else _draw_curves
    for row, (metric, found) in zip(panels, shown, strict=True):
        draw(row, sweep, found, _with_unit(metric, unit))
    for panel, name in zip(panels[0], mechanisms, strict=True):
        above = panel.get_title(loc="left")
        panel.set_title(f"{sweep.title(name)}\n{above}".strip(), loc="left", fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel(legend_name(sweep.axes[-1].label, MAX_LABEL_LENGTH))
    if is_map:
        region_legend(figure, sweep)
    else:
        handles, labels = panels[0, 0].get_legend_handles_labels()
        legend_below(figure, *((handles, labels) if len(handles) > 1 else ([], [])))
    if len(rows) > MAX_PANEL_ROWS:
        said = f"The first {MAX_PANEL_ROWS} of {len(rows)} rows; the table holds all"
        figure.suptitle(said, fontsize=9, color=FAINT)
    return figure


def _draw_curves(panels: Any, sweep: Sweep, found: Any, label: str) -> None:
    """A panel for each mechanism with a curve for each member; undefined and infinite numbers leave gaps."""
    scale = scale_of(sweep.axes[0].points)
    for panel, series in zip(panels, found, strict=True):
        numbers = np.concatenate([values for _, values in series])
        finite = numbers[np.isfinite(numbers)]
        if np.abs(finite).max(initial=0.0) <= FLAT:
            panel.set_ylim(-1.0, 1.0)
        elif finite.min() < 0 < finite.max():
            panel.axhline(0.0, color=FAINT, linewidth=0.8)
        marker = "o" if scale.positions.size <= MAX_MARKED_POINTS else None
        for index, (name, values) in enumerate(series):
            rising = np.where(np.isfinite(values), values, np.nan)[scale.order]
            panel.plot(scale.positions, rising, label=name, **line_style(index), marker=marker, markersize=3)
        dress_axes(panel, tick_size=None)
        scale.dress(panel.xaxis)
    panels[0].set_ylabel(label)


def _draw_maps(panels: Any, sweep: Sweep, found: Any, label: str) -> None:
    """A map of one member, or of a metric of all, for each mechanism; all with the same colours."""
    limits = signed_limits([values for _, values in found])
    for panel, mechanism, (name, values) in zip(panels, sweep.metrics, found, strict=True):
        drawn = heat_map(panel, sweep, values, limits)
        mark_regions(panel, sweep, mechanism)
        panel.set_title(name, loc="left", fontsize=9)
    panels[0].set_ylabel(legend_name(sweep.axes[0].label, MAX_LABEL_LENGTH))
    panels[0].figure.colorbar(drawn, ax=list(panels), label=label, shrink=0.9, pad=0.02)


def signed_limits(maps: Sequence[FloatArray]) -> tuple[float, float]:
    """The range of colours: even around zero where there are negative numbers, else from zero if it is not far."""
    numbers = np.concatenate([values[np.isfinite(values)].ravel() for values in maps])
    low, high = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
    if not max(-low, high) > FLAT:
        return 0.0, 1.0
    if low < -MAP_NOISE * high:
        size = max(-low, high)
        return -size, size
    return (low if low > FAR * high else 0.0), high


def heat_map(panel: Axes, sweep: Sweep, values: FloatArray, limits: tuple[float, float]) -> Any:
    """One map: the first axis upwards, the second to the right."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    first, second = (scale_of(axis.points) for axis in sweep.axes)
    rising = values[np.ix_(first.order, second.order)]
    low, high = limits
    colours = BELOW_TO_ABOVE if low < 0 else BELOW_TO_ABOVE[3:]
    chart = LinearSegmentedColormap.from_list("signed", colours).with_extremes(bad=GREY)
    shown = np.ma.masked_invalid(rising)
    drawn = panel.pcolormesh(second.edges, first.edges, shown, cmap=chart, vmin=low, vmax=high, rasterized=True)
    finite = np.where(np.isfinite(rising), rising, np.nan)
    least = MAP_NOISE * max(-low, high)
    if low < 0 and min(rising.shape) >= MIN_CROSSED and (finite < -least).any() and (finite > least).any():
        clear = np.where(np.abs(finite) <= least, 0.0, finite)  # no lines around rounding
        panel.contour(second.positions, first.positions, clear, levels=[0.0], colors=INK, linewidths=1.0)
    second.dress(panel.xaxis)
    first.dress(panel.yaxis)
    return drawn


def mark_regions(panel: Axes, sweep: Sweep, mechanism: str) -> None:
    """Hatch where somebody contributes nothing or its cap, dots where a coalition leaves the domain."""
    first, second = (scale_of(axis.points) for axis in sweep.axes)
    for _, hatch, flags in _regions(sweep, mechanism):
        if not flags.any():
            continue
        # Every cell's flag at its own corners: the border of the region is that of its cells.
        region = flags[np.ix_(first.order, second.order)].astype(float).repeat(2, axis=0).repeat(2, axis=1)
        where = (second.doubled(), first.doubled(), region)
        laid = panel.contourf(*where, levels=[0.5, 1.5], colors="none", hatches=[hatch])
        laid.set_edgecolor(HATCHING)
        laid.set_linewidth(0.0)
        if not flags.all():
            panel.contour(*where, levels=[0.5], colors=FAINT, linewidths=0.6)


def _regions(sweep: Sweep, mechanism: str) -> list[tuple[str, str, np.ndarray]]:
    """What is marked, how, and where."""
    solved = sweep.solved[mechanism]
    boundary = solved & sweep.on_boundary[mechanism].any(axis=-1)
    return [
        ("somebody shares nothing or all it has", BOUNDARY, boundary),
        ("a coalition leaves the domain", OUTSIDE, solved & ~sweep.in_domain[mechanism]),
        ("no equilibrium", UNSOLVED, ~solved),
    ]


def region_legend(figure: Any, sweep: Sweep) -> None:
    """What hatching, dots and grey mean, below the panels."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional dependency

    marks = [region for mechanism in sweep.metrics for region in _regions(sweep, mechanism)]
    seen = {label: hatch for label, hatch, flags in marks if flags.any()}
    handles = []
    for label, hatch, _ in marks[: len(marks) // len(sweep.metrics)]:
        if label in seen:
            face = GREY if hatch == UNSOLVED else "none"
            handles.append(Patch(facecolor=face, edgecolor=FAINT, linewidth=0.6, hatch=hatch, label=label))
    if _has_undefined(sweep):
        handles.append(Patch(facecolor=GREY, label="undefined or infinite"))
    legend_below(figure, handles, [str(handle.get_label()) for handle in handles])


def _has_undefined(sweep: Sweep) -> bool:
    """Whether some number is missing although there is an equilibrium."""
    return any(
        not np.isfinite(values[sweep.solved[mechanism]]).all()
        for mechanism, metrics in sweep.metrics.items()
        for values in metrics.values()
    )


def _series(sweep: Sweep, unit: Unit, mechanism: str, metric: str) -> list[tuple[str, FloatArray]]:
    """The curves or maps of one metric: one per agent while they can be told apart, else the range over agents."""
    values = sweep.metrics[mechanism][metric] * unit.of_measure(unit_of(metric))[1]
    if not sweep.is_per_agent(metric):
        return [("", values)]
    names = sweep.labels(metric)
    if len(names) <= MAX_NAMED_LINES:
        return [(legend_name(name), values[..., agent]) for agent, name in enumerate(names)]
    with np.errstate(invalid="ignore"):
        mean = values.mean(axis=-1)
    low, high = values.min(axis=-1), values.max(axis=-1)
    return [("lowest of all members", low), ("mean of all members", mean), ("highest of all members", high)]


def _with_unit(metric: str, unit: Unit) -> str:
    return f"{metric_name(metric)}\n({unit.of_measure(unit_of(metric))[0]})"


# Axes


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """Where the values of a parameter stand on an axis: in rising order, evenly, or evenly in their logarithms.

    A single value, and values of which one is infinite, stand side by side like words.

    Attributes
    ----------
    order
        The values' numbers in rising order.
    positions
        Where they stand, in that order.
    edges
        The borders of the cells around them, one more than there are values.
    logarithmic
        Whether the axis is.
    words
        What is written at the positions; empty where the axis is numbered.
    """

    order: np.ndarray
    positions: FloatArray
    edges: FloatArray
    logarithmic: bool = False
    words: Sequence[str] = ()

    def dress(self, axis: Any) -> None:
        """Set up an axis of a panel, such as `panel.xaxis`."""
        if self.logarithmic:
            getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
        if self.words:
            step = -(-len(self.words) // MAX_WORDS)
            axis.set_ticks(self.positions[::step], list(self.words)[::step])

    def doubled(self) -> FloatArray:
        """Both edges of every cell in turn: the coordinates of an array each of whose entries stands twice."""
        return np.repeat(self.edges, 2)[1:-1]


def scale_of(points: FloatArray) -> Scale:
    """The axis for the values a parameter takes."""
    order = np.argsort(points, kind="stable")
    rising = points[order]
    if rising.size == 1 or not np.isfinite(rising).all():
        positions = np.arange(rising.size, dtype=np.float64)
        return Scale(
            order=order, positions=positions, edges=_edges(positions), words=[_word(value) for value in rising]
        )
    if _is_logarithmic(rising):
        return Scale(order=order, positions=rising, edges=np.exp(_edges(np.log(rising))), logarithmic=True)
    return Scale(order=order, positions=rising, edges=_edges(rising))


def _edges(positions: FloatArray) -> FloatArray:
    """Halfway between neighbours, and as far beyond the ends."""
    if positions.size == 1:
        return np.array([positions[0] - 0.5, positions[0] + 0.5])
    middle = (positions[1:] + positions[:-1]) / 2.0
    return np.concatenate([[2.0 * positions[0] - middle[0]], middle, [2.0 * positions[-1] - middle[-1]]])


def _is_logarithmic(rising: FloatArray) -> bool:
    """Whether values are spaced more evenly in their logarithms than as they are, over a wide range."""
    if rising.size < 3 or rising[0] <= 0 or rising[-1] / rising[0] < LOG_RANGE:
        return False
    unevenness = [np.ptp(np.diff(numbers)) / np.diff(numbers).max() for numbers in (np.log(rising), rising)]
    return bool(unevenness[0] < unevenness[1])


def _word(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", MINUS)

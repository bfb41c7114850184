"""Pictures of sweeps: curves over one parameter, heat maps over two.

In heat maps red is below zero and blue above, with the numbers' change of sign drawn as a line, so that no reader
depends on the colours. Where some agent contributes nothing or its cap, the picture is hatched lightly; where some
coalition leaves the domain of the payoffs, it is dotted; where a number is undefined or infinite, it is grey, and
crossed where there is no equilibrium.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
PANEL = 2.5  # inches
CURVE = (3.1, 2.3)
FAR = 0.5  # of the largest number: colours then begin at the smallest instead of zero
MAP_NOISE = 1e-9  # of the largest number of a map
FLAT = 1e-12  # where no number is larger, there is nothing to draw
LOG_RANGE = 10.0  # the ratio of the largest value to the smallest from which an axis may be logarithmic
MAX_WORDS = 6  # at an axis
MIN_CROSSED = 5  # values of both parameters, to draw a line between the signs


@dataclass(frozen=True, kw_only=True, eq=False)
class _Map:
    """One panel: a number for each point of the grid."""

    mechanism: str
    metric: str
    head: str
    values: FloatArray


def plot_sweep(sweep: Sweep, *, money: Money | None = None, data: str = "", figure: Any = None) -> Any:
    """Every metric of a sweep under every mechanism, as far as a picture holds them; in money if it is given."""
    unit = Unit.of(money, data=data)
    return _curves(sweep, unit, figure) if len(sweep.shape) == 1 else _maps(sweep, unit, figure)


def _metrics(sweep: Sweep) -> list[str]:
    return list(next(iter(sweep.metrics.values())))


# Curves


def _curves(sweep: Sweep, unit: Unit, figure: Any) -> Any:
    metrics, mechanisms = _metrics(sweep)[:MAX_PANEL_ROWS], list(sweep.metrics)
    figure = figure or new_figure(1.2 + CURVE[0] * len(mechanisms), 0.6 + CURVE[1] * len(metrics))
    panels = figure.subplots(len(metrics), len(mechanisms), squeeze=False, sharex=True, sharey="row")
    scale = scale_of(sweep.axes[0].points)
    for row, metric in enumerate(metrics):
        for column, mechanism in enumerate(mechanisms):
            panel = panels[row, column]
            _draw_curves(panel, scale, _series(sweep, unit, mechanism, metric))
            _shade_unsolved(panel, scale, sweep.solved[mechanism])
            dress_axes(panel, tick_size=None)
            if row == 0:
                panel.set_title(sweep.title(mechanism), loc="left")
            if column == 0:
                panel.set_ylabel(_with_unit(metric, unit))
            if row == len(metrics) - 1:
                panel.set_xlabel(legend_name(sweep.axes[0].label, MAX_LABEL_LENGTH))
    scale.dress(panels[0, 0].xaxis)
    figure.align_ylabels(panels[:, 0])
    _name_curves(figure, panels)
    _tell_left_out(figure, len(_metrics(sweep)), "metrics")
    return figure


def _draw_curves(panel: Axes, scale: Scale, series: Sequence[tuple[str, FloatArray]]) -> None:
    numbers = np.concatenate([values for _, values in series])
    finite = numbers[np.isfinite(numbers)]
    if np.abs(finite).max(initial=0.0) <= FLAT:
        panel.set_ylim(-1.0, 1.0)
    elif finite.min() < 0 < finite.max():
        panel.axhline(0.0, color=FAINT, linewidth=0.8)
    for place, (label, values) in enumerate(series):
        rising = values[scale.order]
        panel.plot(
            scale.places,
            np.where(np.isfinite(rising), rising, np.nan),
            label=label,
            **line_style(place),
            marker="o" if rising.size <= MAX_MARKED_POINTS else None,
            markersize=3,
        )


def _shade_unsolved(panel: Axes, scale: Scale, solved: np.ndarray) -> None:
    """A grey band where there is no equilibrium."""
    for start, stop in _runs(~solved[scale.order]):
        panel.axvspan(scale.edges[start], scale.edges[stop], facecolor=GREY, edgecolor="none", zorder=0)
    panel.set_xlim(scale.edges[0], scale.edges[-1])


def _runs(flags: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where flags are set: from which on, and before which they end."""
    changes = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return ((int(start), int(stop)) for start, stop in changes.reshape(-1, 2))


def _name_curves(figure: Any, panels: np.ndarray) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional dependency

    fullest = max(panels.flat, key=lambda panel: len(panel.get_legend_handles_labels()[0]))
    handles, labels = fullest.get_legend_handles_labels()
    if len(handles) == 1:
        handles, labels = [], []
    if any(panel.patches for panel in panels.flat):
        handles, labels = [*handles, Patch(facecolor=GREY)], [*labels, "no equilibrium"]
    legend_below(figure, handles, labels)


# Maps


def _maps(sweep: Sweep, unit: Unit, figure: Any) -> Any:
    rows = [row for metric in _metrics(sweep) for row in _rows(sweep, unit, metric)]
    shown = rows[:MAX_PANEL_ROWS]
    width = max(len(row) for row in shown)
    figure = figure or new_figure(1.5 + PANEL * width, 0.7 + (PANEL + 0.15) * len(shown))
    panels = figure.subplots(len(shown), width, squeeze=False)
    for line, row in enumerate(shown):
        metric = row[0].metric
        limits = signed_limits([each.values for other in rows for each in other if each.metric == metric])
        for column, each in enumerate(row):
            panel = panels[line, column]
            drawn = heat_map(panel, sweep, each.values, limits)
            mark_regions(panel, sweep, each.mechanism)
            panel.set_title(each.head, loc="left", fontsize=9)
            _name_axes(panel, sweep, left=column == 0, below=line == len(shown) - 1 or column >= len(shown[line + 1]))
        for panel in panels[line, len(row) :]:
            panel.set_axis_off()
        figure.colorbar(drawn, ax=list(panels[line]), label=_with_unit(metric, unit), shrink=0.9, pad=0.02)
    region_legend(figure, sweep)
    _tell_left_out(figure, len(rows), "rows of maps")
    return figure


def _rows(sweep: Sweep, unit: Unit, metric: str) -> list[list[_Map]]:
    """The panels of a metric: the mechanisms side by side, or below each other if there are agents side by side."""
    found = [
        [
            _Map(mechanism=name, metric=metric, head="\n".join(filter(None, [sweep.title(name), label])), values=v)
            for label, v in _series(sweep, unit, name, metric)
        ]
        for name in sweep.metrics
    ]
    return found if sweep.is_per_agent(metric) else [[row[0] for row in found]]


def _name_axes(panel: Axes, sweep: Sweep, *, left: bool, below: bool) -> None:
    first, second = sweep.axes
    if left:
        panel.set_ylabel(legend_name(first.label, MAX_LABEL_LENGTH))
    if below:
        panel.set_xlabel(legend_name(second.label, MAX_LABEL_LENGTH))


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
        panel.contour(second.places, first.places, clear, levels=[0.0], colors=INK, linewidths=1.0)
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
        ("somebody contributes nothing or its cap", BOUNDARY, boundary),
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


# Both


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


def _tell_left_out(figure: Any, count: int, what: str) -> None:
    if count > MAX_PANEL_ROWS:
        figure.suptitle(f"The first {MAX_PANEL_ROWS} of {count} {what}; the table holds all", fontsize=9, color=FAINT)


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
    places
        Where they stand, in that order.
    edges
        The borders of the cells around them, one more than there are values.
    logarithmic
        Whether the axis is.
    words
        What is written at the places; empty where the axis is numbered.
    """

    order: np.ndarray
    places: FloatArray
    edges: FloatArray
    logarithmic: bool = False
    words: Sequence[str] = ()

    def dress(self, axis: Any) -> None:
        """Set up an axis of a panel, such as `panel.xaxis`."""
        if self.logarithmic:
            getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
        if self.words:
            step = -(-len(self.words) // MAX_WORDS)
            axis.set_ticks(self.places[::step], list(self.words)[::step])

    def doubled(self) -> FloatArray:
        """Both edges of every cell in turn: the coordinates of an array each of whose entries stands twice."""
        return np.repeat(self.edges, 2)[1:-1]


def scale_of(points: FloatArray) -> Scale:
    """The axis for the values a parameter takes."""
    order = np.argsort(points, kind="stable")
    rising = points[order]
    if rising.size == 1 or not np.isfinite(rising).all():
        places = np.arange(rising.size, dtype=np.float64)
        return Scale(order=order, places=places, edges=_edges(places), words=[_word(value) for value in rising])
    if _is_logarithmic(rising):
        return Scale(order=order, places=rising, edges=np.exp(_edges(np.log(rising))), logarithmic=True)
    return Scale(order=order, places=rising, edges=_edges(rising))


def _edges(places: FloatArray) -> FloatArray:
    """Halfway between neighbours, and as far beyond the ends."""
    if places.size == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = (places[1:] + places[:-1]) / 2.0
    return np.concatenate([[2.0 * places[0] - middle[0]], middle, [2.0 * places[-1] - middle[-1]]])


def _is_logarithmic(rising: FloatArray) -> bool:
    """Whether values are spaced more evenly in their logarithms than as they are, over a wide range."""
    if rising.size < 3 or rising[0] <= 0 or rising[-1] / rising[0] < LOG_RANGE:
        return False
    unevenness = [np.ptp(np.diff(numbers)) / np.diff(numbers).max() for numbers in (np.log(rising), rising)]
    return bool(unevenness[0] < unevenness[1])


def _word(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", MINUS)

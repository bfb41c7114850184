"""Pictures of sweeps: curves over one parameter, heat maps over two.

In heat maps red is below zero and blue above, with the sign of the number at zero drawn as a line, so that no reader
depends on the colours. Where some agent contributes nothing or its cap, the picture is hatched lightly; where some
coalition leaves the domain of the payoffs, it is dotted; where there is no equilibrium, it is grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.arrays import FloatArray
from fedpact.mechanisms import MECHANISMS
from fedpact.plots.pictures import BAD, FAINT, GOOD, INK, new_figure

if TYPE_CHECKING:
    from fedpact.sweeps import Sweep

__all__ = ["heat_map", "mark_regions", "plot_sweep", "region_legend", "signed_limits"]

BELOW_TO_ABOVE = ("#67000d", "#cb181d", "#fc9272", "#f7f7f7", "#9ecae1", "#2171b5", "#08306b")
GREY = "#d9d9d9"
HATCHING = "#00000045"
BOUNDARY, OUTSIDE = "///", "..."
LINES = (GOOD, BAD, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a900")  # after Okabe and Ito
DASHES = ("-", "--", "-.", ":")
MOST_AGENTS = 8
PANEL = 2.5
SIGNED = 1e-12


def plot_sweep(sweep: Sweep, *, figure: Any = None) -> Any:
    """Every metric of a sweep under every mechanism."""
    rows = [(mechanism, metric) for metric in next(iter(sweep.metrics.values())) for mechanism in sweep.metrics]
    if len(sweep.shape) == 1:
        return _curves(sweep, rows, figure)
    return _maps(sweep, rows, figure)


def _curves(sweep: Sweep, rows: Sequence[tuple[str, str]], figure: Any) -> Any:
    metrics = list(dict.fromkeys(metric for _, metric in rows))
    mechanisms = list(sweep.metrics)
    figure = figure or new_figure(1.2 + 3.1 * len(mechanisms), 0.6 + 2.3 * len(metrics))
    panels = figure.subplots(len(metrics), len(mechanisms), squeeze=False, sharex=True, sharey="row")
    axis = sweep.axes[0]
    for row, metric in enumerate(metrics):
        for column, mechanism in enumerate(mechanisms):
            panel = panels[row, column]
            _draw_curves(panel, axis.points, _series(sweep, mechanism, metric))
            _dress(panel)
            if row == 0:
                panel.set_title(MECHANISMS[mechanism].title, loc="left")
            if column == 0:
                panel.set_ylabel(metric)
            if row == len(metrics) - 1:
                panel.set_xlabel(axis.label)
            if _is_logarithmic(axis.points):
                panel.set_xscale("log")
    named = max((panel for panel in panels.flat), key=lambda panel: len(panel.get_legend_handles_labels()[0]))
    handles, labels = named.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
    return figure


def _draw_curves(panel: Any, points: FloatArray, series: Sequence[tuple[str, FloatArray]]) -> None:
    numbers = np.concatenate([values for _, values in series])
    finite = numbers[np.isfinite(numbers)]
    if finite.size and finite.min() < 0 < finite.max():
        panel.axhline(0.0, color=FAINT, linewidth=0.8)
    marker = "o" if points.size <= 25 else None
    for place, (label, values) in enumerate(series):
        panel.plot(
            points,
            np.where(np.isfinite(values), values, np.nan),
            label=label,
            color=LINES[place % len(LINES)],
            linestyle=DASHES[place % len(DASHES)],
            marker=marker,
            markersize=3,
        )


def _series(sweep: Sweep, mechanism: str, metric: str) -> list[tuple[str, FloatArray]]:
    """The curves or maps of one metric: one per agent while they can be told apart, else the range over agents."""
    values = sweep.metrics[mechanism][metric]
    if not sweep.is_per_agent(metric):
        return [(metric, values)]
    if len(sweep.agents) <= MOST_AGENTS:
        return [(name, values[..., agent]) for agent, name in enumerate(sweep.agents)]
    return [
        ("lowest of all agents", values.min(axis=-1)),
        ("mean of all agents", values.mean(axis=-1)),
        ("highest of all agents", values.max(axis=-1)),
    ]


def _maps(sweep: Sweep, rows: Sequence[tuple[str, str]], figure: Any) -> Any:
    series = {row: _series(sweep, *row) for row in rows}
    width = max(len(maps) for maps in series.values())
    figure = figure or new_figure(1.5 + PANEL * width, 0.7 + PANEL * len(rows))
    panels = figure.subplots(len(rows), width, squeeze=False)
    limits = {
        metric: signed_limits([v for row in rows if row[1] == metric for _, v in series[row]]) for _, metric in rows
    }
    for row, (mechanism, metric) in enumerate(rows):
        drawn = None
        for column in range(width):
            panel = panels[row, column]
            if column >= len(series[mechanism, metric]):
                panel.set_axis_off()
                continue
            label, values = series[mechanism, metric][column]
            drawn = heat_map(panel, sweep, values, limits[metric])
            mark_regions(panel, sweep, mechanism)
            panel.set_title(_head(sweep, mechanism, metric, label), loc="left", fontsize=9)
            _name_axes(panel, sweep, left=column == 0, below=row == len(rows) - 1)
        figure.colorbar(drawn, ax=list(panels[row]), label=metric, shrink=0.85, pad=0.02)
    region_legend(figure, sweep)
    return figure


def _head(sweep: Sweep, mechanism: str, metric: str, label: str) -> str:
    title = MECHANISMS[mechanism].title
    return f"{title}: {label}" if sweep.is_per_agent(metric) else title


def _name_axes(panel: Any, sweep: Sweep, *, left: bool, below: bool) -> None:
    first, second = sweep.axes
    if left:
        panel.set_ylabel(first.label)
    if below:
        panel.set_xlabel(second.label)
    if _is_logarithmic(first.points):
        panel.set_yscale("log")
    if _is_logarithmic(second.points):
        panel.set_xscale("log")


def signed_limits(maps: Sequence[FloatArray]) -> tuple[float, float]:
    """The range of colours: even around zero where there are both signs or only negative numbers."""
    numbers = np.concatenate([values[np.isfinite(values)].ravel() for values in maps])
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0:
        size = max(-low, high)
        return -size, size
    return (0.0, high) if high > 0 else (0.0, 1.0)


def heat_map(panel: Any, sweep: Sweep, values: FloatArray, limits: tuple[float, float]) -> Any:
    """One map: the first axis upwards, the second to the right."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    first, second = (axis.points for axis in sweep.axes)
    low, high = limits
    colours = BELOW_TO_ABOVE if low < 0 else BELOW_TO_ABOVE[3:]
    chart = LinearSegmentedColormap.from_list("signed", colours).with_extremes(bad=GREY)
    shown = np.ma.masked_invalid(values)
    drawn = panel.pcolormesh(second, first, shown, cmap=chart, vmin=low, vmax=high, shading="nearest", rasterized=True)
    finite = np.where(np.isfinite(values), values, np.nan)
    if low < 0 and min(values.shape) > 1 and np.nanmin(finite) < -SIGNED and np.nanmax(finite) > SIGNED:
        panel.contour(second, first, finite, levels=[0.0], colors=INK, linewidths=1.0)
    return drawn


def mark_regions(panel: Any, sweep: Sweep, mechanism: str) -> None:
    """Hatch where somebody contributes nothing or its cap, dots where a coalition leaves the domain."""
    if min(sweep.shape) < 2:
        return
    first, second = (axis.points for axis in sweep.axes)
    boundary = sweep.on_boundary[mechanism].any(axis=-1)
    outside = sweep.solved[mechanism] & ~sweep.in_domain[mechanism]
    for region, hatch in ((boundary, BOUNDARY), (outside, OUTSIDE)):
        if region.any():
            laid = panel.contourf(
                second, first, region.astype(float), levels=[0.5, 1.5], colors="none", hatches=[hatch]
            )
            laid.set_edgecolor(HATCHING)
            laid.set_linewidth(0.0)
        if region.any() and not region.all():
            panel.contour(second, first, region.astype(float), levels=[0.5], colors=FAINT, linewidths=0.6)


def region_legend(figure: Any, sweep: Sweep) -> None:
    """What hatching, dots and grey mean, below the panels."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional dependency

    handles = []
    if any(flags.any() for flags in sweep.on_boundary.values()):
        handles.append(
            Patch(
                facecolor="none",
                edgecolor=FAINT,
                linewidth=0.6,
                hatch=BOUNDARY,
                label="somebody contributes nothing or its cap",
            )
        )
    if any((sweep.solved[name] & ~sweep.in_domain[name]).any() for name in sweep.metrics):
        handles.append(
            Patch(
                facecolor="none", edgecolor=FAINT, linewidth=0.6, hatch=OUTSIDE, label="a coalition leaves the domain"
            )
        )
    if not all(flags.all() for flags in sweep.solved.values()):
        handles.append(Patch(facecolor=GREY, label="no equilibrium"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)


def _dress(panel: Any) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)


def _is_logarithmic(points: FloatArray) -> bool:
    """Whether points are spaced evenly in their logarithms rather than evenly."""
    if points.size < 3 or points.min() <= 0 or not np.isfinite(points).all():
        return False
    ratios, steps = np.diff(np.log(points)), np.diff(points)
    return bool(np.ptp(ratios) < np.ptp(steps / np.abs(steps).max()))

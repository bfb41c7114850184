"""Learning curves of a pilot: the score of each member's tests against the records a model has, alone and together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.fitting.pilots.folder import learning_curves
from fedpact.report.plots.style import BAD, GOOD, dress_axes, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.fitting.pilots import PilotStudy

MAX_PANELS = 12
LEARNING_CURVE_POINTS = 40
RUN_MARKS = {"everybody": (GOOD, "everybody's data"), "alone": (BAD, "own data alone")}


def plot_learning_curves(pilot: PilotStudy, *, figure: Any = None) -> Any:
    """A panel for each member, up to twelve: what was measured, and the fitted curves."""
    names = pilot.data.names[:MAX_PANELS]
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = figure or new_figure(3.1 * columns, 2.6 * rows + 0.4)
    measured = learning_curves(pilot)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for member, (panel, name) in enumerate(zip(panels, names, strict=False)):
        _draw_member(panel, pilot, member, [row for row in measured if row[0] == name])
        panel.set_title(short_name(name), loc="left")
        if member % columns == 0:
            panel.set_ylabel("score on its tests")
        if member >= len(names) - columns:
            panel.set_xlabel("records trained on")
    panels[0].legend(loc="lower right", fontsize="small", frameon=False)
    return figure


def _draw_member(
    panel: Axes, pilot: PilotStudy, member: int, measured: list[tuple[str, str, float, int, float]]
) -> None:
    data = pilot.data
    mine = np.array([owner == data.names[member] for owner in data.lot_owners])
    for kind, (colour, label) in RUN_MARKS.items():
        inside = np.ones(len(mine), dtype=bool) if kind == "everybody" else mine
        most = np.where(inside, data.available, 0.0)
        shares = np.geomspace(min(1.0, 5.0 / most.sum()), 1.0, LEARNING_CURVE_POINTS)
        fitted = pilot.fit.predict(shares[:, None] * most)[:, member]
        panel.plot(shares * most.sum(), fitted, color=colour, linewidth=1.2)
        dots = [(records, score) for _, own, _, records, score in measured if own == kind]
        if dots:
            records, scores = zip(*dots, strict=True)
            panel.scatter(records, scores, color=colour, s=18, label=label, zorder=3)
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    dress_axes(panel)

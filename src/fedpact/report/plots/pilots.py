"""What sharing brings each member of a pilot: gains over its own model, under one model for all and by own choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.fitting.pilots.arrangements import ONE_MODEL, OWN_CHOICE
from fedpact.report.plots.style import BAD, FAINT, GOOD, dress_axes, new_figure, short_name
from fedpact.scenario.measured import NORMAL_QUANTILE

if TYPE_CHECKING:
    from fedpact.fitting.pilots import PilotStudy

APART = 0.16  # of two marks of one member


def plot_pilot(pilot: PilotStudy, *, figure: Any = None) -> Any:
    """Gains in points with intervals of 90 %, a row per member."""
    names = pilot.data.names
    figure = figure or new_figure(6.4, 1.2 + 0.5 * len(names))
    axes = figure.subplots()
    rows = np.arange(len(names))
    for kind, colour, shift in ((ONE_MODEL, BAD, -APART), (OWN_CHOICE, GOOD, APART)):
        gains, errors = pilot.gain(kind)
        spans = 100.0 * NORMAL_QUANTILE * errors
        axes.errorbar(100.0 * gains, rows + shift, xerr=spans, fmt="o", color=colour, label=kind, markersize=5)
    axes.axvline(0.0, color=FAINT, linewidth=1.0)
    axes.set_yticks(rows, [short_name(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(f"points of {pilot.score.name.replace('_', ' ')} over its own model alone, everything shared")
    axes.legend(frameon=False, fontsize="small")
    dress_axes(axes)
    return figure

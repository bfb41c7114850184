"""A picture of a fit: measured against fitted accuracies, and every agent's curve with its band.

A curve runs over the data an agent reaches, counted in its own samples: a sample of somebody else's counts w_ij / w_ii.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.plots.pictures import BAD, FAINT, GOOD, INK, new_figure

if TYPE_CHECKING:
    from fedpact.fitting import Fit

__all__ = ["plot_fit"]

MOST_CURVES = 6
POINTS = 60
MOST_DOTS = 3000
LEVEL = 0.9
LONGEST_NAME = 24
STRAY = 4.0


def plot_fit(fit: Fit, *, figure: Any = None) -> Any:
    """Measured against fitted, and the curves of up to six agents with 90 % bands.

    Parameters
    ----------
    fit
        What to show.
    figure
        The empty matplotlib figure or subfigure to draw on; a new one if not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its first axes are measured against fitted.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    shown = min(len(fit.names), MOST_CURVES)
    columns = min(shown, 3)
    rows = -(-shown // columns)
    figure = figure or new_figure(4.2 + 2.6 * columns, max(3.8, 2.5 * rows))
    left, right = figure.subfigures(1, 2, width_ratios=(4.0, 2.6 * columns))
    _draw_agreement(left.add_subplot(), fit)
    panels = right.subplots(rows, columns, squeeze=False).ravel()
    for agent, panel in enumerate(panels):
        if agent < shown:
            _draw_curve(panel, fit, agent)
        else:
            panel.set_axis_off()
    rest = f", the first {shown} of {len(fit.names)} agents" if shown < len(fit.names) else ""
    right.supxlabel(f"data reached, in own samples{rest}", fontsize=9, color=INK)
    return figure


def _draw_agreement(ax: Any, fit: Fit) -> None:
    """Each accuracy against what the fit expects; those far off are marked."""
    seen = fit.observations
    measured = seen.accuracies[seen.measured]
    fitted = measured - fit.residuals[seen.measured]
    far = np.abs(fit.scaled_residuals[seen.measured]) > STRAY
    step = -(-measured.size // MOST_DOTS)
    ends = (min(measured.min(), fitted.min()), max(measured.max(), fitted.max()))
    ax.plot(ends, ends, color=FAINT, linewidth=0.9)
    ax.plot(fitted[~far][::step], measured[~far][::step], "o", color=GOOD, markersize=3, alpha=0.6, markeredgewidth=0)
    if far.any():
        ax.plot(fitted[far], measured[far], "x", color=BAD, markersize=5, label="more than 4 standard deviations off")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax.set_xlabel("fitted accuracy", fontsize=9, color=INK)
    ax.set_ylabel("measured accuracy", fontsize=9, color=INK)
    ax.set_title(f"rms {fit.quality.rms:.3f}", loc="left", fontsize=10, color=INK)
    _dress(ax)


def _draw_curve(ax: Any, fit: Fit, agent: int) -> None:
    seen = fit.observations
    used = seen.measured[:, agent]
    own = float(fit.weights[agent, agent])
    reached = seen.contributions[used] @ fit.weights[agent] / own
    places = np.linspace(0.0, max(float(reached.max()), 1.0), POINTS)
    middle, errors = fit.spread.curve_bands(agent, places * own)
    reach = fit.quantile(0.5 + LEVEL / 2.0) * errors
    low, high = np.clip(middle - reach, 0.0, 1.0), np.clip(middle + reach, 0.0, 1.0)
    ax.fill_between(places, low, high, color=GOOD, alpha=0.25, linewidth=0)
    ax.plot(places, middle, color=GOOD, linewidth=1.2)
    step = -(-int(used.sum()) // MOST_DOTS)
    ax.plot(reached[::step], seen.accuracies[used, agent][::step], "o", color=INK, markersize=2.5, alpha=0.6)
    name = " ".join(fit.names[agent].split())
    ax.set_title(name[:LONGEST_NAME], loc="left", fontsize=9, color=INK, parse_math=False)
    _dress(ax)


def _dress(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8, colors=INK)

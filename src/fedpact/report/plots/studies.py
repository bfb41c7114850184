"""Pictures of studies: what an agent gains by misreporting, against the factor it lies by.

A row of panels for each lie, a column for each mechanism, a line for each agent; the ground is blue where lying pays.
Losses are often many times the gains: an axis that shows gains ends at a multiple of the largest, and lines leave it
below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.negotiation.misreports import GAME, LIES, title_of
from fedpact.report.plots.pictures import FAINT, GOOD, INK, new_figure
from fedpact.report.plots.sweeps import DASHES, LINES, MOST_AGENTS
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.negotiation.misreports import BestLie, MisreportStudy

__all__ = ["plot_misreports"]

PANEL = (3.2, 2.5)  # inches
DEPTH = 1.5  # of the largest gain: how far below zero an axis that shows gains reaches
SMALL = 0.1  # of the largest gain in a row: what an axis shows at least
ROOM = 0.08  # of an axis, beyond what it shows
LONGEST_NAME, LONGEST_IN_HEAD = 24, 16
LETTERS = 15  # in an inch of the legend
OTHERS = "#c8c8c8"
GROUND = 0.08  # how dark the blue ground is
TICKS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 100.0, 1000.0)


def plot_misreports(study: MisreportStudy, *, figure: Any = None) -> Any:
    """Gains against factors; a ring is what a lying agent gained in a negotiation.

    Beyond eight agents those who gain most are named, and the others are grey.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its `axes` are the panels row by row.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    mechanisms = study.mechanisms
    figure = figure or new_figure(0.9 + PANEL[0] * len(mechanisms), 0.9 + PANEL[1] * len(LIES))
    panels = figure.subplots(len(LIES), len(mechanisms), squeeze=False, sharex=True)
    named = _named(study)
    for row, what in enumerate(LIES):
        best = study.best(what)
        highest = max(lie.gain for lie in best.values())
        for panel, mechanism in zip(panels[row], mechanisms, strict=True):
            _draw(panel, study, mechanism, row, named)
            low, high = _limits(study, mechanism, row, highest)
            panel.axhspan(0.0, high, facecolor=GOOD, alpha=GROUND, linewidth=0.0, zorder=0)
            panel.set_ylim(low, high)
            panel.set_title(_head(mechanism if row == 0 else None, best[mechanism]), loc="left", fontsize=9, color=INK)
        panels[row, 0].set_ylabel(f"gain by lying about {what}\n(payoff)", fontsize=9, color=INK)
    for panel in panels[-1]:
        panel.set_xlabel("reported / true", fontsize=9, color=INK)
    figure.align_ylabels(panels[:, 0])
    _number_factors(panels[0, 0], study.factors)
    _name_lines(figure, panels, study, named)
    return figure


def _head(mechanism: str | None, best: BestLie) -> str:
    """The mechanism above the first row, and the largest gain above every panel."""
    who = _short(best.agent, LONGEST_IN_HEAD)
    found = f"largest {best.gain:.3g}: {who}, × {best.factor:.3g}" if best.pays else "nobody gains"
    if mechanism is None:
        return found
    title = f"{title_of(mechanism)}, others in equilibrium" if mechanism == GAME else title_of(mechanism)
    return f"{title}\n{found}"


def _named(study: MisreportStudy) -> list[int]:
    """The agents whose lines have a name: all, or those who gain most, in the order of the federation."""
    if len(study.agents) <= MOST_AGENTS:
        return list(range(len(study.agents)))
    peaks = np.max([_finite(gains).max(axis=(1, 2), initial=0.0) for gains in study.gains.values()], axis=0)
    return sorted(int(agent) for agent in np.argsort(-peaks, kind="stable")[:MOST_AGENTS])


def _finite(gains: FloatArray) -> FloatArray:
    return np.where(np.isfinite(gains), gains, 0.0)


def _draw(panel: Any, study: MisreportStudy, mechanism: str, lie: int, named: Sequence[int]) -> None:
    gains = study.gains[mechanism][:, lie]
    order = np.argsort(study.factors, kind="stable")
    factors = study.factors[order]
    marker = "o" if factors.size == 1 else None
    panel.axhline(0.0, color=INK, linewidth=0.9, zorder=1.5)
    panel.axvline(1.0, color=FAINT, linewidth=0.7, linestyle=":", zorder=1.5)
    shown = np.where(np.isfinite(gains), gains, np.nan)[:, order]
    for agent in range(len(study.agents)):
        if agent not in named:
            panel.plot(factors, shown[agent], color=OTHERS, linewidth=0.6, marker=marker, zorder=1.8)
    for place, agent in enumerate(named):
        style = {"color": LINES[place % len(LINES)], "linestyle": DASHES[place % len(DASHES)]}
        panel.plot(factors, shown[agent], linewidth=1.6, marker=marker, label=_short(study.agents[agent]), **style)
    if mechanism == "externality":
        _ring(panel, study, LIES[lie])
    _dress(panel)


def _limits(study: MisreportStudy, mechanism: str, lie: int, highest: float) -> tuple[float, float]:
    """Room for every gain, and for losses as far as gains can be seen beside them.

    A gain that is small beside the `highest` of the row looks small.
    """
    finite = _finite(study.gains[mechanism][:, lie])
    low, high = float(finite.min()), float(finite.max())
    rounding = float(study.rounding[mechanism].max())
    if max(high, -low) <= rounding:
        return -1.0, 1.0
    if high > rounding:
        top = max(high, SMALL * highest)
        return max(low, -DEPTH * top) - ROOM * top, (1.0 + 2.0 * ROOM) * top
    return (1.0 + ROOM) * low, -2.0 * ROOM * low


def _ring(panel: Any, study: MisreportStudy, what: str) -> None:
    held = [each for each in study.negotiated if each.what == what]
    if held:
        factors, gains = [each.factor for each in held], [each.gain for each in held]
        panel.plot(
            factors, gains, linestyle="none", marker="o", markersize=7, markerfacecolor="none", markeredgecolor=INK,
            label="in a negotiation", clip_on=False, zorder=3,
        )  # fmt: skip


def _number_factors(panel: Any, factors: FloatArray) -> None:
    """A logarithmic axis with the factors people think in."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415 - optional dependency

    low, high = float(min(factors.min(), 1.0)), float(max(factors.max(), 1.0))
    panel.set_xscale("log")
    room = (high / low) ** 0.03 if high > low else 1.5
    panel.set_xlim(low / room, high * room)
    ticks = [tick for tick in TICKS if low <= tick * 1.001 and tick <= high * 1.001]
    ticks = ticks if len(ticks) > 2 else sorted({low, 1.0, high})
    panel.set_xticks(ticks, [_factor(tick) for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())


def _factor(tick: float) -> str:
    return f"1/{1 / tick:g}" if tick in TICKS and tick < 1 else f"{tick:.3g}"


def _name_lines(figure: Any, panels: np.ndarray, study: MisreportStudy, named: Sequence[int]) -> None:
    """One legend for all panels, below them."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional dependency

    found = [panel.get_legend_handles_labels() for panel in panels[:, 0]]
    fullest = max(found, key=lambda entry: len(entry[0]))  # the rings may be in one row only
    handles, labels = list(fullest[0]), list(fullest[1])
    rest = len(study.agents) - len(named)
    if rest:
        handles, labels = [*handles, Line2D([], [], color=OTHERS)], [*labels, f"{rest} more"]
    handles, labels = [*handles, Patch(facecolor=GOOD, alpha=GROUND)], [*labels, "lying pays"]
    widths = [(len(label) + 8) / LETTERS for label in labels]  # inches
    room = figure.get_figure(root=True).get_size_inches()[0]
    columns = len(labels) if sum(widths) <= room else max(1, int(room / max(widths)))
    where = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": 8}
    figure.legend(handles, labels, **where)


def _dress(panel: Any) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.tick_params(labelsize=8, colors=INK)
    panel.locator_params(axis="y", nbins=5)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)


def _short(name: str, longest: int = LONGEST_NAME) -> str:
    """A name on one line, short enough for the legend, which leaves out names that begin with _ and reads dollars."""
    line = " ".join(name.split())
    short = line if len(line) <= longest else f"{line[: longest // 2]}…{line[1 - longest // 2 :]}"
    return (f" {short}" if short.startswith("_") else short).replace("$", r"\$")

"""Learning curves of a run: accuracy round by round, in the deal and alone, an agent a line and the mean in bold.

Lines differ by colour and by dashes. Beyond eight agents all are grey, and only the mean has a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.mechanisms import MECHANISMS
from fedpact.report.plots.pictures import INK, new_figure
from fedpact.report.plots.sweeps import DASHES, LINES, MOST_AGENTS
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.training.run import Run

__all__ = ["plot_run"]

SIZE = (8.4, 3.9)  # inches
OTHERS = "#c8c8c8"
MOST_MARKED = 2  # rounds, with a mark each
LONGEST_NAME = 24
LETTERS = 15  # in an inch of the legend
ROOM = 0.02  # above right always, and below wrong always


def plot_run(run: Run, *, figure: Any = None) -> Any:
    """Two panels with the same axes: accuracies in the deal, and of everybody alone.

    Parameters
    ----------
    run
        What came of training under a deal.
    figure
        The empty matplotlib figure or subfigure to draw on, best one with `layout="constrained"`; a new one if not
        given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its `axes` are the deal and alone.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    figure = figure or new_figure(*SIZE)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, what, accuracies in (
        (panels[0], "in the deal", run.together.accuracies),
        (panels[1], "alone", run.alone.accuracies),
    ):
        _draw(panel, run, accuracies)
        panel.set_title(f"{what}: {accuracies[-1].mean():.3f} on average", loc="left", fontsize=9, color=INK)
        panel.set_xlabel("round", fontsize=9, color=INK)
        _dress(panel)
    panels[0].set_ylabel("accuracy on own test set", fontsize=9, color=INK)
    panels[0].set_ylim(-ROOM, 1.0 + ROOM)
    panels[0].xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(_headline(run), x=0.01, ha="left", fontsize=11, color=INK, parse_math=False)
    _name_lines(figure, panels[0], run)
    return figure


def _draw(panel: Any, run: Run, accuracies: FloatArray) -> None:
    rounds = np.arange(1, run.rounds + 1)
    marker = "o" if run.rounds <= MOST_MARKED else None
    named = len(run.agents) <= MOST_AGENTS
    for agent, name in enumerate(run.agents):
        panel.plot(
            rounds,
            accuracies[:, agent],
            color=LINES[agent % len(LINES)] if named else OTHERS,
            linestyle=DASHES[agent % len(DASHES)] if named else "-",
            linewidth=1.3 if named else 0.6,
            marker=marker,
            markersize=4,
            label=_label(name) if named else "_",
        )
    if len(run.agents) > 1:
        mean = accuracies.mean(axis=1)
        panel.plot(rounds, mean, color=INK, linewidth=2.8, marker=marker, label="mean", zorder=3)


def _name_lines(figure: Any, panel: Any, run: Run) -> None:
    """Below the panels, in as many columns as fit."""
    handles, labels = panel.get_legend_handles_labels()
    if len(run.agents) > MOST_AGENTS:
        labels = [f"mean of {len(run.agents)} agents, which are grey"]
    widest = (max(len(label) for label in labels) + 6) / LETTERS
    columns = max(1, min(len(labels), int(SIZE[0] / widest)))
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _headline(run: Run) -> str:
    name = run.deal.mechanism
    title = MECHANISMS[name].title if name in MECHANISMS else _label(name)
    agents = f"{len(run.agents)} agent{'' if len(run.agents) == 1 else 's'}"
    return f"Training under {title}: {agents}, {run.rounds} round{'' if run.rounds == 1 else 's'}"


def _dress(panel: Any) -> None:
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8, colors=INK)


def _label(name: str) -> str:
    """A name on one line, its middle left out if it is long; legends leave out what begins with _."""
    line = " ".join(name.split())
    short = line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME // 2]}…{line[1 - LONGEST_NAME // 2 :]}"
    return f" {short}" if short.startswith("_") else short

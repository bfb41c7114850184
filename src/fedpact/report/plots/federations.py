"""Pictures of federations, outcomes and comparisons.

An outcome is a row of panels with a bar per member, a comparison one such row per mechanism. Members stand in their
order from top to bottom, by name while names can be read and by number beyond. Every function returns the figure it
drew on, which notebooks show and `figure.savefig` writes to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.numbers import number_text, number_texts, without_rounding
from fedpact.report.plots.style import AMOUNT, BAD, FAINT, GOOD, GRID, INK, new_figure, short_name
from fedpact.report.records import who_would_leave
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import Comparison
    from fedpact.deals import Outcome
    from fedpact.federation import Federation

HARM_TO_HELP = ("#7a2f00", BAD, "#f3b48a", "#f7f7f7", "#94c4e0", GOOD, "#00395c")
PANEL_HEADS = ("Contribution", "Payment received", "Gain over standing alone", "Benefit")
CAP_REACH = (
    2.5  # caps up to so many times the largest contribution are marked; those further off would leave the bars short
)
MAX_NAMED, MAX_NUMBERED = 60, 30  # bars with names beside them, and numbers at their ends
MAX_WRITTEN_WEIGHTS, MAX_NAMED_WEIGHTS = 12, 40
LUMINANCE = np.array([0.299, 0.587, 0.114])


def plot_federation(federation: Federation, ax: Any = None) -> Any:
    """The weights as a heat map: the row receives, the column gives; blue helps, orange harms.

    A row is a task and a column a lot where members have several.
    """
    weights, most = federation.weights, max(federation.weights.shape)
    height, width = (min(8.5, 3.4 + 0.32 * count) for count in weights.shape)
    figure = new_figure(width + 1.0, height) if ax is None else ax.figure
    ax = figure.add_subplot() if ax is None else ax
    largest = float(np.abs(weights).max()) or 1.0
    image = ax.imshow(weights, cmap=_diverging(), vmin=-largest, vmax=largest, interpolation="nearest")
    ax.set_title("How useful the column's data is to the row", loc="left", fontsize=11, color=INK, pad=10)
    ax.set_xlabel("gives", color=FAINT)
    ax.set_ylabel("receives", color=FAINT)
    ax.tick_params(length=2, labelsize=9 if most <= MAX_WRITTEN_WEIGHTS else 7, colors=INK)
    if most <= MAX_NAMED_WEIGHTS:
        rows, columns = (
            [short_name(name) for name in each] for each in (federation.task_labels, federation.lot_labels)
        )
        ax.set_yticks(np.arange(len(rows)), rows, parse_math=False)
        slanted = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(np.arange(len(columns)), columns, parse_math=False, **slanted)
    if most <= MAX_WRITTEN_WEIGHTS:
        _write_cells(ax, weights, image)
    figure.colorbar(image, ax=ax, shrink=0.8, aspect=30, pad=0.03, label="weight")
    for spine in ax.spines.values():
        spine.set_visible(False)
    return figure


def plot_outcome(outcome: Outcome, *, figure: Any = None) -> Any:
    """Three panels with a bar per member: contributions (per lot), payments, gains over standing alone.

    The figure's `axes` are the three panels, left to right.
    """
    return _draw_rows([outcome], [outcome.mechanism.capitalize()], figure, columns=3)


def plot_comparison(comparison: Comparison, *, figure: Any = None) -> Any:
    """A row of panels per mechanism: contributions, payments, gains, and benefits against Shapley shares.

    Panels in a column share their scale, so that mechanisms can be compared bar by bar. Contributions have a bar per
    lot where members have several. The figure's `axes` are the panels, row by row.
    """
    titles = [comparison.title(outcome.mechanism) for outcome in comparison.outcomes]
    return _draw_rows(comparison.outcomes, titles, figure, columns=4)


def _draw_rows(outcomes: Sequence[Outcome], titles: Sequence[str], figure: Any, *, columns: int) -> Any:
    if not outcomes:
        figure = new_figure(6.0, 1.5) if figure is None else figure
        figure.suptitle("No mechanism has an outcome", color=INK)
        return figure
    bars = max(outcomes[0].federation.n_agents, outcomes[0].federation.n_lots)
    if figure is None:
        height = 1.1 + (0.22 * bars if bars <= MAX_NAMED else 5.0)
        figure = new_figure(3.3 * columns, 0.6 + height * len(outcomes))
    panels = figure.subplots(len(outcomes), columns, squeeze=False, sharex="col")
    for row, outcome, title in zip(panels, outcomes, titles, strict=True):
        numbered = len(outcomes) == 1 and bars <= MAX_NUMBERED
        _draw_contributions(row[0], outcome, numbered=numbered)
        _draw_signed(row[1], without_rounding(outcome, outcome.payments), numbered=numbered)
        _draw_signed(row[2], without_rounding(outcome, outcome.ir_gaps), numbered=numbered)
        if columns > 3:
            _draw_benefits(row[3], outcome)
        lots = outcome.federation.has_lots
        for place, panel in enumerate(row):
            labels = outcome.federation.lot_labels if not place else outcome.agents
            _name_rows(panel, labels, shown=place == 0 or (lots and place == 1))
        welfare = number_texts([outcome.welfare])[0]
        headline = f"{title}: welfare {welfare}, {who_would_leave(outcome)}"
        row[0].set_title(headline, loc="left", fontsize=10, color=INK, parse_math=False)
    for panel, head in zip(panels[-1], PANEL_HEADS, strict=False):
        panel.set_xlabel(head, fontsize=9, color=INK)
    panels[-1][0].set_xlabel(f"{PANEL_HEADS[0]}{_caps_text(outcomes[0])}", fontsize=9, color=INK)
    if columns > 3:
        panels[-1][3].set_xlabel(f"{PANEL_HEADS[3]}, | = Shapley share", fontsize=9, color=INK)
    return figure


def _draw_contributions(ax: Axes, outcome: Outcome, *, numbered: bool) -> None:
    """Bars from zero, and a stroke at every cap that is not far beyond them."""
    _bars(ax, outcome.contributions, [AMOUNT] * outcome.contributions.size)
    caps = outcome.federation.arrays.reachable_caps
    near = np.flatnonzero(caps <= CAP_REACH * outcome.contributions.max())
    ax.vlines(caps[near], near - 0.4, near + 0.4, color=INK, linewidth=1.4)
    ax.set_xlim(left=0.0)
    if numbered:
        _write_amounts(ax, outcome.contributions, number_texts(outcome.contributions))


def _caps_text(outcome: Outcome) -> str:
    """Whether there are strokes for caps, and where those are that have none."""
    caps = outcome.federation.arrays.reachable_caps
    far = caps[caps > CAP_REACH * outcome.contributions.max()]
    words = [", | = cap"] if far.size < caps.size else []
    finite = far[np.isfinite(far)]
    if finite.size:
        lowest, highest = f"{finite.min():,.4g}", f"{finite.max():,.4g}"
        words.append(f", caps beyond: {lowest if lowest == highest else f'{lowest} to {highest}'}")
    return "".join(words) or ", no cap"


def _draw_signed(ax: Axes, amounts: FloatArray, *, numbered: bool) -> None:
    """Bars to the right of zero in blue, to the left in orange."""
    _bars(ax, amounts, [GOOD if amount >= 0 else BAD for amount in amounts])
    ax.axvline(0.0, color=INK, linewidth=0.8)
    if numbered:
        ax.margins(x=0.3)
        _write_amounts(ax, amounts, number_texts(amounts, signed=True))


def _draw_benefits(ax: Axes, outcome: Outcome) -> None:
    """What each member gets as a bar, orange if less than its Shapley share, which is a stroke."""
    benefits, shares = outcome.payoffs + outcome.payments, outcome.shapley_values
    defined = bool(np.isfinite(shares).all())
    short = without_rounding(outcome, benefits - shares) < 0
    _bars(ax, benefits, [BAD if less else GOOD if defined else AMOUNT for less in short])
    ax.axvline(0.0, color=INK, linewidth=0.8)
    rows = np.arange(shares.size)
    if defined:
        ax.vlines(shares, rows - 0.4, rows + 0.4, color=INK, linewidth=1.4)
    else:
        ax.set_title("Shapley shares undefined", loc="right", fontsize=8, color=FAINT)


def _bars(ax: Axes, amounts: FloatArray, colours: Sequence[str]) -> None:
    ax.barh(np.arange(amounts.size), amounts, height=0.62 if amounts.size <= MAX_NAMED else 1.0, color=colours)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    ax.tick_params(axis="x", labelsize=8, colors=INK, length=3)
    ax.locator_params(axis="x", nbins=4)
    ax.grid(axis="x", color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.set_ylim(max(amounts.size, 2) - 0.5, -0.5)


def _write_amounts(ax: Axes, amounts: FloatArray, texts: Sequence[str]) -> None:
    """The number at the end of each bar, on the far side of zero."""
    for row, (amount, text) in enumerate(zip(amounts, texts, strict=True)):
        aside, align = (-3, "right") if amount < 0 else (3, "left")
        place: dict[str, Any] = {"xytext": (aside, 0), "textcoords": "offset points", "ha": align, "va": "center"}
        over = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # strokes of caps
        ax.annotate(text, (amount, row), fontsize=8, color=INK, bbox=over, zorder=3, **place)


def _name_rows(panel: Axes, names: Sequence[str], *, shown: bool) -> None:
    """Names beside a panel, or numbers where there are too many; nothing beside the next ones of a row."""
    if not shown:
        panel.tick_params(axis="y", length=0, labelleft=False)
    elif len(names) <= MAX_NAMED:
        panel.set_yticks(np.arange(len(names)), [short_name(name) for name in names], parse_math=False)
        panel.tick_params(axis="y", labelsize=8, colors=INK, length=0)
    else:
        panel.set_ylabel("member, by number", fontsize=8, color=FAINT)


def _write_cells(ax: Axes, cells: FloatArray, image: Any) -> None:
    """Every weight on its cell, in white where the cell is dark."""
    brightness = image.cmap(image.norm(cells))[..., :3] @ LUMINANCE
    for (row, column), weight in np.ndenumerate(cells):
        colour = "white" if brightness[row, column] < 0.5 else INK
        ax.text(column, row, number_text(float(weight), digits=3), ha="center", va="center", fontsize=8, color=colour)


@cache
def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    return LinearSegmentedColormap.from_list("harm-to-help", HARM_TO_HELP)

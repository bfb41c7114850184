"""What mechanisms trade off: welfare against the lowest fair gain, filled where a deal holds together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.charts import colour_places, spread_labels
from fedpact.report.numbers import Unit, number_text
from fedpact.report.plots.style import AMOUNT, FAINT, INK, LINES, dress_axes, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import Comparison
    from fedpact.scenario import Money

LABEL_HEIGHT = 0.06  # of the panel
LABEL_WIDTH = 0.15  # of the panel, about: labels of marks further apart do not meet
TURN = 0.55  # of the panel: a label stands on the right of its mark or, from here on, on its left
SHARES_SHOWN = (90.0, 100.0)  # per cent that the axis reaches in any case
LABEL_ASIDE = 9  # points
AXIS_MARGIN = 0.12  # of the range, around the marks
MAX_LABEL_LENGTH = 18
MAX_MARKS_NAMED = 6  # marks that have room for a name each; more are numbered
SAME_PLACE = 0.03  # of the panel: marks as close share one label


def label_heights(places: Sequence[float], heights: Sequence[float], *, gap: float, end: float) -> list[float]:
    """Heights of labels beside marks, `places` from 0 to 1 across: moved apart where they would meet.

    Examples
    --------
    >>> label_heights([0.1, 0.9, 0.95], [50.0, 50.0, 50.0], gap=10.0, end=100.0)
    [50.0, 50.0, 60.0]
    """
    found = np.asarray(heights, dtype=np.float64).copy()
    clusters: list[list[int]] = []
    for mark in np.argsort(places, kind="stable").tolist():
        last = clusters[-1][-1] if clusters else mark
        same_side = (places[last] > TURN) == (places[mark] > TURN)
        if clusters and same_side and places[mark] - places[last] < LABEL_WIDTH:
            clusters[-1].append(mark)
        else:
            clusters.append([mark])
    for cluster in clusters:
        found[cluster] = spread_labels(found[cluster].tolist(), gap=gap, end=end)
    return [float(height) for height in found]


def plot_tradeoff(comparison: Comparison, ax: Any = None, *, money: Money | None = None) -> Any:
    """A mark per mechanism: welfare to the right, the lowest fair gain upwards; filled where nobody would leave.

    A group that would leave together counts too. Mechanisms without fair gains are left out. Welfare is in `money`
    where it is given.
    """
    figure = new_figure(6.4 if len(comparison.outcomes) <= MAX_MARKS_NAMED else 8.2, 4.2) if ax is None else ax.figure
    ax = figure.add_subplot() if ax is None else ax
    draw_tradeoff(ax, comparison, Unit.of(money))
    return figure


def draw_tradeoff(ax: Axes, comparison: Comparison, unit: Unit) -> None:
    """The marks with their labels, on axes that are there."""
    shown = [outcome for outcome in comparison.outcomes if not np.isnan(outcome.lowest_gain_share)]
    places = colour_places([outcome.mechanism for outcome in comparison.outcomes if outcome.federated])
    dress_axes(ax)
    ax.set_xlabel(f"welfare, {unit.label}", fontsize=8, color=FAINT, parse_math=False)
    ax.set_ylabel("lowest fair gain, %", fontsize=8, color=FAINT)
    ax.set_title(
        "Filled: holds together; open: somebody would leave, or not known", loc="left", fontsize=8, color=FAINT
    )
    if not shown:
        return
    welfare = unit.per_payoff * np.array([outcome.welfare for outcome in shown])
    shares = 100.0 * np.array([max(outcome.lowest_gain_share, 0.0) for outcome in shown])
    for outcome, x, y in zip(shown, welfare, shares, strict=True):
        colour = LINES[places[outcome.mechanism] % len(LINES)] if outcome.federated else AMOUNT
        fill = colour if comparison.holds_together(outcome.mechanism) else "white"
        ax.plot([x], [y], "o", markersize=8, markeredgewidth=1.8, markeredgecolor=colour, markerfacecolor=fill)
    ax.set_xlim(*_limits(welfare))
    ax.set_ylim(*_limits(np.append(shares, SHARES_SHOWN)))
    ax.locator_params(axis="x", nbins=4)
    if unit.is_money:
        ax.xaxis.set_major_formatter(lambda amount, _: number_text(amount, digits=6))
    titles = [comparison.title(outcome.mechanism) for outcome in shown]
    (_label if len(shown) <= MAX_MARKS_NAMED else _number)(ax, titles, welfare, shares)


def _limits(numbers: np.ndarray) -> tuple[float, float]:
    low, high = float(numbers.min()), float(numbers.max())
    room = AXIS_MARGIN * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _label(ax: Axes, titles: list[str], welfare: np.ndarray, shares: np.ndarray) -> None:
    """Titles beside their marks, on the side with more room, moved up where two would meet."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    across = ((welfare - left) / (right - left)).tolist()
    upwards = label_heights(across, ((shares - low) / (high - low)).tolist(), gap=LABEL_HEIGHT, end=1.0)
    for place, (x, y) in enumerate(zip(across, upwards, strict=True)):
        aside, align = (-LABEL_ASIDE, "right") if x > TURN else (LABEL_ASIDE, "left")
        ax.annotate(
            short_name(titles[place], MAX_LABEL_LENGTH),
            (welfare[place], low + y * (high - low)),
            xytext=(aside, 0),
            textcoords="offset points",
            ha=align,
            va="center",
            fontsize=9,
            color=INK,
            parse_math=False,
        )


def _number(ax: Axes, titles: list[str], welfare: np.ndarray, shares: np.ndarray) -> None:
    """Numbers beside their marks, those of marks in one place together, and a key at the right."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    spots = np.column_stack([(welfare - left) / (right - left), (shares - low) / (high - low)])
    left_over = list(range(len(titles)))
    while left_over:
        first = left_over[0]
        here = [place for place in left_over if np.abs(spots[place] - spots[first]).max() <= SAME_PLACE]
        left_over = [place for place in left_over if place not in here]
        aside, align = (-LABEL_ASIDE, "right") if spots[first, 0] > TURN else (LABEL_ASIDE, "left")
        ax.annotate(
            " ".join(str(place + 1) for place in here),
            (welfare[first], shares[first]),
            xytext=(aside, 0),
            textcoords="offset points",
            ha=align,
            va="center",
            fontsize=8,
            color=INK,
        )
    key = "\n".join(f"{place + 1:>2}  {short_name(title, MAX_LABEL_LENGTH)}" for place, title in enumerate(titles))
    ax.text(1.03, 1.0, key, transform=ax.transAxes, fontsize=8, color=INK, va="top", linespacing=1.5, parse_math=False)

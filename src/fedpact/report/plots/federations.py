"""Pictures of federations, outcomes and comparisons.

Agents stand in their order from top to bottom, by name while names can be read and by number beyond. Every function
returns the figure it drew on, which notebooks show and `figure.savefig` writes to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.charts import CAP_REACH
from fedpact.report.display import who_would_leave
from fedpact.report.numbers import number_text, number_texts, without_rounding
from fedpact.report.plots.style import AMOUNT, BAD, FAINT, GOOD, GRID, INK, new_figure, short_name
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import Comparison
    from fedpact.deals import Outcome
    from fedpact.federation import Federation

HARM_TO_HELP = ("#7a2f00", BAD, "#f3b48a", "#f7f7f7", "#94c4e0", GOOD, "#00395c")

PANEL_HEADS = ("Contribution", "Payment received", "Gain over standing alone", "Benefit")

MAX_NAMED = 60
MAX_NAMED_COMPARED = 20
MAX_NUMBERED = 30
MAX_WRITTEN_WEIGHTS = 12
MAX_NAMED_WEIGHTS = 40
MAX_CELLS = 500
EMPTY_RANGE = (-1.0, 1.0)  # the range of an axis with nothing but zeros on it
LUMINANCE = np.array([0.299, 0.587, 0.114])


def plot_federation(federation: Federation, ax: Any = None) -> Any:
    """The weights as a heat map: the row receives, the column gives; blue helps, orange harms.

    A row is a task and a column a lot where agents have several. Beyond 500 agents every cell is the mean over a block
    of agents.
    """
    n_rows, n_columns = federation.n_tasks, federation.n_lots
    most = max(n_rows, n_columns)
    width, height = (min(8.5, 3.4 + 0.32 * count) for count in (n_columns, n_rows))
    figure = new_figure(width + 1.0, height) if ax is None else ax.figure
    ax = figure.add_subplot() if ax is None else ax
    block = -(-most // MAX_CELLS)
    cells = federation.weights if block == 1 else _block_means(federation.weights, block)
    largest = float(np.abs(cells).max()) or 1.0
    bottom, right = (count * block - 0.5 for count in cells.shape)
    image = ax.imshow(
        cells,
        cmap=_diverging(),
        vmin=-largest,
        vmax=largest,
        extent=(-0.5, right, bottom, -0.5),
        interpolation="nearest",
    )
    ax.set(xlim=(-0.5, n_columns - 0.5), ylim=(n_rows - 0.5, -0.5))
    ax.set_title("How useful the column's data is to the row", loc="left", fontsize=11, color=INK, pad=10)
    ax.set_xlabel("gives", color=FAINT)
    ax.set_ylabel("receives", color=FAINT)
    _name_cells(ax, federation.task_labels, federation.lot_labels)
    if most <= MAX_WRITTEN_WEIGHTS:
        _write_cells(ax, cells, image)
    bar = figure.colorbar(image, ax=ax, shrink=0.8, aspect=30, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.set_label("weight" if block == 1 else f"mean weight in blocks of {block} members", color=FAINT)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return figure


def plot_outcome(outcome: Outcome, *, figure: Any = None) -> Any:
    """Three panels with a bar per agent: contributions (per lot), payments, gains over standing alone.

    The figure's `axes` are the three panels, left to right.
    """
    n_agents, has_lots = len(outcome.agents), outcome.federation.has_lots
    n_rows = max(n_agents, outcome.contributions.size)
    if figure is None:
        per_row = 0.34 if n_rows <= MAX_NUMBERED else 0.17
        figure = new_figure(12.0 if has_lots else 10.0, 1.6 + per_row * n_rows if n_rows <= MAX_NAMED else 7.0)
    panels = figure.subplots(1, 3, sharey=not has_lots)
    room = Room(n_agents=n_agents, named=n_rows <= MAX_NAMED, numbered=n_rows <= MAX_NUMBERED)
    payments, gains = without_rounding(outcome, outcome.payments), without_rounding(outcome, outcome.ir_gaps)
    _draw_contributions(panels[0], outcome, _contributions_limit([outcome]), room)
    _draw_signed(panels[1], payments, _signed_limits([payments]), room)
    _draw_signed(panels[2], gains, _signed_limits([gains]), room)
    for panel, head in zip(panels, PANEL_HEADS, strict=False):
        panel.set_title(head, loc="left", fontsize=10, color=INK)
    _name_panels(panels, outcome, room)
    _caption_caps(panels[0], [outcome])
    figure.suptitle(_headline(outcome), x=0.01, ha="left", fontsize=12, color=INK, parse_math=False)
    return figure


def plot_comparison(comparison: Comparison, *, figure: Any = None) -> Any:
    """A row of panels per mechanism: contributions, payments, gains, benefits against Shapley shares; and the welfare.

    Panels in a column share their scale, so that mechanisms can be compared bar by bar. Contributions have a bar per
    lot where agents have several.

    The figure's `axes` are the panels row by row, then the welfare.
    """
    outcomes, n_agents, n_lots = comparison.outcomes, comparison.federation.n_agents, comparison.federation.n_lots
    n_rows = max(n_agents, n_lots)
    room = Room(n_agents=n_agents, named=n_rows <= MAX_NAMED_COMPARED, numbered=False)
    if figure is None:
        height = max(0.8, 0.175 * n_rows) if room.named else 2.0
        figure = new_figure(
            14.5 if comparison.federation.has_lots else 13.0, 1.0 + (height + 0.5) * max(1, len(outcomes))
        )
    if not outcomes:
        figure.suptitle("No mechanism has an outcome", color=INK)
        return figure
    grid = figure.add_gridspec(len(outcomes), 5, width_ratios=(1.0, 1.0, 1.0, 1.0, 0.75))
    panels = [[figure.add_subplot(grid[row, column]) for column in range(4)] for row in range(len(outcomes))]
    _draw_columns(panels, outcomes, room)
    for row, outcome in zip(panels, outcomes, strict=True):
        title = f"{comparison.title(outcome.mechanism)}: {who_would_leave(outcome)}"
        row[0].set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
        _name_panels(row, outcome, room)
    for panel in (panel for row in panels[:-1] for panel in row):
        panel.tick_params(labelbottom=False)
    for panel, head in zip(panels[0], PANEL_HEADS, strict=True):
        _head(panel, head)
    _caption_caps(panels[-1][0], outcomes)
    panels[-1][3].set_xlabel("payoff + payment;  | = Shapley share", fontsize=8, color=FAINT)
    _draw_welfare(figure.add_subplot(grid[:, 4]), comparison)
    return figure


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much there is room for: names beside the bars, numbers at their ends."""

    n_agents: int
    named: bool
    numbered: bool

    @property
    def half_bar(self) -> float:
        """Half the thickness of a bar, in rows: slim for one or two agents, without gaps for many."""
        return 0.31 * min(1.0, self.n_agents / 3.0) if self.named else 0.5


def _draw_columns(panels: Sequence[Sequence[Any]], outcomes: Sequence[Outcome], room: Room) -> None:
    """Contributions, payments, gains and benefits of every outcome, each on the same scale for all."""
    furthest = _contributions_limit(outcomes)
    payments = [without_rounding(outcome, outcome.payments) for outcome in outcomes]
    gains = [without_rounding(outcome, outcome.ir_gaps) for outcome in outcomes]
    benefits = [outcome.payoffs + outcome.payments for outcome in outcomes]
    payment_limits, gain_limits = _signed_limits(payments), _signed_limits(gains)
    share_limits = _signed_limits([*benefits, *(outcome.shapley_values for outcome in outcomes)])
    for row, outcome in enumerate(outcomes):
        _draw_contributions(panels[row][0], outcome, furthest, room)
        _draw_signed(panels[row][1], payments[row], payment_limits, room)
        _draw_signed(panels[row][2], gains[row], gain_limits, room)
        _draw_shares(panels[row][3], outcome, benefits[row], share_limits, room)


def _draw_contributions(ax: Axes, outcome: Outcome, limit: float, room: Room) -> None:
    """Bars from zero, and a stroke at every cap the axis reaches."""
    room = replace(room, n_agents=outcome.contributions.size)
    _bars(ax, outcome.contributions, [AMOUNT] * room.n_agents, room)
    caps = outcome.federation.arrays.reachable_caps
    seen = np.flatnonzero(caps <= limit)
    _strokes(ax, caps[seen], seen, room)
    ax.set_xlim(0.0, limit * (1.18 if room.numbered else 1.03))
    if room.numbered:
        _write_amounts(ax, outcome.contributions, number_texts(outcome.contributions))


def _contributions_limit(outcomes: Sequence[Outcome]) -> float:
    largest = max(float(outcome.contributions.max()) for outcome in outcomes)
    caps = outcomes[0].federation.arrays.reachable_caps
    near = caps[caps <= CAP_REACH * largest]
    return max(largest, float(near.max(initial=0.0))) or 1.0


def _caption_caps(ax: Axes, outcomes: Sequence[Outcome]) -> None:
    """Say what the strokes are, and where the caps are that have none."""
    caps = outcomes[0].federation.arrays.reachable_caps
    far = caps[caps > _contributions_limit(outcomes)]
    words = ["| = cap"] if far.size < caps.size else []
    finite = far[np.isfinite(far)]
    if finite.size:
        lowest, highest = f"{finite.min():,.4g}", f"{finite.max():,.4g}"
        words.append(f"caps beyond: {lowest if lowest == highest else f'{lowest} to {highest}'}")
    if finite.size < far.size:
        words.append("no cap" if far.size == caps.size else "others without cap")
    ax.set_xlabel(";  ".join(words), fontsize=8, color=FAINT)


def _draw_signed(ax: Axes, amounts: FloatArray, limits: tuple[float, float], room: Room) -> None:
    """Bars to the right of zero in blue, to the left in orange."""
    _bars(ax, amounts, [GOOD if amount >= 0 else BAD for amount in amounts], room)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    low, high = limits
    margin = (0.32 if room.numbered else 0.04) * (high - low)
    ax.set_xlim(low - margin if low < 0 or room.numbered else low, high + margin)
    if limits == EMPTY_RANGE:
        ax.set_xticks([0.0], ["0"])
    if room.numbered:
        _write_amounts(ax, amounts, number_texts(amounts, signed=True))


def _signed_limits(columns: Sequence[FloatArray]) -> tuple[float, float]:
    """The range of several columns, with zero in it."""
    finite = np.concatenate([column[np.isfinite(column)] for column in columns])
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    return (low, high) if high > low else EMPTY_RANGE


def _draw_shares(ax: Axes, outcome: Outcome, benefits: FloatArray, limits: tuple[float, float], room: Room) -> None:
    """What each agent gets as a bar, orange if less than its Shapley share, which is a stroke."""
    shares = outcome.shapley_values
    defined = bool(np.isfinite(shares).all())
    short = without_rounding(outcome, benefits - shares) < 0
    _bars(ax, benefits, [BAD if less else GOOD if defined else AMOUNT for less in short], room)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    low, high = limits
    margin = 0.04 * (high - low)
    ax.set_xlim(low - margin if low < 0 else low - 0.25 * margin, high + margin)
    if defined:
        _strokes(ax, shares, np.arange(shares.size), room)
    else:
        ax.set_title("Shapley shares undefined", loc="right", fontsize=8, color=FAINT)


def _draw_welfare(ax: Axes, comparison: Comparison) -> None:
    welfare = np.array([outcome.welfare for outcome in comparison.outcomes])
    rows = np.arange(welfare.size)
    ax.hlines(rows, 0.0, welfare, color=AMOUNT, linewidth=16.0)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    for outcome, row, text in zip(comparison.outcomes, rows, number_texts(welfare), strict=True):
        label = f"{comparison.title(outcome.mechanism)}  {text}"
        place: dict[str, Any] = {"xytext": (4, 12), "textcoords": "offset points", "parse_math": False}
        ax.annotate(label, (0.0, row), fontsize=9, color=INK, **place)
    low, high = _signed_limits([welfare])
    ax.set(xlim=(low, high + 0.03 * (high - low)), ylim=(welfare.size - 0.5, -0.5), yticks=[])
    _plain_axes(ax)
    _head(ax, "Welfare")


def _bars(ax: Axes, amounts: FloatArray, colours: Sequence[str], room: Room) -> None:
    """Horizontal bars; without names filled steps, which stay smooth where thin bars would flicker."""
    if room.named:
        ax.barh(np.arange(amounts.size), amounts, height=2.0 * room.half_bar, color=colours)
    else:
        for colour in dict.fromkeys(colours):
            _fill_steps(ax, np.where(np.array(colours) == colour, amounts, 0.0), colour)
    _plain_axes(ax)
    ax.set_ylim(amounts.size - 0.5, -0.5)


def _fill_steps(ax: Axes, amounts: FloatArray, colour: str) -> None:
    """Steps from zero to each amount. `ax.stairs` would do the same, but takes a minute for 100 000 agents."""
    from matplotlib.patches import StepPatch  # noqa: PLC0415 - optional dependency

    edges = np.arange(amounts.size + 1) - 0.5
    ax.add_artist(StepPatch(amounts, edges, orientation="horizontal", fill=True, color=colour, linewidth=0.0))


def _strokes(ax: Axes, places: FloatArray, rows: Any, room: Room) -> None:
    """Short upright strokes a little longer than a bar is thick, for caps and shares."""
    half = 1.35 * room.half_bar if room.named else room.half_bar
    width = 1.6 if room.n_agents <= MAX_NUMBERED else 0.9
    ax.vlines(places, rows - half, rows + half, color=INK, linewidth=width)


def _write_amounts(ax: Axes, amounts: FloatArray, texts: Sequence[str]) -> None:
    """The number at the end of each bar, on the far side of zero."""
    for row, (amount, text) in enumerate(zip(amounts, texts, strict=True)):
        aside, align = (-3, "right") if amount < 0 else (3, "left")
        place: dict[str, Any] = {"xytext": (aside, 0), "textcoords": "offset points", "ha": align, "va": "center"}
        ax.annotate(text, (amount, row), fontsize=8, color=INK, **place)


def _plain_axes(ax: Axes) -> None:
    ax.set_facecolor("none")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    ax.tick_params(axis="x", labelsize=8, colors=INK, length=3)
    ax.locator_params(axis="x", nbins=4)
    ax.grid(axis="x", color=GRID, linewidth=0.7)
    ax.set_axisbelow(True)


def _name_panels(panels: Sequence[Any], outcome: Outcome, room: Room) -> None:
    """The names beside the first panel; where agents have several lots those of the lots, and of agents the next."""
    if not outcome.federation.has_lots:
        _name_rows(panels, outcome.agents, room)
        return
    _name_rows(panels[:1], outcome.federation.lot_labels, replace(room, n_agents=outcome.contributions.size))
    _name_rows(panels[1:], outcome.agents, room)


def _name_rows(panels: Sequence[Any], names: Sequence[str], room: Room) -> None:
    """Names, or numbers where there are too many, beside the first of a row of panels."""
    first = panels[0]
    if room.named:
        first.set_yticks(np.arange(len(names)), [short_name(name) for name in names], parse_math=False)
        first.tick_params(axis="y", labelsize=9 if len(names) <= MAX_NUMBERED else 7, colors=INK, length=0)
    else:
        first.set_ylabel("member, by number", fontsize=8, color=FAINT)
        first.tick_params(axis="y", labelsize=8, colors=INK, length=3)
    for panel in panels[1:]:
        panel.tick_params(axis="y", length=0, labelleft=False)


def _name_cells(ax: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names along both sides of the heat map, slanted where they would run into each other."""
    most = max(len(rows), len(columns))
    named = most <= MAX_NAMED_WEIGHTS
    ax.tick_params(length=0 if named else 2, labelsize=9, colors=INK)
    if not named:
        ax.locator_params(nbins=6, integer=True)
        return
    below, beside = ([short_name(name) for name in names] for names in (columns, rows))
    flat = most <= MAX_WRITTEN_WEIGHTS and max(map(len, below)) <= 10
    slant: dict[str, Any] = {} if flat else {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}
    size = 9 if most <= MAX_WRITTEN_WEIGHTS else 7
    ax.set_yticks(np.arange(len(beside)), beside, fontsize=size, parse_math=False)
    ax.set_xticks(np.arange(len(below)), below, fontsize=size, parse_math=False, **slant)


def _write_cells(ax: Axes, cells: FloatArray, image: Any) -> None:
    """Every weight on its cell, in white where the cell is dark."""
    brightness = image.cmap(image.norm(cells))[..., :3] @ LUMINANCE
    for (row, column), weight in np.ndenumerate(cells):
        colour = "white" if brightness[row, column] < 0.5 else INK
        ax.text(column, row, number_text(float(weight), digits=3), ha="center", va="center", fontsize=8, color=colour)


def _block_means(weights: Any, block: int) -> FloatArray:
    """Means over blocks of `block` x `block` entries, the last ones perhaps smaller."""
    rows, columns = (np.arange(0, count, block) for count in weights.shape)
    sums = np.add.reduceat(np.add.reduceat(weights, rows, axis=0), columns, axis=1)
    sizes = (np.diff([*starts, count]) for starts, count in zip((rows, columns), weights.shape, strict=True))
    return np.asarray(sums / np.outer(*sizes))


def _headline(outcome: Outcome) -> str:
    return f"{outcome.mechanism.capitalize()}: welfare {number_texts([outcome.welfare])[0]}, {who_would_leave(outcome)}"


def _head(ax: Axes, text: str) -> None:
    """A column's heading, above the titles of the rows."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 26), "textcoords": "offset points"}
    ax.annotate(text, (0.0, 1.0), fontsize=10, fontweight="bold", color=INK, **place)


@cache
def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    return LinearSegmentedColormap.from_list("harm-to-help", HARM_TO_HELP)

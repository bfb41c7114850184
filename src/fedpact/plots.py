"""Pictures of federations, outcomes and comparisons, drawn with matplotlib.

Blue is good for the agent it belongs to and orange is bad; signs and positions say the same, so that no reader depends
on the colours. Agents stand in their order from top to bottom, by name while names can be read and by number beyond.
Figures are made without pyplot: nothing global changes and no display is needed. Every function returns the figure
it drew on, which notebooks show and `figure.savefig` writes to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from fedpact.arrays import FloatArray
from fedpact.display import leaving, number_texts
from fedpact.errors import MissingExtra

if TYPE_CHECKING:
    from fedpact.comparison import Comparison
    from fedpact.federation import Federation
    from fedpact.outcome import Outcome

__all__ = ["plot_comparison", "plot_federation", "plot_outcome"]

GOOD, BAD = "#0072b2", "#d55e00"  # blue and vermilion of the palette of Okabe and Ito
AMOUNT, INK, FAINT = "#7f95a8", "#2b2b2b", "#8a8a8a"
HARM_TO_HELP = ("#7a2f00", BAD, "#f3b48a", "#f7f7f7", "#94c4e0", GOOD, "#00395c")

MOST_NAMED = 60
MOST_NAMED_COMPARED = 20
MOST_NUMBERED = 30
MOST_WRITTEN_WEIGHTS = 12
MOST_NAMED_WEIGHTS = 40
MOST_CELLS = 500
LONGEST_NAME = 24
# An axis of contributions reaches no further than this many times the largest: far caps would flatten the bars.
FURTHEST_CAP = 2.5
# Amounts below this part of the largest are rounding, and have no sign.
NEGLIGIBLE = 1e-9
RESOLUTION = 110


def plot_federation(federation: Federation, ax: Any = None) -> Any:
    """The weights as a heat map: the row receives, the column gives; blue helps, orange harms.

    Beyond 500 agents every cell is the mean over a block of agents.

    Parameters
    ----------
    federation
        Whose weights to show.
    ax
        The matplotlib axes to draw on; those of a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure of the axes.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    n_agents = federation.n_agents
    size = min(8.5, 3.4 + 0.32 * n_agents)
    figure = _new_figure(size + 1.0, size) if ax is None else ax.figure
    ax = figure.add_subplot() if ax is None else ax
    block = -(-n_agents // MOST_CELLS)
    cells = federation.dense_weights() if block == 1 else _block_means(federation.weights, block)
    largest = float(np.abs(cells).max()) or 1.0
    edge = cells.shape[0] * block - 0.5
    image = ax.imshow(
        cells, cmap=_diverging(), vmin=-largest, vmax=largest, extent=(-0.5, edge, edge, -0.5), interpolation="nearest"
    )
    ax.set(xlim=(-0.5, n_agents - 0.5), ylim=(n_agents - 0.5, -0.5))
    ax.set_title("How useful the column's data is to the row", loc="left", fontsize=11, color=INK, pad=10)
    ax.set_xlabel("gives", color=FAINT)
    ax.set_ylabel("receives", color=FAINT)
    _name_cells(ax, federation.agent_names)
    if n_agents <= MOST_WRITTEN_WEIGHTS:
        _write_cells(ax, cells, largest)
    bar = figure.colorbar(image, ax=ax, shrink=0.8, aspect=30, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.set_label("weight" if block == 1 else f"mean weight in blocks of {block} agents", color=FAINT)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return figure


def plot_outcome(outcome: Outcome, *, figure: Any = None) -> Any:
    """Three panels with a bar per agent: contributions, payments, gains against standing alone.

    Parameters
    ----------
    outcome
        What to show.
    figure
        The empty matplotlib figure or subfigure to draw on, best one with `layout="constrained"`; a new one if not
        given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its `axes` are the three panels, left to right.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    n_agents = len(outcome.agents)
    if figure is None:
        per_agent = 0.34 if n_agents <= MOST_NUMBERED else 0.17
        figure = _new_figure(10.0, 1.6 + per_agent * n_agents if n_agents <= MOST_NAMED else 7.0)
    panels = figure.subplots(1, 3, sharey=True)
    numbered = n_agents <= MOST_NUMBERED
    _draw_contributions(panels[0], outcome, _contributions_limit([outcome]), numbered=numbered)
    _draw_signed(panels[1], outcome.payments, _signed_limits([outcome.payments]), numbered=numbered)
    _draw_signed(panels[2], outcome.ir_gaps, _signed_limits([outcome.ir_gaps]), numbered=numbered)
    heads = ("Contribution", "Payment received", "Gain against standing alone")
    for panel, head in zip(panels, heads, strict=True):
        panel.set_title(head, loc="left", fontsize=10, color=INK)
    _name_rows(panels, outcome.agents, most=MOST_NAMED)
    _caption_caps(panels[0], [outcome])
    figure.suptitle(_headline(outcome), x=0.01, ha="left", fontsize=12, color=INK)
    return figure


def plot_comparison(comparison: Comparison, *, figure: Any = None) -> Any:
    """A row of panels per mechanism: contributions, payments, gains, benefits against Shapley shares; and the welfare.

    Panels in a column share their scale, so that mechanisms can be compared bar by bar.

    Parameters
    ----------
    comparison
        What to show.
    figure
        The empty matplotlib figure or subfigure to draw on, best one with `layout="constrained"`; a new one if not
        given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its `axes` are the panels row by row, then the welfare.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    outcomes, n_agents = comparison.outcomes, comparison.federation.n_agents
    if figure is None:
        height = max(0.75, 0.19 * n_agents) if n_agents <= MOST_NAMED_COMPARED else 2.0
        figure = _new_figure(13.0, 1.0 + (height + 0.55) * max(1, len(outcomes)))
    if not outcomes:
        figure.suptitle("No mechanism has an outcome", color=INK)
        return figure
    grid = figure.add_gridspec(len(outcomes), 5, width_ratios=(1.0, 1.0, 1.0, 1.0, 0.75))
    panels = [[figure.add_subplot(grid[row, column]) for column in range(4)] for row in range(len(outcomes))]
    benefits = [outcome.payoffs + outcome.payments for outcome in outcomes]
    furthest = _contributions_limit(outcomes)
    payments = _signed_limits([outcome.payments for outcome in outcomes])
    gains = _signed_limits([outcome.ir_gaps for outcome in outcomes])
    shares = _signed_limits([*benefits, *(outcome.shapley_values for outcome in outcomes)])
    for row, outcome, benefit in zip(panels, outcomes, benefits, strict=True):
        _draw_contributions(row[0], outcome, furthest)
        _draw_signed(row[1], outcome.payments, payments)
        _draw_signed(row[2], outcome.ir_gaps, gains)
        _draw_shares(row[3], benefit, outcome.shapley_values, shares)
        title = f"{comparison.title(outcome.mechanism)}: {leaving(outcome)}"
        row[0].set_title(title, loc="left", fontsize=10, color=INK)
        _name_rows(row, outcome.agents, most=MOST_NAMED_COMPARED)
        if row is not panels[-1]:
            for panel in row:
                panel.tick_params(labelbottom=False)
    heads = ("Contribution", "Payment received", "Gain against standing alone", "Benefit")
    for panel, head in zip(panels[0], heads, strict=True):
        _head(panel, head)
    _caption_caps(panels[-1][0], outcomes)
    panels[-1][3].set_xlabel("payoff + payment;  | Shapley share", fontsize=8, color=FAINT)
    _draw_welfare(figure.add_subplot(grid[:, 4]), comparison)
    return figure


def _draw_contributions(ax: Any, outcome: Outcome, limit: float, *, numbered: bool = False) -> None:
    """Bars from zero, and a tick at every cap the axis reaches."""
    _bars(ax, outcome.contributions, [AMOUNT] * len(outcome.agents))
    caps = outcome.federation.caps
    seen = np.flatnonzero(caps <= limit)
    _ticks(ax, caps[seen], seen, len(outcome.agents))
    ax.set_xlim(0.0, limit * (1.18 if numbered else 1.03))
    if numbered:
        _write_amounts(ax, outcome.contributions, number_texts(outcome.contributions))


def _contributions_limit(outcomes: Sequence[Outcome]) -> float:
    largest = max(float(outcome.contributions.max()) for outcome in outcomes)
    caps = outcomes[0].federation.caps
    near = caps[caps <= FURTHEST_CAP * largest]
    return max(largest, float(near.max(initial=0.0))) or 1.0


def _caption_caps(ax: Any, outcomes: Sequence[Outcome]) -> None:
    """Say what the ticks are, and where the caps are that have none."""
    caps = outcomes[0].federation.caps
    far = caps[caps > _contributions_limit(outcomes)]
    words = ["| cap"] if far.size < caps.size else []
    finite = far[np.isfinite(far)]
    if finite.size:
        lowest, highest = f"{finite.min():,.4g}", f"{finite.max():,.4g}"
        words.append(f"caps beyond: {lowest if lowest == highest else f'{lowest} to {highest}'}")
    if finite.size < far.size:
        words.append("no cap" if far.size == caps.size else "others no cap")
    ax.set_xlabel(";  ".join(words), fontsize=8, color=FAINT)


def _draw_signed(ax: Any, amounts: FloatArray, limits: tuple[float, float], *, numbered: bool = False) -> None:
    """Bars to the right of zero in blue, to the left in orange."""
    _bars(ax, amounts, [GOOD if amount >= 0 else BAD for amount in amounts])
    ax.axvline(0.0, color=INK, linewidth=0.8)
    low, high = limits
    room = 0.28 * (high - low) if numbered else 0.04 * (high - low)
    ax.set_xlim(low - room if low < 0 or numbered else low, high + room)
    if numbered:
        _write_amounts(ax, amounts, number_texts(amounts, signed=True))


def _signed_limits(columns: Sequence[FloatArray]) -> tuple[float, float]:
    """The range of several columns with zero in it, one unit wide where there is nothing to see."""
    finite = np.concatenate([column[np.isfinite(column)] for column in columns])
    low, high = min(0.0, float(finite.min(initial=0.0))), max(0.0, float(finite.max(initial=0.0)))
    return (low, high) if high - low > np.finfo(float).tiny else (-1.0, 1.0)


def _draw_shares(ax: Any, benefits: FloatArray, shares: FloatArray, limits: tuple[float, float]) -> None:
    """What each agent gets as a bar, blue if it is at least the Shapley share, which is a tick."""
    size = float(np.abs(benefits).max())
    defined = bool(np.isfinite(shares).all())
    short = benefits < shares - 1e-6 * size if defined else np.zeros(benefits.size, dtype=bool)
    _bars(ax, benefits, [BAD if less else GOOD if defined else AMOUNT for less in short])
    ax.axvline(0.0, color=INK, linewidth=0.8)
    low, high = limits
    room = 0.04 * (high - low)
    ax.set_xlim(low - room if low < 0 else 0.0, high + room)
    if defined:
        _ticks(ax, shares, np.arange(shares.size), shares.size)
    else:
        ax.set_title("Shapley shares undefined", loc="right", fontsize=8, color=FAINT)


def _draw_welfare(ax: Any, comparison: Comparison) -> None:
    outcomes = comparison.outcomes
    welfare = np.array([outcome.welfare for outcome in outcomes])
    rows = np.arange(welfare.size)
    ax.barh(rows, welfare, height=0.32, color=AMOUNT)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    for row, amount, text in zip(rows, welfare, number_texts(welfare), strict=True):
        name = comparison.title(outcomes[row].mechanism)
        ax.text(0.0, row - 0.21, f" {name}  {text}", va="bottom", fontsize=9, color=INK)
    low, high = _signed_limits([welfare])
    ax.set(xlim=(low, high * 1.02), ylim=(welfare.size - 0.5, -0.5), yticks=[])
    _plain_axes(ax)
    _head(ax, "Welfare")


def _bars(ax: Any, amounts: FloatArray, colours: Sequence[str]) -> None:
    """Horizontal bars; for many agents filled steps, which stay smooth where bars would flicker."""
    if amounts.size <= MOST_NAMED:
        ax.barh(np.arange(amounts.size), amounts, height=0.62, color=colours)
    else:
        edges = np.arange(amounts.size + 1) - 0.5
        for colour in dict.fromkeys(colours):
            chosen = np.where(np.array(colours) == colour, amounts, 0.0)
            ax.stairs(chosen, edges, orientation="horizontal", fill=True, color=colour)
    _plain_axes(ax)
    ax.set_ylim(amounts.size - 0.5, -0.5)


def _ticks(ax: Any, places: FloatArray, rows: Any, n_agents: int) -> None:
    """Short upright strokes, for caps and shares."""
    half = 0.42 if n_agents <= MOST_NAMED else 0.5
    width = 1.6 if n_agents <= MOST_NUMBERED else 0.9
    ax.vlines(places, rows - half, rows + half, color=INK, linewidth=width)


def _write_amounts(ax: Any, amounts: FloatArray, texts: Sequence[str]) -> None:
    """The number at the end of each bar, on the far side of zero."""
    for row, (amount, text) in enumerate(zip(amounts, texts, strict=True)):
        aside = -3 if text.startswith("−") else 3
        ax.annotate(
            text,
            (amount, row),
            xytext=(aside, 0),
            textcoords="offset points",
            ha="right" if aside < 0 else "left",
            va="center",
            fontsize=8,
            color=INK,
        )


def _plain_axes(ax: Any) -> None:
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)
    ax.tick_params(axis="x", labelsize=8, colors=INK, length=3)
    ax.locator_params(axis="x", nbins=5)
    ax.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    ax.set_axisbelow(True)


def _name_rows(panels: Sequence[Any], names: Sequence[str], *, most: int) -> None:
    """Names, or numbers where there are too many, beside the first of a row of panels."""
    first = panels[0]
    if len(names) <= most:
        first.set_yticks(np.arange(len(names)), [_short(name) for name in names])
        first.tick_params(axis="y", labelsize=9 if len(names) <= MOST_NUMBERED else 7, colors=INK, length=0)
    else:
        first.set_ylabel("agent, by number", fontsize=8, color=FAINT)
        first.tick_params(axis="y", labelsize=8, colors=INK, length=3)
    for panel in panels[1:]:
        panel.tick_params(axis="y", length=0, labelleft=False)


def _name_cells(ax: Any, names: Sequence[str]) -> None:
    ax.tick_params(length=0 if len(names) <= MOST_NAMED_WEIGHTS else 2, labelsize=9, colors=INK)
    if len(names) > MOST_NAMED_WEIGHTS:
        ax.locator_params(nbins=6, integer=True)
        return
    size = 9 if len(names) <= MOST_WRITTEN_WEIGHTS else 7
    short = [_short(name) for name in names]
    flat = len(names) <= MOST_WRITTEN_WEIGHTS and max(map(len, short)) <= 10
    ax.set_yticks(np.arange(len(names)), short, fontsize=size)
    ax.set_xticks(np.arange(len(names)), short, fontsize=size, **_slant(flat=flat))


def _slant(*, flat: bool) -> dict[str, Any]:
    return {"rotation": 0} if flat else {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}


def _write_cells(ax: Any, cells: FloatArray, largest: float) -> None:
    for (row, column), weight in np.ndenumerate(cells):
        colour = "white" if abs(weight) > 0.55 * largest else INK
        text = f"{weight:.3g}".replace("-", "−")
        ax.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


def _block_means(weights: Any, block: int) -> FloatArray:
    """Means over blocks of `block` x `block` agents, the last ones perhaps smaller."""
    n_agents = weights.shape[0]
    starts = np.arange(n_agents) // block
    gather = sp.csr_array((np.ones(n_agents), (starts, np.arange(n_agents))))
    sums = gather @ weights @ gather.T
    counts = np.bincount(starts)
    means: FloatArray = (sums.toarray() if sp.issparse(sums) else sums) / np.outer(counts, counts)
    return means


def _headline(outcome: Outcome) -> str:
    welfare = f"{outcome.welfare:.4g}".replace("-", "−")
    return f"{outcome.mechanism.capitalize()}: welfare {welfare}, {leaving(outcome)}"


def _head(ax: Any, text: str) -> None:
    """A column's heading, above the titles of the rows."""
    ax.annotate(
        text,
        (0.0, 1.0),
        xycoords="axes fraction",
        xytext=(0, 26),
        textcoords="offset points",
        fontsize=10.5,
        fontweight="bold",
        color=INK,
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


@cache
def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    return LinearSegmentedColormap.from_list("harm-to-help", HARM_TO_HELP)


def _new_figure(width: float, height: float) -> Any:
    return _picture_class()(figsize=(width, height), dpi=RESOLUTION, layout="constrained", facecolor="white")


@cache
def _picture_class() -> Any:
    """A figure that notebooks show without pyplot."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return Picture

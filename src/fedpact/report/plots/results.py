"""Pictures of results, each on one pair of axes: a mark per member, a number per cell, or a curve over rounds.

Members stand in their order from top to bottom, by name while names can be read and by number beyond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.comparison.studies import STUDIED
from fedpact.report.numbers import number_text, number_texts, without_rounding
from fedpact.report.plots.style import (
    BAD,
    FAINT,
    GOOD,
    GRID,
    INK,
    MAX_NAMED_LINES,
    UNNAMED,
    axes_of,
    dress_axes,
    legend_below,
    legend_name,
    line_style,
    short_name,
)
from fedpact.report.records import who_would_leave
from fedpact.report.words import PROPERTY_HEADS
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text, join_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.comparison import Comparison, FieldStudy
    from fedpact.deals import Deal, Outcome
    from fedpact.federation import Federation
    from fedpact.fitting import Delivery, Fit
    from fedpact.training.run import Run

HARM_TO_HELP = ("#7a2f00", BAD, "#f3b48a", "#f7f7f7", "#94c4e0", GOOD, "#00395c")
MAX_NAMED, MAX_NAMED_CELLS, MAX_WRITTEN_CELLS = 60, 40, 20
LUMINANCE = np.array([0.299, 0.587, 0.114])
ROOM = 0.6  # of a row, over which its marks are spread
FAR = 4.0  # standard deviations
MAX_DOTS = 3000
MAX_EXCLUDED_NAMED = 6
MAX_LABEL_LENGTH = 32


# A mark per member

Marks = Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]


def plot_outcome(outcome: Outcome, *, ax: Any = None) -> Any:
    """What every member is paid and what it gains over standing alone."""
    welfare = number_texts([outcome.welfare])[0]
    title = f"{outcome.mechanism.capitalize()}: welfare {welfare}, {who_would_leave(outcome)}"
    amounts = {"is paid": outcome.payments, "gains over standing alone": outcome.ir_gaps}
    series = {label: _plain(without_rounding(outcome, amount)) for label, amount in amounts.items()}
    return _draw_marks(ax, outcome.agents, series, title)


def plot_comparison(comparison: Comparison, *, ax: Any = None) -> Any:
    """What every member gains over standing alone, a mark for each mechanism."""
    deals = [outcome for outcome in comparison.outcomes if outcome.federated]
    series = {comparison.title(each.mechanism): _plain(without_rounding(each, each.ir_gaps)) for each in deals}
    title = "Gains over standing alone" if deals else "No mechanism has an outcome"
    return _draw_marks(ax, comparison.federation.names, series, title)


def plot_delivery(delivery: Delivery, *, ax: Any = None) -> Any:
    """The share of the agreed contribution that each member delivered, with 95 % intervals."""
    lower, upper = delivery.intervals()
    flagged = np.isin(delivery.names, delivery.flagged)
    parts = {"delivered": ~flagged, "flagged": flagged}
    numbers = (delivery.shares, lower, upper)
    series = {
        label: tuple(np.where(those & np.isfinite(upper), each, np.nan) for each in numbers)
        for label, those in parts.items()
        if those.any()
    }
    figure = _draw_marks(ax, delivery.names, series, "Share of the agreed contribution, with 95 % intervals")  # type: ignore[arg-type]
    drawn = figure.axes[-1] if ax is None else ax
    drawn.axvline(1.0, color=INK, linewidth=0.9, linestyle="--")
    drawn.set_xlim(left=0.0)
    return figure


def _plain(numbers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return numbers, numbers, numbers


def _draw_marks(ax: Any, names: Sequence[str], series: Marks, title: str) -> Any:
    """A row per member, in it a mark for each series, and its interval as a line."""
    rows = np.arange(len(names))
    ax = axes_of(ax, 6.6, 1.3 + min(0.22 + 0.07 * len(series), 0.5) * min(len(names), MAX_NAMED))
    shifts = np.linspace(-ROOM / 2, ROOM / 2, len(series)) if len(series) > 1 else np.zeros(1)
    for index, (shift, (label, (numbers, low, high))) in enumerate(zip(shifts, series.items(), strict=False)):
        style = line_style(index)
        ax.hlines(rows + shift, low, high, color=style["color"], linewidth=1.5)
        ax.plot(numbers, rows + shift, "X" if label == "flagged" else "o", color=style["color"], label=label)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    dress_axes(ax)
    if len(names) <= MAX_NAMED:
        ax.set_yticks(rows, [short_name(name) for name in names], parse_math=False)
    else:
        ax.set_ylabel("member, by number", fontsize=8, color=FAINT)
    ax.set_ylim(max(len(names), 2) - 0.5, -0.5)
    ax.set_title(title, loc="left", fontsize=9, color=INK, parse_math=False)
    legend_below(ax.figure, *ax.get_legend_handles_labels())
    return ax.figure


# A number per cell


def plot_federation(federation: Federation, *, ax: Any = None) -> Any:
    """The weights as a heat map: the row receives, the column gives; blue helps, orange harms.

    A row is a task and a column a lot where members have several.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional dependency

    ax = _axes_of_cells(ax, federation.weights.shape)
    largest = float(np.abs(federation.weights).max()) or 1.0
    colours = LinearSegmentedColormap.from_list("harm-to-help", HARM_TO_HELP)
    labels = (federation.task_labels, federation.lot_labels)
    _draw_cells(ax, federation.weights, labels, colours, (-largest, largest), digits=3)
    ax.set_title("How useful the column's data is to the row", loc="left", fontsize=10, color=INK)
    return ax.figure


def plot_study(study: FieldStudy, *, ax: Any = None) -> Any:
    """In how many per cent of the federations of all kinds each property holds, a row for each mechanism."""
    shares, judged = (np.zeros((len(study.mechanisms), len(STUDIED))) for _ in range(2))
    for row, name in enumerate(study.mechanisms):
        for column, claim in enumerate(STUDIED):
            found = np.concatenate([study.numbers[kind][name][claim] for kind in study.kinds])
            judged[row, column] = (found >= 0).sum()
            shares[row, column] = 100.0 * found[found >= 0].mean() if judged[row, column] else np.nan
    ax, count = _axes_of_cells(ax, shares.shape), study.count * len(study.kinds)
    heads = [
        f"{PROPERTY_HEADS[claim]} (of {most:.0f} only)" if most < count / 2 else PROPERTY_HEADS[claim]
        for claim, most in zip(STUDIED, judged.max(axis=0), strict=True)
    ]
    _draw_cells(ax, shares, ([study.title(name) for name in study.mechanisms], heads), "Blues", (0.0, 100.0), digits=3)
    title = f"Per cent of {count:,} random federations of {count_text(study.n_agents, 'member')}"
    ax.set_title(title, loc="left", fontsize=10, color=INK)
    return ax.figure


def _axes_of_cells(ax: Any, shape: tuple[int, ...]) -> Any:
    height, width = (min(9.0, 2.6 + 0.36 * count) for count in shape)
    return axes_of(ax, width + 1.5, height)


def _draw_cells(
    ax: Axes,
    numbers: FloatArray,
    labels: tuple[Sequence[str], Sequence[str]],
    colours: Any,
    limits: tuple[float, float],
    *,
    digits: int,
) -> None:
    """Every number as a colour, written on it in white where the cell is dark; rows and columns by name if they fit."""
    low, high = limits
    image: Any = ax.imshow(numbers, cmap=colours, vmin=low, vmax=high, interpolation="nearest", aspect="auto")
    ax.tick_params(length=2, labelsize=8, colors=INK)
    ax.spines[:].set_visible(False)
    if max(numbers.shape) <= MAX_NAMED_CELLS:
        rows, columns = ([short_name(name, MAX_LABEL_LENGTH) for name in names] for names in labels)
        ax.set_yticks(np.arange(len(rows)), rows, parse_math=False)
        slanted: dict[str, Any] = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(np.arange(len(columns)), columns, parse_math=False, **slanted)
    if max(numbers.shape) > MAX_WRITTEN_CELLS:
        ax.figure.colorbar(image, ax=ax, shrink=0.8)
        return
    brightness = image.cmap(image.norm(numbers))[..., :3] @ LUMINANCE
    for (row, column), number in np.ndenumerate(numbers):
        text = "-" if np.isnan(number) else number_text(float(number), digits=digits)
        colour = "white" if brightness[row, column] < 0.5 and np.isfinite(number) else INK
        ax.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


# Over rounds and runs


def plot_run(run: Run, *, ax: Any = None) -> Any:
    """The accuracy of every member round by round: in the deal as a line, alone dashed; the means in bold."""
    ax = axes_of(ax, 6.6, 4.0)
    rounds = np.arange(1, run.rounds + 1)
    named = len(run.agents) <= MAX_NAMED_LINES
    marker = "o" if run.rounds == 1 else None
    for accuracies, dash in ((run.together.accuracies, "-"), (run.alone.accuracies, "--")):
        for agent, name in enumerate(run.agents):
            colour = line_style(agent)["color"] if named else UNNAMED
            label = legend_name(name) if named and dash == "-" else None
            ax.plot(rounds, accuracies[:, agent], dash, color=colour, linewidth=0.9, marker=marker, label=label)
        label = "mean in the deal" if dash == "-" else "mean alone"
        ax.plot(rounds, accuracies.mean(axis=1), dash, color=INK, linewidth=2.4, marker=marker, label=label)
    ax.set_ylim(-0.02, 1.02)
    ax.xaxis.get_major_locator().set_params(integer=True)
    _name_axes(ax, "round", "accuracy on own test set", f"Training under {legend_name(run.plan.deal.mechanism)}")
    legend_below(ax.figure, *ax.get_legend_handles_labels())
    return ax.figure


def plot_negotiation(deal: Deal, *, ax: Any = None) -> Any:
    """The residual of every round, and after which rounds the negotiation went on without somebody.

    A round whose proposal led out of the domain is a gap.
    """
    ax = axes_of(ax, 6.6, 3.4)
    residuals, gone = list[float](), dict[int, list[str]]()
    for event in deal.trace:
        if event["event"] == "round":
            residuals.append(np.nan if event["residual"] is None else max(float(event["residual"]), 1e-16))
        elif event["event"] == "excluded":
            gone.setdefault(len(residuals), []).append(legend_name(str(event["agent"])))
    ax.plot(np.arange(1, len(residuals) + 1), residuals, "o-", color=GOOD, markersize=4)
    ax.set_yscale("log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    for after, names in gone.items():
        without = f"without {join_names(names, most=MAX_EXCLUDED_NAMED)}"
        ax.axvline(after + 0.5, color=BAD, linewidth=1.0, linestyle=":", label=without)
    protocol = str(deal.provenance.protocol).replace("-", " ")
    title = f"Negotiation by {protocol}: {len(deal.members)} members, {count_text(deal.rounds, 'round')}"
    _name_axes(ax, "round", "gain still promised,\nshare of what is at stake", title)
    legend_below(ax.figure, *ax.get_legend_handles_labels())
    return ax.figure


def plot_fit(fit: Fit, *, ax: Any = None) -> Any:
    """Each accuracy against what the fit expects; those far off are marked."""
    ax = axes_of(ax, 5.2, 4.4)
    seen = fit.observations
    measured = seen.accuracies[seen.measured]
    fitted = measured - fit.residuals[seen.measured]
    far = np.abs(fit.scaled_residuals[seen.measured]) > FAR
    step = -(-measured.size // MAX_DOTS)
    ends = (min(measured.min(), fitted.min()), max(measured.max(), fitted.max()))
    ax.plot(ends, ends, color=FAINT, linewidth=0.9)
    ax.plot(fitted[~far][::step], measured[~far][::step], "o", color=GOOD, markersize=3, alpha=0.6, markeredgewidth=0)
    if far.any():
        ax.plot(fitted[far], measured[far], "x", color=BAD, markersize=5, label="more than 4 standard deviations off")
        ax.legend(frameon=False, fontsize=8, loc="upper left")
    _name_axes(ax, "fitted accuracy", "measured accuracy", f"rms {fit.quality.rms:.3f}")
    return ax.figure


def _name_axes(ax: Axes, below: str, left: str, title: str) -> None:
    dress_axes(ax)
    ax.grid(color=GRID, linewidth=0.6)
    ax.set_xlabel(below, fontsize=9, color=INK)
    ax.set_ylabel(left, fontsize=9, color=INK)
    ax.set_title(title, loc="left", fontsize=9, color=INK)

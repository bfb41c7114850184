"""Pictures of negotiations, and of what lying in one would gain.

How far from agreement, and the welfare on the table, round by round. Rounds are counted through where the negotiation
begins anew without somebody, which is marked.

What an agent gains by misreporting, against the factor it lies by: a row of panels for each lie, a column for each
mechanism, a line for each agent; the ground is blue where lying pays. Losses are often many times the gains: an axis
that shows gains ends at a multiple of the largest, and lines leave it below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.negotiation.misreport_result import GAME, LIES, study_title
from fedpact.report.numbers import number_texts
from fedpact.report.plots.style import (
    BAD,
    FAINT,
    GOOD,
    INK,
    MAX_NAMED_LINES,
    UNNAMED,
    dress_axes,
    legend_below,
    legend_name,
    line_style,
    new_figure,
    short_name,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.deals import Deal
    from fedpact.negotiation.misreport_result import BestLie, MisreportStudy

RESIDUALS = {
    "price-discovery": "gain still promised,\nshare of what is at stake",
    "sums": "gain still promised,\nshare of what is at stake",
}
PROTOCOLS = {"price-discovery": "price discovery", "sums": "sums"}
MIN_RESIDUAL = 1e-16  # a smaller one is drawn here
MAX_MARKED_ROUNDS = 40  # rounds with a mark each
MAX_EXCLUDED_NAMED = 6  # who had to go
LINE_HEIGHT, MAX_TEXT_ROWS = 10, 4  # points, and rows of words below each other
WELFARE_MARGIN = 0.05  # of the range of welfare: room above and below


MISREPORT_PANEL = (3.2, 2.5)  # inches
LOSS_DEPTH = 1.5  # of the largest gain: how far below zero an axis that shows gains reaches
SMALL_GAIN = 0.1  # of the largest gain in a row: what an axis shows at least
GAIN_MARGIN = 0.08  # of an axis, beyond what it shows
MAX_HEAD_LENGTH = 16
GROUND_SHADE = 0.08  # how dark the blue ground is
FACTOR_TICKS = (0.001, 0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Course:
    """Residual and welfare by round, NaN where there is none, and after how many rounds who had to go."""

    residuals: FloatArray
    welfare: FloatArray
    gone: Sequence[tuple[int, str]]

    @property
    def rounds(self) -> np.ndarray:
        return np.arange(1, self.welfare.size + 1)


def plot_negotiation(deal: Deal, *, figure: Any = None) -> Any:
    """Two panels over the rounds: the residual on a logarithmic scale, and the welfare of what is on the table.

    The figure's `axes` are the residual and the welfare.
    """
    figure = figure or new_figure(7.0, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    course = _course(deal)
    _draw_residuals(upper, course)
    _draw_welfare(lower, course, deal.provenance.welfare)
    for panel, label in (
        (upper, RESIDUALS.get(str(deal.provenance.protocol), "residual")),
        (lower, "welfare\n(payoff)"),
    ):
        panel.set_ylabel(label, fontsize=9, color=INK)
        dress_axes(panel)
        _mark_gone(panel, course, named=panel is upper)
    lower.set_xlabel("round", fontsize=9, color=INK)
    lower.xaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels([upper, lower])
    figure.suptitle(_headline(deal), x=0.01, ha="left", fontsize=11, color=INK, parse_math=False)
    return figure


def _course(deal: Deal) -> _Course:
    residuals: list[float] = []
    welfare: list[float] = []
    gone: list[tuple[int, str]] = []
    for event in deal.trace:
        if event["event"] == "round":
            residuals.append(_number(event["residual"]))
            welfare.append(_number(event["welfare"]))
        elif event["event"] == "excluded":
            gone.append((len(welfare), str(event["agent"])))
    return _Course(residuals=np.array(residuals), welfare=np.array(welfare), gone=gone)


def _number(given: float | None) -> float:
    return np.nan if given is None or not np.isfinite(given) else float(given)


def _draw_residuals(ax: Axes, course: _Course) -> None:
    """What is below rounding is drawn hollow, where rounding is; rounds that went too far have none."""
    known = np.maximum(course.residuals, MIN_RESIDUAL)
    _curve(ax, course.rounds, known, GOOD)
    below = course.residuals <= MIN_RESIDUAL
    if below.any():
        ax.plot(course.rounds[below], known[below], "o", color=GOOD, markerfacecolor="white", label="below rounding")
    back = np.isnan(course.residuals)
    if back.any():
        highest = np.nanmax(known) if not back.all() else 1.0
        ax.plot(course.rounds[back], np.full(int(back.sum()), highest), "x", color=BAD, label="went too far: step back")
    if below.any() or back.any():
        ax.legend(frameon=False, fontsize=8, loc="best")
    ax.set_yscale("log")


def _draw_welfare(ax: Axes, course: _Course, agreed: float) -> None:
    ax.axhline(agreed, color=FAINT, linewidth=0.9, linestyle="--")
    ax.annotate(
        f"agreed: {number_texts([agreed])[0]}",
        (1.0, agreed),
        xycoords=("axes fraction", "data"),
        xytext=(0, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
        color=FAINT,
    )
    _curve(ax, course.rounds, course.welfare, GOOD)
    ax.margins(y=WELFARE_MARGIN)


def _curve(ax: Axes, rounds: np.ndarray, numbers: FloatArray, colour: str) -> None:
    marker = "o" if rounds.size <= MAX_MARKED_ROUNDS else None
    ax.plot(rounds, numbers, color=colour, linewidth=1.4, marker=marker, markersize=4)


def _mark_gone(ax: Axes, course: _Course, *, named: bool) -> None:
    """An upright line where the negotiation went on without somebody."""
    for row, after in enumerate(sorted({after for after, _ in course.gone})):
        ax.axvline(after + 0.5, color=BAD, linewidth=1.0, linestyle=":")
        names = [short_name(name) for place, name in course.gone if place == after]
        if named:
            left_out = f" and {len(names) - MAX_EXCLUDED_NAMED} more" if len(names) > MAX_EXCLUDED_NAMED else ""
            ax.annotate(
                f"without {', '.join(names[:MAX_EXCLUDED_NAMED])}{left_out}",
                (after + 0.5, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -2 - LINE_HEIGHT * (row % MAX_TEXT_ROWS)),
                textcoords="offset points",
                va="top",
                fontsize=8,
                color=BAD,
                parse_math=False,
            )


def _headline(deal: Deal) -> str:
    rounds = count_text(deal.rounds, "round")
    protocol = deal.provenance.protocol or ""
    return f"Negotiation by {PROTOCOLS.get(protocol, protocol)}: {len(deal.members)} members, {rounds}"


def plot_misreports(study: MisreportStudy, *, figure: Any = None) -> Any:
    """Gains against factors; a ring is what a lying agent gained in a negotiation.

    Beyond eight agents those who gain most are named, and the others are grey.

    The figure's `axes` are the panels row by row.
    """
    mechanisms = study.mechanisms
    figure = figure or new_figure(0.9 + MISREPORT_PANEL[0] * len(mechanisms), 0.9 + MISREPORT_PANEL[1] * len(LIES))
    panels = figure.subplots(len(LIES), len(mechanisms), squeeze=False, sharex=True)
    named = _named_agents(study)
    for row, what in enumerate(LIES):
        best = study.best(what)
        highest = max(lie.gain for lie in best.values())
        for panel, mechanism in zip(panels[row], mechanisms, strict=True):
            _draw_gains(panel, study, mechanism, row, named)
            low, high = _limits(study, mechanism, row, highest)
            panel.axhspan(0.0, high, facecolor=GOOD, alpha=GROUND_SHADE, linewidth=0.0, zorder=0)
            panel.set_ylim(low, high)
            head = _misreport_head(mechanism if row == 0 else None, best[mechanism])
            panel.set_title(head, loc="left", fontsize=9, color=INK)
        panels[row, 0].set_ylabel(f"gain by lying about {what}\n(payoff)", fontsize=9, color=INK)
    for panel in panels[-1]:
        panel.set_xlabel("reported / true", fontsize=9, color=INK)
    figure.align_ylabels(panels[:, 0])
    _number_factors(panels[0, 0], study.factors)
    _name_lines(figure, panels, study, named)
    return figure


def _misreport_head(mechanism: str | None, best: BestLie) -> str:
    """The mechanism above the first row, and the largest gain above every panel."""
    who = legend_name(best.agent, MAX_HEAD_LENGTH)
    found = f"largest {best.gain:.3g}: {who}, × {best.factor:.3g}" if best.pays else "nobody gains"
    if mechanism is None:
        return found
    title = f"{study_title(mechanism)}, others in equilibrium" if mechanism == GAME else study_title(mechanism)
    return f"{title}\n{found}"


def _named_agents(study: MisreportStudy) -> list[int]:
    """The agents whose lines have a name: all, or those who gain most, in the order of the federation."""
    if len(study.agents) <= MAX_NAMED_LINES:
        return list(range(len(study.agents)))
    peaks = np.max([_finite(gains).max(axis=(1, 2), initial=0.0) for gains in study.gains.values()], axis=0)
    return sorted(int(agent) for agent in np.argsort(-peaks, kind="stable")[:MAX_NAMED_LINES])


def _finite(gains: FloatArray) -> FloatArray:
    return np.where(np.isfinite(gains), gains, 0.0)


def _draw_gains(panel: Axes, study: MisreportStudy, mechanism: str, lie: int, named: Sequence[int]) -> None:
    gains = study.gains[mechanism][:, lie]
    order = np.argsort(study.factors, kind="stable")
    factors = study.factors[order]
    marker = "o" if factors.size == 1 else None
    panel.axhline(0.0, color=INK, linewidth=0.9, zorder=1.5)
    panel.axvline(1.0, color=FAINT, linewidth=0.7, linestyle=":", zorder=1.5)
    shown = np.where(np.isfinite(gains), gains, np.nan)[:, order]
    for agent in range(len(study.agents)):
        if agent not in named:
            panel.plot(factors, shown[agent], color=UNNAMED, linewidth=0.6, marker=marker, zorder=1.8)
    for place, agent in enumerate(named):
        style: dict[str, Any] = {"linewidth": 1.6, "marker": marker, **line_style(place)}
        panel.plot(factors, shown[agent], label=legend_name(study.agents[agent]), **style)
    if mechanism == "externality":
        _ring(panel, study, LIES[lie])
    dress_axes(panel)
    panel.locator_params(axis="y", nbins=5)


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
        top = max(high, SMALL_GAIN * highest)
        return max(low, -LOSS_DEPTH * top) - GAIN_MARGIN * top, (1.0 + 2.0 * GAIN_MARGIN) * top
    return (1.0 + GAIN_MARGIN) * low, -2.0 * GAIN_MARGIN * low


def _ring(panel: Axes, study: MisreportStudy, what: str) -> None:
    held = [each for each in study.negotiated if each.what == what]
    if held:
        factors, gains = [each.factor for each in held], [each.gain for each in held]
        panel.plot(
            factors, gains, linestyle="none", marker="o", markersize=7, markerfacecolor="none", markeredgecolor=INK,
            label="in a negotiation", clip_on=False, zorder=3,
        )  # fmt: skip


def _number_factors(panel: Axes, factors: FloatArray) -> None:
    """A logarithmic axis with the factors people think in."""
    from matplotlib.ticker import NullLocator  # noqa: PLC0415 - optional dependency

    low, high = float(min(factors.min(), 1.0)), float(max(factors.max(), 1.0))
    panel.set_xscale("log")
    room = (high / low) ** 0.03 if high > low else 1.5
    panel.set_xlim(low / room, high * room)
    ticks = [tick for tick in FACTOR_TICKS if low <= tick * 1.001 and tick <= high * 1.001]
    ticks = ticks if len(ticks) > 2 else sorted({low, 1.0, high})
    panel.set_xticks(ticks, [_factor(tick) for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())


def _factor(tick: float) -> str:
    return f"1/{1 / tick:g}" if tick in FACTOR_TICKS and tick < 1 else f"{tick:.3g}"


def _name_lines(figure: Any, panels: np.ndarray, study: MisreportStudy, named: Sequence[int]) -> None:
    """One legend for all panels, below them."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - optional dependency
    from matplotlib.patches import Patch  # noqa: PLC0415 - optional dependency

    found = [panel.get_legend_handles_labels() for panel in panels[:, 0]]
    fullest = max(found, key=lambda entry: len(entry[0]))  # the rings may be in one row only
    handles, labels = list(fullest[0]), list(fullest[1])
    rest = len(study.agents) - len(named)
    if rest:
        handles, labels = [*handles, Line2D([], [], color=UNNAMED)], [*labels, f"{rest} more"]
    handles, labels = [*handles, Patch(facecolor=GOOD, alpha=GROUND_SHADE)], [*labels, "lying pays"]
    legend_below(figure, handles, labels)

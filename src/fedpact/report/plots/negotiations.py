"""Pictures of negotiations.

How far from agreement, and the welfare on the table, round by round. Rounds are counted through where the negotiation
begins anew without somebody, which is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.numbers import number_texts
from fedpact.report.plots.style import (
    BAD,
    FAINT,
    GOOD,
    INK,
    dress_axes,
    new_figure,
    short_name,
)
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedpact.deals import Deal

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

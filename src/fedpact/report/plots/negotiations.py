"""A picture of a negotiation: how far from agreement, and the welfare on the table, round by round.

Rounds are counted through where the negotiation begins anew without somebody, which is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpact.report.numbers import number_texts
from fedpact.report.plots.pictures import BAD, FAINT, GOOD, INK, new_figure
from fedpact.utils.arrays import FloatArray

if TYPE_CHECKING:
    from fedpact.deals import Deal

__all__ = ["plot_negotiation"]

RESIDUALS = {
    "price-discovery": "gain still promised,\nshare of what is at stake",
    "admm": "requests apart from\ntable, share of its size",
}
TITLES = {"price-discovery": "price discovery", "admm": "consensus ADMM"}
ROUNDING = 1e-16  # a smaller residual is drawn here
MOST_MARKED = 40  # rounds with a mark each
MOST_NAMED = 6  # who had to go
LONGEST_NAME = 24
LINE, MOST_ROWS = 10, 4  # points, and rows of words below each other
NEAR = 0.05  # of the range of welfare: room above and below


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

    Parameters
    ----------
    deal
        What the negotiation ended in.
    figure
        The empty matplotlib figure or subfigure to draw on, best one with `layout="constrained"`; a new one if not
        given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure drawn on; its `axes` are the residual and the welfare.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    figure = figure or new_figure(7.0, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    course = _course(deal)
    _draw_residuals(upper, course)
    _draw_welfare(lower, course, deal.provenance.welfare)
    for panel, label in ((upper, RESIDUALS.get(deal.provenance.protocol, "residual")), (lower, "welfare\n(payoff)")):
        panel.set_ylabel(label, fontsize=9, color=INK)
        _dress(panel)
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


def _draw_residuals(ax: Any, course: _Course) -> None:
    """What is below rounding is drawn hollow, where rounding is; rounds that went too far have none."""
    known = np.maximum(course.residuals, ROUNDING)
    _curve(ax, course.rounds, known, GOOD)
    below = course.residuals <= ROUNDING
    if below.any():
        ax.plot(course.rounds[below], known[below], "o", color=GOOD, markerfacecolor="white", label="below rounding")
    back = np.isnan(course.residuals)
    if back.any():
        highest = np.nanmax(known) if not back.all() else 1.0
        ax.plot(course.rounds[back], np.full(int(back.sum()), highest), "x", color=BAD, label="went too far: step back")
    if below.any() or back.any():
        ax.legend(frameon=False, fontsize=8, loc="best")
    ax.set_yscale("log")


def _draw_welfare(ax: Any, course: _Course, agreed: float) -> None:
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
    ax.margins(y=NEAR)


def _curve(ax: Any, rounds: np.ndarray, numbers: FloatArray, colour: str) -> None:
    ax.plot(
        rounds, numbers, color=colour, linewidth=1.4, marker="o" if rounds.size <= MOST_MARKED else None, markersize=4
    )


def _mark_gone(ax: Any, course: _Course, *, named: bool) -> None:
    """An upright line where the negotiation went on without somebody."""
    for row, after in enumerate(sorted({after for after, _ in course.gone})):
        ax.axvline(after + 0.5, color=BAD, linewidth=1.0, linestyle=":")
        names = [_short(name) for place, name in course.gone if place == after]
        if named:
            left_out = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            ax.annotate(
                f"without {', '.join(names[:MOST_NAMED])}{left_out}",
                (after + 0.5, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -2 - LINE * (row % MOST_ROWS)),
                textcoords="offset points",
                va="top",
                fontsize=8,
                color=BAD,
                parse_math=False,
            )


def _dress(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8, colors=INK)


def _headline(deal: Deal) -> str:
    rounds = f"{deal.rounds} round{'' if deal.rounds == 1 else 's'}"
    protocol = deal.provenance.protocol or ""
    return f"Negotiation by {TITLES.get(protocol, protocol)}: {len(deal.members)} agents, {rounds}"


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME // 2]}…{line[1 - LONGEST_NAME // 2 :]}"

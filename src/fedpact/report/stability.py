"""Whether a deal holds together: who would leave in a group, who gains by posing as two or by lies, and what is lost.

First the words, which the terminal, the report and the explorer share; then the report's section.

The picture has a mark for every mechanism: welfare to the right, the lowest fair gain upwards. It is filled
where the deal holds together, and open where somebody would leave or that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from fedpact.certificates import Verdict
from fedpact.comparison import Comparison
from fedpact.deals import Outcome
from fedpact.report.charts import TURN, label_heights, tick_marks
from fedpact.report.markup import mention_group, mention_list, render
from fedpact.report.numbers import Unit, lowest_gain_share_text
from fedpact.report.view import View
from fedpact.utils.words import join_names

NOBODY = "nobody"
NOT_WORKED_OUT = "not worked out"
NO_GAIN = "–"
GROUP_WORDS: dict[Verdict, str] = {
    Verdict.HOLDS: NOBODY,
    Verdict.NOT_REFUTED: "none found",
    Verdict.UNDEFINED: NOT_WORKED_OUT,
}
HEIGHT = 288.0  # pixels of the picture
TOP, BOTTOM = 26.0, 238.0  # where the shares end, in pixels
LEFT, RIGHT = 9.0, 97.0  # where the welfare ends, in per cent of the width
LABEL_HEIGHT = 17.0  # pixels
MARK_MARGIN = 0.08  # of the range, around the marks
MIN_RANGE = 0.02  # of the largest number: marks closer than that are alike
SHARES_SHOWN = (0.9, 1.0)  # that the axis reaches in any case
MAX_CELL_NAMES = 4
HOLDING = {True: "holds together", False: "somebody would leave", None: "not known whether a group would leave"}


@dataclass(frozen=True, kw_only=True)
class Temptation:
    """Who gains by not keeping to a deal as it is: names, or a word where there are none; and what they gain.

    Attributes
    ----------
    members
        Empty where nobody gains, or nobody was found.
    word
        What to say instead of names.
    gain
        What they gain together, a number in the unit of the table; empty where they do not.
    limit
        What others gain at most, or how many were looked at, in words; empty where everything is known.
    """

    members: Sequence[str] = ()
    word: str = ""
    gain: str = ""
    limit: str = ""


def leaving_group(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The group that gains most by leaving the others behind."""
    verdict, found = comparison.group_verdict(mechanism), comparison.blocking_groups.get(mechanism)
    if found is None:
        return Temptation(word=NO_GAIN if comparison.federation.n_agents == 1 else NOT_WORKED_OUT)
    limit = (
        "" if found.exact or verdict is Verdict.HOLDS else f"no group gains more than {unit.text(found.upper_bound)}"
    )
    if verdict is Verdict.VIOLATED:
        return Temptation(members=found.group, gain=unit.column([found.gain], signed=True)[0], limit=limit)
    return Temptation(word=GROUP_WORDS[verdict], limit=limit)


def posing_as_two(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The member that gains most by entering under two names that share what it has, of those looked at."""
    gains, size = comparison.splitting_gains.get(mechanism), comparison.federation.n_agents
    if gains is None:
        return Temptation(word=NOT_WORKED_OUT)
    found = _one_member(comparison.largest_splitting_gain(mechanism), unit)
    if len(gains) == size:
        return found
    word = GROUP_WORDS[Verdict.NOT_REFUTED] if found.word == NOBODY else found.word
    return replace(found, word=word, limit=f"{len(gains)} of {size} members looked at")


def misreporting(comparison: Comparison, mechanism: str, unit: Unit) -> Temptation:
    """The member that gains most by reporting other costs or values than its own, of the lies tried."""
    if comparison.misreporting_gains.get(mechanism) is None:
        return Temptation(word=NOT_WORKED_OUT)
    return _one_member(comparison.largest_misreporting_gain(mechanism), unit)


def _one_member(largest: tuple[str, float] | None, unit: Unit) -> Temptation:
    if largest is None:
        return Temptation(word=NOBODY)
    member, gain = largest
    return Temptation(members=(member,), gain=unit.column([gain], signed=True)[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Mark:
    """A mechanism in the picture: `x` in per cent, `y` and the label's `label_y` in pixels."""

    outcome: Outcome
    x: float
    y: float
    label_y: float
    holds: bool | None
    sentence: str

    @property
    def label_left(self) -> bool:
        """Whether its label stands on its left."""
        return (self.x - LEFT) / (RIGHT - LEFT) > TURN


def stability(view: View) -> dict[str, Any]:
    """A row per mechanism with who would leave, the picture of the trade-off, and who gains by posing as two."""
    rows, posing = [], []
    for outcome in view.deals:
        group = leaving_group(view.comparison, outcome.mechanism, view.unit)
        leavers = mention_list(outcome.leavers, MAX_CELL_NAMES) if outcome.leavers else NOBODY
        cells = (leavers, *_cells(group, outcome.agents))
        rows.append({"outcome": outcome, "cells": cells, "limit": group.limit})
        splitting = posing_as_two(view.comparison, outcome.mechanism, view.unit)
        posing.append({"outcome": outcome, "cells": _cells(splitting, outcome.agents), "limit": splitting.limit})
    partly = [
        view.title_of(outcome) for outcome in view.deals if view.comparison.holds_together(outcome.mechanism) is None
    ]
    return {
        "rows": rows,
        "posing": posing,
        "picture": tradeoff_picture(view),
        "missing": _missing(view),
        "partly": join_names(partly),
    }


def _cells(found: Temptation, everybody: Sequence[str]) -> tuple[str, str]:
    if not found.members:
        return found.word, NO_GAIN
    return mention_group(found.members, everybody, MAX_CELL_NAMES), found.gain


def tradeoff_picture(view: View) -> Markup:
    """Welfare against the lowest fair gain, a mark per mechanism; empty where no mechanism has shares."""
    shown = [outcome for outcome in view.comparison if not np.isnan(outcome.lowest_gain_share)]
    if not shown:
        return Markup()
    shares = np.array([max(outcome.lowest_gain_share, 0.0) for outcome in shown])
    welfare = np.array([outcome.welfare for outcome in shown])
    low, high = _span(np.append(shares, SHARES_SHOWN))
    left, right = _span(welfare)
    heights = TOP + (high - shares) / (high - low) * (BOTTOM - TOP)
    places = LEFT + (welfare - left) / (right - left) * (RIGHT - LEFT)
    scale = view.unit.per_payoff
    return render(
        "tradeoff.html",
        view=view,
        marks=_marks(view, shown, places.tolist(), heights.tolist()),
        x_ticks=[(LEFT + at / 100 * (RIGHT - LEFT), text) for at, text in tick_marks(left * scale, right * scale)],
        y_ticks=[(BOTTOM - at / 100 * (BOTTOM - TOP), text) for at, text in tick_marks(100.0 * low, 100.0 * high)],
        size={"height": HEIGHT, "top": TOP, "bottom": BOTTOM, "left": LEFT, "right": RIGHT},
    )


def _marks(view: View, shown: Sequence[Outcome], places: Sequence[float], heights: Sequence[float]) -> list[Mark]:
    """Marks with their labels beside them, moved apart among those on the same side."""
    across = [(x - LEFT) / (RIGHT - LEFT) for x in places]
    labels = label_heights(across, heights, gap=LABEL_HEIGHT, end=BOTTOM)
    marks = []
    for outcome, x, y, label_y in zip(shown, places, heights, labels, strict=True):
        holds = view.comparison.holds_together(outcome.mechanism)
        sentence = (
            f"{view.title_of(outcome)}: welfare {view.unit.text(outcome.welfare)}, lowest fair gain "
            f"{lowest_gain_share_text(outcome)}, {HOLDING[holds]}"
        )
        marks.append(Mark(outcome=outcome, x=x, y=y, label_y=label_y, holds=holds, sentence=sentence))
    return marks


def _span(numbers: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """From where to where an axis goes, with room around its numbers."""
    low, high = float(np.min(numbers)), float(np.max(numbers))
    room = max(MARK_MARGIN * (high - low), MIN_RANGE * max(abs(low), abs(high))) or 1.0
    return low - room, high + room


def _missing(view: View) -> list[str]:
    """Mechanisms whose lowest share is undefined."""
    return [view.title_of(outcome) for outcome in view.comparison if np.isnan(outcome.lowest_gain_share)]

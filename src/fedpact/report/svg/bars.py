"""Bars and dumbbells for the cell of a table row.

Lengths are percentages, so a picture fills whatever width its cell has while lines and dots keep their size. Rows that
share an `Axis` can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.report.html import Html, el

__all__ = ["Axis", "bar", "dumbbell", "whisker"]

BAR_HEIGHT = 16
DUMBBELL_HEIGHT = 20
DOT = 5
# Upright lines go this far beyond the picture, to meet those of the next row.
REACH = 4
# The axis ends this many per cent short of the picture's edges, so that dots are not cut.
MARGIN = 1.5
# Bars of something are at least this long, in per cent.
SHORTEST = 0.4


@dataclass(frozen=True)
class Axis:
    """The numbers from `low` to `high`, zero among them, on the width of a picture."""

    low: float
    high: float

    @classmethod
    def over(cls, *columns: ArrayLike) -> Axis:
        """The shortest axis with room for all finite numbers, and zero."""
        numbers = np.concatenate(
            [np.ravel(np.asarray(column, dtype=np.float64)) for column in columns] or [np.zeros(1)]
        )
        finite = numbers[np.isfinite(numbers)]
        low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
        return cls(low, high if high > low else low + 1.0)

    def at(self, number: float) -> float:
        """Where a number is, in per cent of the width."""
        share = (number - self.low) / (self.high - self.low)
        return round(MARGIN + share * (100.0 - 2.0 * MARGIN), 2)


def bar(axis: Axis, number: float, css: str, title: str, *, mark: float | None = None) -> Html:
    """A bar from zero to `number`; `mark` adds a tick such as a cap. The number itself stands in the next cell."""
    zero = axis.at(0.0)
    parts = [el("title", title), _line(zero, "zero", -REACH, BAR_HEIGHT + REACH)]
    if np.isfinite(number) and number != 0:
        end = axis.at(number)
        width = max(abs(end - zero), SHORTEST)
        parts.append(
            el(
                "rect",
                x=f"{min(zero, end):g}%",
                y=2,
                width=f"{width:.2f}%",
                height=BAR_HEIGHT - 4,
                rx=1.5,
                class_=f"bar {css}",
            )
        )
    if mark is not None and np.isfinite(mark):
        parts.append(_line(axis.at(mark), "mark", -REACH, BAR_HEIGHT + REACH))
    return el("svg", parts, width="100%", height=BAR_HEIGHT, class_="chart", aria_hidden="true")


def dumbbell(axis: Axis, share: float, benefit: float, css: str, title: str) -> Html:
    """A ring at the share and a dot at the benefit, joined by a line."""
    middle = DUMBBELL_HEIGHT / 2
    parts = [el("title", title), _line(axis.at(0.0), "zero", -REACH, DUMBBELL_HEIGHT + REACH)]
    if np.isfinite(share) and np.isfinite(benefit):
        ends = {"x1": f"{axis.at(share):g}%", "x2": f"{axis.at(benefit):g}%"}
        parts.append(el("line", **ends, y1=middle, y2=middle, class_=f"rod {css}"))
    if np.isfinite(benefit):
        parts.append(el("circle", cx=f"{axis.at(benefit):g}%", cy=middle, r=DOT, class_=f"bar {css}"))
    if np.isfinite(share):
        parts.append(el("circle", cx=f"{axis.at(share):g}%", cy=middle, r=DOT, class_="ring"))
    return el("svg", parts, width="100%", height=DUMBBELL_HEIGHT, class_="chart", role="img")


def whisker(axis: Axis, ends: ArrayLike, middle: float, css: str, title: str) -> Html:
    """A line over an interval and a dot at the estimate."""
    low, high = (float(end) for end in np.asarray(ends))
    centre = DUMBBELL_HEIGHT / 2
    parts = [el("title", title), _line(axis.at(0.0), "zero", -REACH, DUMBBELL_HEIGHT + REACH)]
    if np.isfinite(low) and np.isfinite(high):
        spans = {"x1": f"{axis.at(low):g}%", "x2": f"{axis.at(high):g}%"}
        parts.append(el("line", **spans, y1=centre, y2=centre, class_=f"rod {css}"))
    if np.isfinite(middle):
        parts.append(el("circle", cx=f"{axis.at(middle):g}%", cy=centre, r=DOT - 1, class_=f"bar {css}"))
    return el("svg", parts, width="100%", height=DUMBBELL_HEIGHT, class_="chart", role="img")


def _line(at: float, css: str, top: float, bottom: float) -> Html:
    return el("line", x1=f"{at:g}%", x2=f"{at:g}%", y1=top, y2=bottom, class_=css)

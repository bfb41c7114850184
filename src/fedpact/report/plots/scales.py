"""Where the values of a sweep's parameter stand on an axis: in rising order, evenly, or evenly in their logarithms.

A single value, and values of which one is infinite, stand side by side like words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.utils.arrays import FloatArray

__all__ = ["Scale", "scale_of"]

WIDE = 10.0  # the ratio of the largest value to the smallest from which an axis may be logarithmic
MOST_WORDS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """An axis of a picture.

    Attributes
    ----------
    order
        The values' numbers in rising order.
    places
        Where they stand, in that order.
    edges
        The borders of the cells around them, one more than there are values.
    logarithmic
        Whether the axis is.
    words
        What is written at the places; empty where the axis is numbered.
    """

    order: np.ndarray
    places: FloatArray
    edges: FloatArray
    logarithmic: bool = False
    words: Sequence[str] = ()

    def dress(self, axis: Any) -> None:
        """Set up an axis of a panel, such as `panel.xaxis`."""
        if self.logarithmic:
            getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
        if self.words:
            step = -(-len(self.words) // MOST_WORDS)
            axis.set_ticks(self.places[::step], list(self.words)[::step])

    def doubled(self) -> FloatArray:
        """Both edges of every cell in turn: the coordinates of an array each of whose entries stands twice."""
        return np.repeat(self.edges, 2)[1:-1]


def scale_of(points: FloatArray) -> Scale:
    """The axis for the values a parameter takes."""
    order = np.argsort(points, kind="stable")
    rising = points[order]
    if rising.size == 1 or not np.isfinite(rising).all():
        places = np.arange(rising.size, dtype=np.float64)
        return Scale(order=order, places=places, edges=_edges(places), words=[_word(value) for value in rising])
    if _is_logarithmic(rising):
        return Scale(order=order, places=rising, edges=np.exp(_edges(np.log(rising))), logarithmic=True)
    return Scale(order=order, places=rising, edges=_edges(rising))


def _edges(places: FloatArray) -> FloatArray:
    """Halfway between neighbours, and as far beyond the ends."""
    if places.size == 1:
        return np.array([places[0] - 0.5, places[0] + 0.5])
    middle = (places[1:] + places[:-1]) / 2.0
    return np.concatenate([[2.0 * places[0] - middle[0]], middle, [2.0 * places[-1] - middle[-1]]])


def _is_logarithmic(rising: FloatArray) -> bool:
    """Whether values are spaced more evenly in their logarithms than as they are, over a wide range."""
    if rising.size < 3 or rising[0] <= 0 or rising[-1] / rising[0] < WIDE:
        return False
    unevenness = [np.ptp(np.diff(numbers)) / np.diff(numbers).max() for numbers in (np.log(rising), rising)]
    return bool(unevenness[0] < unevenness[1])


def _word(value: float) -> str:
    return f"{value:g}".replace("inf", "∞").replace("-", "−")

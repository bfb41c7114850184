"""The axes of pictures: round numbers on them, and labels moved apart.

A label beside its mark stands on its right or, from `TURN` of the width on, on its left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedpact.report.numbers import MINUS

MAX_TICKS = 5
MAX_TICK_DECIMALS = 7  # smaller ticks are written with an exponent, and so are larger ones than the other
MAX_TICK = 1e12
TURN = 0.55  # of the width
LABEL_WIDTH = 0.15  # of the width, about: labels of marks further apart do not meet


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, a handful.

    Examples
    --------
    >>> ticks(0.0, 9.0)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / MAX_TICKS
    size = 10.0 ** np.floor(np.log10(rough))
    step = float(next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough * (1 - 1e-9)))
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [float(f"{place * step:.15g}") for place in range(first, last + 1)]


def tick_texts(found: Sequence[float]) -> list[str]:
    """Ticks with as many decimals as tell them apart.

    Examples
    --------
    >>> tick_texts([0.0, 0.025, 0.05])
    ['0', '0.025', '0.050']
    """
    step = found[1] - found[0] if len(found) > 1 else abs(found[0]) or 1.0
    decimals = next(
        (count for count in range(MAX_TICK_DECIMALS) if abs(round(step, count) - step) <= 1e-6 * step), None
    )
    if decimals is None or max(map(abs, found)) >= MAX_TICK:
        return [f"{tick:.6g}".replace("-", MINUS) for tick in found]
    return [f"{tick:,.{decimals}f}".replace("-", MINUS) if tick else "0" for tick in found]


def tick_marks(low: float, high: float, *, cells: int | None = None) -> list[tuple[float, str]]:
    """Ticks with their places in per cent; where the axis is made of cells, it goes from the middle of the first."""
    half = 0.5 / cells if cells else 0.0
    found, span = ticks(low, high), (high - low) or 1.0
    places = [100.0 * (half + (1.0 - 2.0 * half) * (tick - low) / span) for tick in found]
    return list(zip(places, tick_texts(found), strict=True))


def spread_labels(places: Sequence[float], *, gap: float, end: float) -> list[float]:
    """Places of labels along a side, from 0 to `end`, each where it belongs or moved until they are `gap` apart.

    Where there is not enough room for all they are as far apart as there is.

    Examples
    --------
    >>> spread_labels([5.0, 50.0, 6.0], gap=10.0, end=100.0)
    [5.0, 50.0, 15.0]
    """
    given = np.asarray(places, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    steps = min(gap, end / max(given.size, 1)) * np.arange(given.size)
    down = np.maximum.accumulate(given[order] - steps) + steps  # each at least one step below the one before
    spots = np.empty(given.size)
    spots[order] = np.minimum(down, end - steps[::-1])
    return [float(spot) for spot in spots]


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

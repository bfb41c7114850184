"""Shapley values from random orders of joining: each player is credited with what it adds to those before it.

One draw is an order, or an order and its reverse ("antithetic"): what a player adds early in one it adds late in the
other, and errors tend to cancel. Draws are independent, so the standard error is that of a mean. The credits of an
order add up to v(N) - v(empty), so the estimate is efficient whatever was drawn.

How many draws fit into a budget depends on how often they meet the same coalitions. That leaves the estimate unbiased:
the rule treats all players alike, so whatever the number of draws, each of them is an order as likely as any other.
(Coalitions known beforehand that favour some players can undo this, by about one part in the number of draws.)

References: Castro et al. (2009), Computers & Operations Research 36(5); Mitchell et al. (2022), JMLR 23(43).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray

# How many times more draws than would fit without any coalition met twice: bounds the work when nearly all are known.
MAX_REPEATS = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Orders:
    """Random orders of joining; with `antithetic` each is followed by its reverse."""

    orders: list[NDArray[np.intp]]
    antithetic: bool

    def masks(self) -> list[int]:
        """The coalitions the orders pass through, as integers, each once."""
        return list(dict.fromkeys(mask for order in self.orders for mask in _along(order)))

    def estimate(self, lookup: Callable[[list[int]], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Shapley values and standard errors, (players, outputs); `lookup` has the values (coalitions, outputs)."""
        draws = np.array([_credits(order, lookup) for order in self.orders])
        if self.antithetic:
            draws = (draws[0::2] + draws[1::2]) / 2.0
        return draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))


def draw_orders(
    n_players: int, budget: int, known: Collection[int], rng: np.random.Generator, *, antithetic: bool
) -> Orders:
    """As many orders as `budget` pays for when coalitions in `known` are free; two draws whatever they cost."""
    orders: list[NDArray[np.intp]] = []
    new: set[int] = set()
    per_draw = 2 if antithetic else 1
    for draw in range(2 + MAX_REPEATS * (budget + len(known)) // (per_draw * n_players)):
        order = rng.permutation(n_players)
        chosen = [order, order[::-1]] if antithetic else [order]
        met = {mask for each in chosen for mask in _along(each) if mask not in known and mask not in new}
        if draw >= 2 and len(new) + len(met) > budget:
            break
        orders += chosen
        new |= met
    return Orders(orders=orders, antithetic=antithetic)


def _along(order: NDArray[np.intp]) -> Iterator[int]:
    """The coalitions an order passes through, from the empty one to the grand one, as integers."""
    mask = 0
    yield mask
    for player in order.tolist():
        mask |= 1 << player
        yield mask


def _credits(order: NDArray[np.intp], lookup: Callable[[list[int]], FloatArray]) -> FloatArray:
    """What each player adds when it joins."""
    steps = np.diff(lookup(list(_along(order))), axis=0)
    credit = np.empty_like(steps)
    credit[order] = steps
    return credit

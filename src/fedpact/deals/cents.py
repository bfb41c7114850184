"""Amounts to whole cents that sum to zero, by largest remainder.

Every amount is rounded down, and the cents then missing go to the largest remainders, so each balance is one of the
two whole cents next to the exact amount, and an amount of whole cents stays as it is. Remainders that tie go in the
order of agents.

Agents with equal payments get equal cents. If the plain rule would part them, the missing cents go to those whole
groups of equals, of the right count, that have the largest sum of remainders: the least total deviation that is fair.
A smaller remainder may then be rounded up and a larger one down. The one exception cannot be avoided: where no whole
groups have the right count (three agents who are owed a third of a cent each), the equals at the cut differ by one
cent, and those that come first are rounded up.

Payments sum to zero only up to rounding error. An error below one cent disappears in the rounding; a larger one, which
only huge amounts can have, is first taken off in proportion to the amounts.

Cost: O(n log n), and if the plain rule parts equals a knapsack over the `EVEN_WINDOW` groups on either side of the cut
(that is all of them, if there are no more than that): O(n) a group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np

GRAINS = 10**6
"""Grains in a cent. Amounts that are the same to the nearest grain count as equal, whatever their last bits say."""

EVEN_WINDOW = 256
"""How many groups of equals on either side of the cut are considered when sharing out the missing cents."""


def whole_cents(amounts: Sequence[Fraction]) -> list[int]:
    """Whole cents that sum to zero, from amounts in cents whose sum is zero up to rounding error.

    Examples
    --------
    >>> whole_cents([Fraction(5, 2), Fraction(5, 4), Fraction(-15, 4)])
    [3, 1, -4]
    """
    grains = _balanced_grains(amounts)
    cents = [amount // GRAINS for amount in grains]
    for agent in _rounded_up(grains, -sum(cents)):
        cents[agent] += 1
    return cents


def _balanced_grains(amounts: Sequence[Fraction]) -> list[int]:
    """The amounts in grains, summing to less than a cent either way.

    Whole cents are whole grains, so an amount never passes a whole cent on its way to the nearest grain.
    """
    grains = [round(amount * GRAINS) for amount in amounts]
    total, gross = sum(grains), sum(map(abs, grains))
    if abs(total) < GRAINS:
        return grains
    sign = 1 if total > 0 else -1
    return [amount - sign * (abs(total * amount) // gross) for amount in grains]


def _rounded_up(grains: Sequence[int], count: int) -> list[int]:
    """The `count` agents to round up: the largest remainders, equals together if that can be."""
    equals: dict[int, list[int]] = defaultdict(list)
    for agent, amount in enumerate(grains):
        if amount % GRAINS:
            equals[amount].append(agent)
    groups = sorted(equals.values(), key=lambda agents: (-(grains[agents[0]] % GRAINS), agents[0]))
    filled = [0, *accumulate(map(len, groups))]
    cut = bisect_right(filled, count) - 1
    if filled[cut] < count:  # the cut goes through a group
        start, stop = max(0, cut - EVEN_WINDOW), cut + EVEN_WINDOW
        remainders = [grains[agents[0]] % GRAINS for agents in groups[start:stop]]
        chosen = _best_filling([len(agents) for agents in groups[start:stop]], remainders, count - filled[start])
        if chosen is not None:
            groups = groups[:start] + [groups[start + group] for group in chosen]
    return [agent for agents in groups for agent in agents][:count]


def _best_filling(sizes: Sequence[int], remainders: Sequence[int], count: int) -> list[int] | None:
    """Groups whose sizes add up to `count`, with the largest sum of remainders; None if no sizes add up to it."""
    best = np.full(count + 1, -np.inf)  # entry c: the largest sum for c agents out of the groups seen, from the back
    best[0] = 0.0
    taken = []
    for size, remainder in zip(reversed(sizes), reversed(remainders), strict=True):
        takes = np.zeros(count + 1, dtype=np.bool_)
        if size <= count:
            with_group = best[: count + 1 - size] + size * remainder
            takes[size:] = with_group >= best[size:]
            best[size:] = np.maximum(best[size:], with_group)
        taken.append(np.packbits(takes, bitorder="little"))
    if best[count] < 0:
        return None
    chosen = []
    for group, size in enumerate(sizes):
        if taken.pop()[count // 8] >> count % 8 & 1:
            chosen.append(group)
            count -= size
    return chosen

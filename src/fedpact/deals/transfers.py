"""Payments carried out: amounts in whole cents that sum to zero, and the fewest transfers that settle them.

Transfers: m non-zero balances need m - k transfers, k being the largest number of disjoint subsets that each sum to
zero: a subset of size z that cannot be split needs z - 1 transfers, and paying from the largest debtor to the largest
creditor takes no more. A pair of opposite balances belongs to some best partition, so pairs are matched first, in
O(m). Let r balances be left. Up to `EXACT_LIMIT` of them k is exact: with f(S) the most zero-sum sets met on the way
from the empty set to S, adding one balance at a time,

    f(S) = [S sums to 0] + max over i in S of f(S without i),

in O(r 2^r) time and O(2^r) memory. Beyond that the largest debtor pays the largest creditor until all are square: at
most r - 1 transfers, in O(r log r). They are proven minimal if they meet the lower bound max(debtors, creditors,
ceil(2 r / 3)), whose last part holds because a zero-sum set without an opposite pair has at least three members.

Cents, by largest remainder: every amount is rounded down, and the cents then missing go to the largest remainders, so
each balance is one of the two whole cents next to the exact amount, and an amount of whole cents stays as it is.
Remainders that tie go in the order of agents.

Agents with equal payments get equal cents. If the plain rule would part them, the missing cents go to those whole
groups of equals, of the right count, that have the largest sum of remainders: the least total deviation that is fair.
A smaller remainder may then be rounded up and a larger one down. The one exception cannot be avoided: where no whole
groups have the right count (three agents who are owed a third of a cent each), the equals at the cut differ by one
cent, and those that come first are rounded up.

Payments sum to zero only up to rounding error. An error below one cent disappears in the rounding; a larger one,
which only huge amounts can have, is first taken off in proportion to the amounts.

Cost: O(n log n), and if the plain rule parts equals a knapsack over the groups: O(n) a group.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

GRAINS = 10**6
"""Grains in a cent. Amounts that are the same to the nearest grain count as equal, whatever their last bits say."""

# The most balances, opposite pairs apart, whose fewest transfers are searched for exactly.
EXACT_LIMIT = 20


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
    if count not in accumulate(map(len, groups), initial=0):  # the cut goes through a group
        remainders = [grains[agents[0]] % GRAINS for agents in groups]
        chosen = _best_filling([len(agents) for agents in groups], remainders, count)
        groups = groups if chosen is None else [groups[group] for group in chosen]
    return [agent for agents in groups for agent in agents][:count]


def _best_filling(sizes: Sequence[int], remainders: Sequence[int], count: int) -> list[int] | None:
    """Groups whose sizes add up to `count`, with the largest sum of remainders; None if no sizes add up to it."""
    best = np.full(count + 1, -np.inf)  # entry c: the largest sum for c agents out of the groups seen, from the back
    best[0] = 0.0
    taken = np.zeros((len(sizes), count + 1), dtype=np.bool_)
    for group in reversed(range(len(sizes))):
        size = sizes[group]
        if size <= count:
            with_group = best[: count + 1 - size] + size * remainders[group]
            taken[group, size:] = with_group >= best[size:]
            best[size:] = np.maximum(best[size:], with_group)
    if best[count] < 0:
        return None
    chosen = []
    for group, size in enumerate(sizes):
        if taken[group, count]:
            chosen.append(group)
            count -= size
    return chosen


Paid = tuple[int, int, int]
"""Payer, payee and cents; the agents by number."""


def fewest_transfers(cents: Sequence[int]) -> tuple[list[Paid], bool]:
    """Transfers that settle the balances, and whether it is proven that no fewer would do.

    Examples
    --------
    >>> fewest_transfers([5, -2, 7, -3, -7])
    ([(4, 2, 7), (3, 0, 3), (1, 0, 2)], True)
    """
    pairs, left = _opposite_pairs(cents)
    balances = [cents[agent] for agent in left]
    if len(left) <= EXACT_LIMIT:
        groups = [[left[member] for member in group] for group in _zero_sum_groups(balances)]
        return pairs + [paid for group in groups for paid in _largest_first(cents, group)], True
    transfers = _largest_first(cents, left)
    debtors = sum(balance < 0 for balance in balances)
    bound = max(debtors, len(left) - debtors, -(-2 * len(left) // 3))
    return pairs + transfers, len(transfers) == bound


def _opposite_pairs(cents: Sequence[int]) -> tuple[list[Paid], list[int]]:
    """Transfers between agents of opposite balances, matched in order, and the agents that still have a balance."""
    owed: dict[int, deque[int]] = defaultdict(deque)
    for agent, balance in enumerate(cents):
        if balance > 0:
            owed[balance].append(agent)
    pairs = [
        (payer, owed[-balance].popleft(), -balance)
        for payer, balance in enumerate(cents)
        if balance < 0 and owed.get(-balance)
    ]
    matched = {agent for payer, payee, _ in pairs for agent in (payer, payee)}
    return pairs, [agent for agent, balance in enumerate(cents) if balance and agent not in matched]


def _zero_sum_groups(balances: Sequence[int]) -> list[list[int]]:
    """A partition of non-zero balances into the most groups that each sum to zero, as indices."""
    in_range = sum(map(abs, balances)) <= np.iinfo(np.int64).max
    sums = np.zeros(1, dtype=np.int64 if in_range else object)  # entry S: the sum over the bits set in S
    sizes = np.zeros(1, dtype=np.int8)
    for balance in balances:
        sums, sizes = np.concatenate([sums, sums + balance]), np.concatenate([sizes, sizes + 1])
    is_zero = sums == 0
    most = np.zeros(len(sums), dtype=np.int8)  # f(S) of the module docstring; f of the empty set is 0
    for size in range(1, len(balances) + 1):
        subsets = np.flatnonzero(sizes == size)
        for member in range(len(balances)):
            most[subsets] = np.maximum(most[subsets], most[subsets & ~(1 << member)])
        most[subsets] += is_zero[subsets]
    return _walk_back(most, is_zero, len(balances))


def _walk_back(most: NDArray[np.int8], is_zero: NDArray[np.bool_], n_balances: int) -> list[list[int]]:
    """The groups met on a best way from the full set to the empty set, taking away the first possible member."""
    groups: list[list[int]] = []
    subset = (1 << n_balances) - 1
    while subset:
        if is_zero[subset]:
            groups.append([])
        before = most[subset] - is_zero[subset]
        member = next(i for i in range(n_balances) if subset >> i & 1 and most[subset ^ 1 << i] == before)
        groups[-1].append(member)
        subset ^= 1 << member
    return groups


def _largest_first(cents: Sequence[int], agents: Sequence[int]) -> list[Paid]:
    """Let the largest debtor pay the largest creditor until all agents are square; ties in the order of agents."""
    debts = [(cents[agent], agent) for agent in agents if cents[agent] < 0]
    claims = [(-cents[agent], agent) for agent in agents if cents[agent] > 0]
    heapq.heapify(debts)
    heapq.heapify(claims)
    transfers = []
    while debts:
        debt, payer = heapq.heappop(debts)
        claim, payee = heapq.heappop(claims)
        paid = min(-debt, -claim)
        transfers.append((payer, payee, paid))
        if debt + paid:
            heapq.heappush(debts, (debt + paid, payer))
        if claim + paid:
            heapq.heappush(claims, (claim + paid, payee))
    return transfers

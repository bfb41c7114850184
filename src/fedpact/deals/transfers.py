"""The fewest transfers that settle balances which sum to zero.

m non-zero balances need m - k transfers, k being the largest number of disjoint subsets that each sum to zero: a
subset of size z that cannot be split needs z - 1 transfers, and paying from the largest debtor to the largest creditor
takes no more. A pair of opposite balances belongs to some best partition, so pairs are matched first, in O(m). Let r
balances be left. Up to `EXACT_LIMIT` of them k is exact: with f(S) the most zero-sum sets met on the way from the empty
set to S, adding one balance at a time,

    f(S) = [S sums to 0] + max over i in S of f(S without i),

in O(r 2^r) time and O(2^r) memory. Beyond that the largest debtor pays the largest creditor until all are square: at
most r - 1 transfers, in O(r log r). They are proven minimal if they meet the lower bound max(debtors, creditors,
ceil(2 r / 3)), whose last part holds because a zero-sum set without an opposite pair has at least three members.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 20
"""The most balances, opposite pairs apart, whose fewest transfers are searched for exactly."""

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

"""Cooperative games whose Shapley values are known, ready for `sample_game`, and where they are known from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial

import numpy as np

from fedpact.shapley.measured import Coalition
from fedpact.utils.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownGame:
    """A game and its Shapley values."""

    name: str
    n_players: int
    value: Callable[[Coalition], float]
    shapley_values: FloatArray

    def __call__(self, coalition: Coalition) -> float:
        """What a coalition, a collection of players counted from 0, is worth."""
        return self.value(coalition)


def airport_game(costs: Sequence[float]) -> KnownGame:
    """Sharing a runway: a coalition pays for its most demanding member.

    With costs in rising order c_1 <= ... <= c_n each step c_k - c_{k-1} is shared by those who need it, k, ..., n
    (Littlechild and Owen, 1973, Management Science 20(3)).
    """
    needs = np.array(costs)
    order = np.argsort(needs, kind="stable")
    steps = np.diff(needs[order], prepend=0.0)
    shares = np.empty(needs.size)
    shares[order] = np.cumsum(steps / np.arange(needs.size, 0, -1))
    return KnownGame(
        name="airport",
        n_players=needs.size,
        value=lambda coalition: float(max((needs[player] for player in coalition), default=0.0)),
        shapley_values=np.array(shares),
    )


def glove_game(n_left: int, n_right: int) -> KnownGame:
    """Players 0, ..., n_left - 1 own a left glove each, the others a right one; a coalition is worth its pairs.

    With L <= R gloves on the two sides, an owner on the scarcer side gets 1/2 + (R - L) / (2 L) sum_{k=1}^{L} L! R! /
    ((L - k)! (R + k)!), and the rest of the L pairs goes to the other side (Shapley and Shubik, 1969, International
    Economic Review 10(3)).
    """
    few, many = sorted((n_left, n_right))
    chances = sum(
        Fraction(factorial(few) * factorial(many), factorial(few - k) * factorial(many + k)) for k in range(1, few + 1)
    )
    scarce = Fraction(1, 2) + Fraction(many - few, 2 * few) * chances
    plentiful = few * (1 - scarce) / many
    left, right = (scarce, plentiful) if n_left == few else (plentiful, scarce)

    def pairs(coalition: Coalition) -> float:
        owned = sum(player < n_left for player in coalition)
        return float(min(owned, len(coalition) - owned))

    return KnownGame(
        name="glove",
        n_players=n_left + n_right,
        value=pairs,
        shapley_values=np.array([float(left)] * n_left + [float(right)] * n_right),
    )


def voting_game(votes: Sequence[int], quota: int) -> KnownGame:
    """A coalition is worth 1 if its votes reach the quota: the Shapley-Shubik power index.

    The index is counted exactly, by the number of coalitions of each size and total of votes (Mann and Shapley, 1962,
    RAND memorandum RM-3158).
    """
    held = list(votes)
    return KnownGame(
        name="voting",
        n_players=len(held),
        value=lambda coalition: float(sum(held[player] for player in coalition) >= quota),
        shapley_values=np.array([_power(held, quota, player) for player in range(len(held))]),
    )


def _power(votes: list[int], quota: int, player: int) -> float:
    """The share of orders in which `player` is the one to reach the quota."""
    n_players = len(votes)
    # counts[k][t]: coalitions of k others with t votes together; whole numbers, so nothing is rounded.
    counts = np.zeros((n_players, quota), dtype=object)
    counts[0, 0] = 1
    for other, held in enumerate(votes):
        if other != player and held < quota:
            counts[1:, held:] = counts[1:, held:] + counts[:-1, : quota - held]
    swings = counts[:, max(quota - votes[player], 0) :].sum(axis=1)
    return float(sum(Fraction(int(swings[size]), n_players * comb(n_players - 1, size)) for size in range(n_players)))

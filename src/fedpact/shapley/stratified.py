"""Shapley values from coalitions drawn size by size: every value drawn serves every player.

Collecting the Shapley value by the size k of the coalition gives

    phi_j = (v(N) - v(empty)) / n + sum_{k=1}^{n-1} mean over |S| = k of v(S) z_j(S),
    z_j(S) = (n 1[j in S] - k) / (k (n - k)).

Each mean is estimated from distinct coalitions of that size. As sum_j z_j(S) = 0, the estimate is efficient whatever
was drawn. Most of the spread of v at one size tends to be linear in the members, and the linear part is known: with
sum_j a_j = 0, the mean of (b + sum_{i in S} a_i) z_j(S) is a_j / (n - 1). So a line is taken off v and its share put
back. It is fitted to one half of the draws and used on the other, and the other way round, so that the estimate stays
unbiased: given one half, m coalitions out of M, the mean over all M is m/M times the mean over that half plus
(1 - m/M) times the mean over the rest, of which the other half is a simple random sample.

Sizes share the draws in proportion to 1 / min(k, n - k): in federations most of a Shapley value comes from joining very
small coalitions, in other games from leaving very large ones. A size drawn completely is exact.

References: Maleki et al. (2013), arXiv:1306.4265, for strata by size; Kolpaczki et al. (2024), AAAI 38(12), for
estimates that need no pairs of coalitions.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from fedpact.shapley.coalition_cache import masks_of_rows
from fedpact.utils.arrays import FloatArray

# Draws each size gets before they are shared out: two tell an error, four tell it better where the budget allows.
MIN_DRAWS, COMFORTABLE_DRAWS = 2, 4
COMFORTABLE_BUDGET = 8  # evaluations a player
# Up to here all coalitions of a size are listed and shuffled; beyond, they are drawn until enough differ.
MAX_LISTED_COALITIONS = 1 << 15
DRAWN_AT_A_TIME = 64  # coalitions drawn at a time
MAX_POPULATION = 1 << 62  # stands for more coalitions than could ever be drawn
SLOPE_RIDGE = 0.1  # pull of the fitted line to zero, in observations a player


@dataclass(frozen=True, kw_only=True, eq=False)
class Stratum:
    """Distinct coalitions of one size in random order: `members` (m, n), their `masks`, and how many there are."""

    size: int
    members: NDArray[np.bool_]
    masks: list[int]
    population: int

    @property
    def complete(self) -> bool:
        """Whether all coalitions of the size were drawn."""
        return len(self.masks) == self.population

    def first(self, count: int) -> Stratum:
        """The first `count` coalitions."""
        return replace(self, members=self.members[:count], masks=self.masks[:count])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sample:
    """A stratum's values (m, outputs), its coordinates z (m, n) and its two halves; no halves when it is complete."""

    stratum: Stratum
    values: FloatArray
    z: FloatArray
    halves: tuple[slice, slice] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Strata:
    """Coalitions of the sizes 1, ..., n-1."""

    strata: list[Stratum]
    n_players: int

    def masks(self) -> list[int]:
        """The coalitions as integers, the empty and the grand one included."""
        return [*self._ends, *(mask for stratum in self.strata for mask in stratum.masks)]

    def estimate(self, lookup: Callable[[list[int]], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Shapley values and standard errors, (players, outputs); `lookup` has the values (coalitions, outputs)."""
        empty, grand = lookup(self._ends)
        values = np.tile((grand - empty) / self.n_players, (self.n_players, 1))
        variances = np.zeros_like(values)
        samples = [_sampled(stratum, lookup(stratum.masks), self.n_players) for stratum in self.strata]
        lines = [_fitted(samples, half, self.n_players) for half in (0, 1)] if samples else []
        for place, sample in enumerate(samples):
            value, variance = _summed(sample, [line[place] for line in lines])
            values += value
            variances += variance
        return values, np.sqrt(variances)

    @property
    def _ends(self) -> list[int]:
        return [0, (1 << self.n_players) - 1]


def all_strata(n_players: int) -> Strata:
    """Every coalition."""
    strata = [_stratum(n_players, size, comb(n_players, size), seed=0) for size in range(1, n_players)]
    return Strata(strata=strata, n_players=n_players)


def draw_strata(n_players: int, budget: int, known: Collection[int], *, seed: int) -> Strata:
    """As many coalitions as `budget` pays for when those in `known` are free; two of each size whatever they cost.

    With the same seed and a larger budget every size begins with the same coalitions.
    """
    most = min(budget + len(known), (1 << n_players) - 2)
    comfortable = most >= COMFORTABLE_BUDGET * n_players
    for least in (COMFORTABLE_DRAWS, MIN_DRAWS) if comfortable else (MIN_DRAWS,):
        longest = _strata(n_players, _shared_out(n_players, most, least), seed)
        cost = partial(_cost, longest, least, known)
        if cost(0) <= budget:
            break
    # The largest total that the budget pays for: drawing more never costs less.
    total = most if cost(most) <= budget else max(bisect_right(range(most), budget, key=cost) - 1, 0)
    chosen = [
        stratum.first(count) for stratum, count in zip(longest, _shared_out(n_players, total, least), strict=True)
    ]
    return Strata(strata=chosen, n_players=n_players)


def _cost(longest: list[Stratum], least: int, known: Collection[int], total: int) -> int:
    """How many new coalitions a total of draws asks for."""
    counts = _shared_out(len(longest) + 1, total, least)
    return sum(mask not in known for part, count in zip(longest, counts, strict=True) for mask in part.masks[:count])


def _strata(n_players: int, counts: list[int], seed: int) -> list[Stratum]:
    return [_stratum(n_players, size, count, seed=seed) for size, count in enumerate(counts, start=1)]


def _shared_out(n_players: int, total: int, least: int) -> list[int]:
    """Draws for the sizes 1, ..., n-1; a larger total takes none away."""
    populations = [comb(n_players, size) for size in range(1, n_players)]
    counts = [min(least, population) for population in populations]
    weights = [1.0 / min(size, n_players - size) for size in range(1, n_players)]
    queue = [(-weights[k] / (counts[k] + 0.5), k) for k in range(n_players - 1) if counts[k] < populations[k]]
    heapq.heapify(queue)
    for _ in range(total - sum(counts)):
        if not queue:
            break
        _, k = heapq.heappop(queue)
        counts[k] += 1
        if counts[k] < populations[k]:
            heapq.heappush(queue, (-weights[k] / (counts[k] + 0.5), k))
    return counts


def _stratum(n_players: int, size: int, count: int, *, seed: int) -> Stratum:
    population = min(comb(n_players, size), MAX_POPULATION)
    rng = np.random.default_rng([seed, size])
    if population <= MAX_LISTED_COALITIONS:
        members = _listed(n_players, size)[rng.permutation(population)[:count]]
        masks = masks_of_rows(members)
    else:
        members, masks = _drawn(n_players, size, count, rng)
    return Stratum(size=size, members=members, masks=masks, population=population)


def _listed(n_players: int, size: int) -> NDArray[np.bool_]:
    """All coalitions of a size, as rows; large ones by the players they leave out."""
    few = min(size, n_players - size)
    count = comb(n_players, few)
    chosen = np.fromiter(chain.from_iterable(combinations(range(n_players), few)), dtype=np.intp, count=count * few)
    members = np.zeros((count, n_players), dtype=np.bool_)
    np.put_along_axis(members, chosen.reshape(count, few), True, axis=1)
    return members if few == size else ~members


def _drawn(n_players: int, size: int, count: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], list[int]]:
    """The first `count` distinct coalitions of an endless random sequence."""
    found: dict[int, NDArray[np.bool_]] = {}
    while len(found) < count:
        chosen = rng.random((DRAWN_AT_A_TIME, n_players)).argpartition(size - 1, axis=1)[:, :size]
        rows = np.zeros((DRAWN_AT_A_TIME, n_players), dtype=np.bool_)
        np.put_along_axis(rows, chosen, True, axis=1)
        for mask, row in zip(masks_of_rows(rows), rows, strict=True):
            found.setdefault(mask, row)
    return np.array(list(found.values())[:count]), list(found)[:count]


def _sampled(stratum: Stratum, values: FloatArray, n_players: int) -> _Sample:
    size = stratum.size
    z = (n_players * stratum.members - float(size)) / (size * (n_players - size))
    halves = None if stratum.complete else (slice(0, None, 2), slice(1, None, 2))
    return _Sample(stratum=stratum, values=values, z=z, halves=halves)


def _fitted(samples: list[_Sample], half: int, n_players: int) -> FloatArray:
    """Lines a (strata, players, outputs) fitted to one half of the draws, each adding up to zero over the players.

    One direction serves all sizes, scaled to the spread of the values at each: a ridge regression of standardised
    values on standardised membership.
    """
    rows, targets, spreads = [], [], []
    for sample in samples:
        part = slice(None) if sample.halves is None else sample.halves[half]
        values = sample.values[part]
        centred = values - values.mean(axis=0)
        spread = np.sqrt((centred**2).sum(axis=0) / max(len(values) - 1, 1))
        unit = np.sqrt(sample.stratum.size * (n_players - sample.stratum.size))
        rows.append(sample.z[part] * unit)
        targets.append(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))
        spreads.append(spread * n_players / unit)
    lines = np.zeros((len(samples), n_players, spreads[0].size))
    for output in range(spreads[0].size):
        direction = _ridge(rows, [target[:, output] for target in targets], n_players)
        for place, spread in enumerate(spreads):
            lines[place, :, output] = spread[output] * direction
    return lines


def _ridge(rows: list[FloatArray], targets: list[FloatArray], n_players: int) -> FloatArray:
    varying = [place for place, target in enumerate(targets) if target.any()]
    if not varying:
        return np.zeros(n_players)
    design = np.concatenate([rows[place] for place in varying])
    target = np.concatenate([targets[place] for place in varying])
    direction = np.linalg.solve(design.T @ design + SLOPE_RIDGE * n_players * np.eye(n_players), design.T @ target)
    return np.asarray(direction - direction.mean())


def _summed(sample: _Sample, lines: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """A stratum's part of the estimate and of its variance; the lines (n, outputs) come from its two halves."""
    if sample.halves is None:
        centred = sample.values - sample.values.mean(axis=0)
        return sample.z.T @ centred / len(centred), np.zeros_like(lines[0])
    estimate = np.zeros_like(lines[0])
    sums, squares = np.zeros_like(estimate), np.zeros_like(estimate)
    for line, own, other in zip(lines, sample.halves, sample.halves[::-1], strict=True):
        rest = sample.values - sample.stratum.members @ line
        rest = rest - rest[own].mean(axis=0)
        inside, outside = sample.z[own].T @ rest[own], sample.z[other].T @ rest[other]
        drawn, left = len(rest[own]), len(rest[other])
        share = drawn / sample.stratum.population
        known = line / (len(line) - 1) + share * inside / drawn
        estimate += (known + (1.0 - share) * outside / left) / 2.0
        sums += outside
        squares += (sample.z[other] ** 2).T @ rest[other] ** 2
    count = len(sample.values)
    spread = np.maximum(squares - sums**2 / count, 0.0) / (count - 1)
    return estimate, spread / count * (1.0 - count / sample.stratum.population)

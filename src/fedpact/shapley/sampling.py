"""Shapley values of a federation by sampling: an independent check of the exact routes. Sampling can refute, not prove.

Agent j's Shapley value is the mean over k = 0, ..., n-1 of what j adds to a random coalition of k others. One draw
takes a size k and a random order, and lets *every* agent join the first k others of that order. Most of a Shapley value
comes from joining very small coalitions, so sizes are grouped into bands [k, about 1.4 k], each of which gets its own
draws, k uniform within it: more where the payoffs' curvature says that chance matters more. The sizes 0 and n - 1 leave
nothing to chance.

All agents join about the same coalition, so their errors go together, and so does the error of their sum, which is
known to be A(s). Each agent takes back a fixed share of it, fixed by how much its increment depends on the data at
hand: the estimates then add up to A(s) exactly, stay unbiased, and most of the common error is gone. The standard error
is that of a stratified mean of independent draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

MIN_PERMUTATIONS = 4
DRAWS_PER_BAND = 8  # fewer bands rather than fewer draws in each
BANDS_PER_DOUBLING = 2
EVEN = 0.25  # part of the draws shared out evenly over the bands, whatever the curvature says
INCREMENTS_AT_A_TIME = 1 << 20  # increments worked out at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class _Game:
    """What the draws need: `steps[j, i]` = w_ij s_j, `weights[j, i]` = value_i w_ij, and how low each y_i can fall.

    With several lots per agent steps are sums over an agent's lots, and weights have a row per lot, of `owners`.
    """

    federation: Federation
    steps: FloatArray
    weights: FloatArray
    lowest: FloatArray
    owners: NDArray[np.intp] | None = None


def sample_shapley(
    federation: Federation, contributions: FloatArray, *, permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates of the Shapley values and of d phi_j / d s_j, and the values' standard errors.

    Cost: `permutations` x n^2 payoff increments, on dense weights.
    """
    if permutations < MIN_PERMUTATIONS:
        raise InvalidInput(f"permutations must be at least {MIN_PERMUTATIONS}, to tell the error, got {permutations}")
    game = _game(federation, contributions)
    n_agents = federation.n_agents
    bends = _bends(game, 1)
    shares = bends / bends.sum() if bends.any() else np.full(n_agents, 1.0 / n_agents)
    values, gradient, variances = np.zeros(n_agents), np.zeros(federation.n_lots), np.zeros(n_agents)
    for first, last, draws in _bands(game, permutations):
        added, slopes = _draws(game, rng.integers(first, last, size=draws), rng)
        weight = (last - first) / n_agents
        values += weight * added.mean(axis=0)
        gradient += weight * slopes
        if draws > 1:
            kept = added - added.sum(axis=1, keepdims=True) * shares
            variances += weight**2 * kept.var(axis=0, ddof=1) / draws
    gap = federation.payoffs(contributions).sum() - values.sum()
    return values + gap * shares, gradient, np.sqrt(variances)


def _game(federation: Federation, contributions: FloatArray) -> _Game:
    weights = federation.dense_weights().T
    steps, owners = weights * contributions[:, None], None
    if federation.has_lots:
        brought, owners = federation.agent_data(contributions), federation.lot_owners
        steps = (brought if isinstance(brought, np.ndarray) else brought.toarray()).T
    return _Game(
        federation=federation,
        steps=steps,
        weights=weights * federation.values,
        lowest=np.minimum(steps, 0.0).sum(axis=0),
        owners=owners,
    )


def _bands(game: _Game, permutations: int) -> Iterator[tuple[int, int, int]]:
    """Ranges [first, last) of coalition sizes and the number of draws each gets."""
    n_agents = game.federation.n_agents
    yield 0, 1, 1
    if n_agents > 2:
        most = 1 + int(BANDS_PER_DOUBLING * np.log2(n_agents - 1))
        count = max(1, min(most, permutations // DRAWS_PER_BAND))
        edges = np.unique(np.geomspace(1, n_agents - 1, count + 1).round().astype(int))
        draws = _shared_out(permutations, np.diff(edges) * [_bends(game, k).sum() for k in edges[:-1]])
        yield from zip(edges[:-1].tolist(), edges[1:].tolist(), draws, strict=True)
    if n_agents > 1:
        yield n_agents - 1, n_agents, 1


def _shared_out(permutations: int, spreads: FloatArray) -> list[int]:
    """Draws for each band: two at least, the rest by `EVEN` in equal parts and by the spreads."""
    count = spreads.size
    weights = spreads if spreads.any() else np.ones(count)
    parts = EVEN / count + (1.0 - EVEN) * weights / weights.sum()
    ends = 2 * np.arange(count + 1) + (permutations - 2 * count) * np.insert(np.cumsum(parts), 0, 0.0)
    return np.diff(ends.round().astype(int)).tolist()


def _draws(game: _Game, sizes: NDArray[np.int64], rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """What every agent adds in each draw, (draws, agents), and the mean slopes."""
    n_agents = game.federation.n_agents
    block = max(1, INCREMENTS_AT_A_TIME // max(game.steps.size, game.weights.size))
    added = np.empty((sizes.size, n_agents))
    slopes = np.zeros(game.federation.n_lots)
    for start in range(0, sizes.size, block):
        part = slice(start, start + block)
        places = rng.random((sizes[part].size, n_agents)).argsort(axis=1).argsort(axis=1)
        added[part], slope = _joining(game, places, sizes[part, None])
        slopes += slope
    return added, slopes / sizes.size


def _joining(game: _Game, places: NDArray[np.intp], sizes: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """What each agent adds to the first `sizes` others, (draws, agents), and the slopes summed over the draws.

    `places` (draws, agents) says where each agent stands in the order. For agents behind the first k these are the
    others; an agent among them makes room for the next in line.
    """
    payoff, steps = game.federation.payoff, game.steps
    among = places < sizes
    before = among @ steps
    joining = np.where(among[:, :, None], 0.0, steps)  # nobody joins twice: that could leave the domain
    added = payoff.increment(before[:, None, :], joining) @ game.federation.values
    rises = payoff.slope(before[:, None, :] + joining)
    slope = np.einsum("dji,ji->dj", rises if game.owners is None else rises[:, game.owners], game.weights)
    draw, agent = np.nonzero(among)
    following = (places <= sizes) @ steps
    without = np.maximum(following[draw] - steps[agent], game.lowest)
    added[draw, agent] = payoff.increment(without, steps[agent]) @ game.federation.values
    within = among if game.owners is None else among[:, game.owners]
    slope[within] = (payoff.slope(following) @ game.weights.T)[within]
    return added, slope.sum(axis=0)


def _bends(game: _Game, size: int) -> FloatArray:
    """About how much each agent's increment varies with who the others are, at coalitions of `size` average agents."""
    payoff, steps = game.federation.payoff, game.steps
    typical = size * steps.mean(axis=0)
    falls = payoff.slope(typical) - payoff.slope(np.maximum(typical + steps, game.lowest))
    return np.abs((falls * steps.std(axis=0)) @ game.federation.values) * np.sqrt(size)

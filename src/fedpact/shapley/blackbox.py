"""Shapley values of a game that can only be evaluated, within a budget of evaluations.

The game is a function of coalitions, such as the accuracy of a model trained on their data: nothing else is known of
it, and every evaluation may take minutes. So evaluations are counted, none is made twice, and what was evaluated can be
kept (`CoalitionCache`) when the run is interrupted or to be continued. If the budget covers all 2^n coalitions the
answer is exact; otherwise coalitions are sampled:

* "stratified": by coalition size (`fedpact.shapley.stratified`). Every value serves every player. The default, and far
  ahead where most of a Shapley value comes from joining very small coalitions, as in federations.
* "permutation" and "antithetic": along random orders (`fedpact.shapley.permutations`). Better where a player adds about
  the same whomever it joins.

All are unbiased and efficient, and come with standard errors. These are estimates too. By strata they tend to be too
small below some ten evaluations a player; by orders, as long as a player's rare large contributions have hardly been
seen: a player that adds something only when it comes first needs many times n orders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.shapley.coalition_cache import Coalition, CoalitionCache, players_of
from fedpact.shapley.permutations import Orders, draw_orders
from fedpact.shapley.stratified import Strata, all_strata, draw_strata
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

SCHEMES = ("stratified", "permutation", "antithetic")
BATCH = 256  # coalitions a batch game is asked for at a time
REPORT_SECONDS = 0.1  # the least time between two reports of progress

Progress = Callable[[int, int], object]


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledShapley:
    """Shapley values of a game, and how they were obtained.

    Attributes
    ----------
    values
        One per player; (players, outputs) for a game with several outputs.
    standard_errors
        Of the values, in the same shape; zero when the method is "enumeration".
    evaluations
        How many coalitions were evaluated in this run.
    method
        "enumeration", or the scheme: "stratified", "permutation" or "antithetic".
    efficiency_gap
        How far the values' sum is from v(N) - v(empty), relative to the larger of |v(N)| and |v(empty)|; the worst of
        several outputs.
    cache
        Every coalition value at hand, for `known`.
    """

    values: FloatArray
    standard_errors: FloatArray
    evaluations: int
    method: str
    efficiency_gap: float
    cache: CoalitionCache = field(repr=False)


def sample_game(
    value: Callable[..., Any],
    n_players: int,
    *,
    budget: int,
    scheme: str = "stratified",
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
    known: Mapping[Coalition, ArrayLike] | None = None,
    batch: bool = False,
) -> SampledShapley:
    """Shapley values of a black-box game from at most `budget` distinct evaluations.

    Parameters
    ----------
    value
        The game: given a coalition, a sorted tuple of players counted from 0, what it is worth; a number, or a list of
        numbers for a game with several outputs. Its exceptions are passed on.
    n_players
        How many players there are.
    budget
        The most coalitions to evaluate, the empty and the grand one included. With all 2^n within the budget the
        values are exact.
    scheme
        "stratified", "permutation" or "antithetic".
    rng
        A seed or a generator. With the same seed and a result's cache, a run continues the earlier one.
    progress
        Called with the evaluations done and to do: first, last, and every now and then in between.
    known
        Coalition values at hand; they cost nothing. A `CoalitionCache` is filled as the run goes on, and so survives an
        interruption; any other mapping is only read.
    batch
        Whether `value` takes a list of coalitions and returns a value for each. A game with a method `values` that does
        so is always asked through it.

    Raises
    ------
    InvalidInput
        If a value is not a finite number, naming its coalition; or if the budget is too small to tell an error.

    Examples
    --------
    >>> result = sample_game(lambda coalition: len(coalition) ** 2, 3, budget=8)
    >>> result.values.tolist(), result.method
    ([3.0, 3.0, 3.0], 'enumeration')
    >>> result = sample_game(lambda coalition: min(len(coalition), 3), 20, budget=500, rng=0)
    >>> bool((abs(result.values - 0.15) <= 5 * result.standard_errors + 1e-12).all()), result.evaluations
    (True, 500)
    """
    _check(n_players, budget, scheme)
    cache = known if isinstance(known, CoalitionCache) else CoalitionCache(known)
    _check_players(cache, n_players)
    exact = (1 << n_players) - len(cache) <= budget
    seed = int(np.random.default_rng(rng).integers(1 << 62))
    design = all_strata(n_players) if exact else _drawn(n_players, budget, scheme, cache, seed)
    new = [mask for mask in design.masks() if mask not in cache.by_mask]
    if len(new) > budget:
        raise InvalidInput(
            f'budget must be at least {len(new)} to tell the errors of {n_players} players by scheme "{scheme}", '
            f"got {budget}"
        )
    _evaluate(value, new, cache, progress, batch=batch)

    def lookup(masks: list[int]) -> FloatArray:
        return np.array([cache.by_mask[mask] for mask in masks]).reshape(len(masks), -1)

    values, errors = design.estimate(lookup)
    ends = lookup([0, (1 << n_players) - 1])
    gaps = np.abs(values.sum(axis=0) - (ends[1] - ends[0])) / np.maximum(np.abs(ends).max(axis=0), np.finfo(float).tiny)
    shape = (n_players, *(cache.shape or ()))
    return SampledShapley(
        values=read_only_copy(values.reshape(shape)),
        standard_errors=read_only_copy(errors.reshape(shape)),
        evaluations=len(new),
        method="enumeration" if exact else scheme,
        efficiency_gap=float(gaps.max()),
        cache=cache,
    )


def _check(n_players: int, budget: int, scheme: str) -> None:
    if n_players < 1:
        raise InvalidInput(f"n_players must be at least 1, got {n_players}")
    if budget < 0:
        raise InvalidInput(f"budget must be at least 0, got {budget}")
    if scheme not in SCHEMES:
        raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")


def _check_players(cache: CoalitionCache, n_players: int) -> None:
    for mask in cache.by_mask:
        if mask >> n_players:
            raise InvalidInput(f"known holds coalition {players_of(mask)}, but players count from 0 to {n_players - 1}")


def _drawn(n_players: int, budget: int, scheme: str, cache: CoalitionCache, seed: int) -> Strata | Orders:
    """The coalitions a scheme asks for; the empty and the grand one are paid first."""
    ends = {0, (1 << n_players) - 1}
    left = max(budget - sum(mask not in cache.by_mask for mask in ends), 0)
    free = cache.by_mask.keys() - ends
    if scheme == "stratified":
        return draw_strata(n_players, left, free, seed=seed)
    rng = np.random.default_rng(seed)
    return draw_orders(n_players, left, free | ends, rng, antithetic=scheme == "antithetic")


def _evaluate(
    value: Callable[..., Any], masks: list[int], cache: CoalitionCache, progress: Progress | None, *, batch: bool
) -> None:
    """Evaluate coalitions into the cache, one by one or in batches."""
    offered = getattr(value, "values", None)
    ask = offered if callable(offered) else value if batch else lambda coalitions: [value(*coalitions)]
    together = BATCH if batch or callable(offered) else 1
    reported = -np.inf
    for start in range(0, len(masks), together):
        if progress is not None and time.monotonic() - reported >= REPORT_SECONDS:
            progress(start, len(masks))
            reported = time.monotonic()
        asked = masks[start : start + together]
        answers = list(ask([players_of(mask) for mask in asked]))
        if len(answers) != len(asked):
            raise InvalidInput(
                f"the game must return a value for each coalition: asked {len(asked)}, got {len(answers)}"
            )
        for mask, answer in zip(asked, answers, strict=True):
            cache.put(mask, answer)
    if progress is not None and masks:
        progress(len(masks), len(masks))

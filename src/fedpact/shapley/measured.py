"""Shapley values of a game that can only be evaluated, such as the accuracy of models trained on coalitions' data.

Nothing else is known of the game, and every evaluation may take minutes. So evaluations are counted, none is made
twice, and what was evaluated is kept in the caller's dictionary when the run is interrupted or to be continued. If the
budget covers all 2^n coalitions the answer is exact; otherwise coalitions are sampled, size by size.

Collecting the Shapley value by the size k of the coalition gives

    phi_j = (v(N) - v(empty)) / n + sum_{k=1}^{n-1} mean over |S| = k of v(S) z_j(S),
    z_j(S) = (n 1[j in S] - k) / (k (n - k)),

so that every value serves every player. The mean of z_j over all M coalitions of a size is zero, so each mean is a
covariance, estimated from m distinct coalitions without bias by (1 - 1/M) / (m - 1) sum z_j (v - mean of v). What v
gains with size alone cancels: that is most of it in federations, where a Shapley value comes from joining very small
coalitions and random orders of the players would need many times n of them. Sizes share the draws in proportion to
1 / min(k, n - k). The estimate is efficient, since sum_j z_j(S) = 0, and has standard errors, estimates themselves.

References: Maleki et al. (2013), arXiv:1306.4265, for strata by size; Kolpaczki et al. (2024), AAAI 38(12), for
estimates that need no pairs of coalitions.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from math import comb
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedpact.shapley.coalitions import size_coefficients, values_of_totals
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

BATCH = 256  # coalitions a batch game is asked for at a time
REPORT_SECONDS = 0.1  # the least time between two reports of progress
MIN_DRAWS = 3  # of each size: fewer do not tell an error

Coalition: TypeAlias = tuple[int, ...]  # players, counted from 0, in order
Progress = Callable[[int, int], object]


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledShapley:
    """Shapley values of a game, and how they were obtained."""

    values: FloatArray  # one per player; (players, outputs) for a game with several outputs
    standard_errors: FloatArray  # of the values, in the same shape; zero when the method is "enumeration"
    evaluations: int  # how many coalitions were evaluated in this run
    method: str  # "enumeration" or "sampling"
    # how far the values' sum is from v(N) - v(empty), relative to the larger of |v(N)| and |v(empty)|; the worst of
    # several outputs
    efficiency_gap: float
    known: Mapping[Coalition, float | FloatArray] = field(repr=False)  # every coalition value at hand


def sample_game(
    value: Callable[..., Any],
    n_players: int,
    *,
    budget: int,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
    known: dict[Coalition, Any] | None = None,
    batch: bool = False,
) -> SampledShapley:
    """Shapley values of a black-box game from at most `budget` distinct evaluations.

    Parameters
    ----------
    value
        The game: given a coalition, a sorted tuple of players counted from 0, what it is worth; a number, or a list of
        numbers for a game with several outputs. Its exceptions are passed on.
    budget
        The most coalitions to evaluate, the empty and the grand one included. With all 2^n within the budget the
        values are exact.
    rng
        A seed or a generator. With the same seed and what is `known`, a run continues the earlier one.
    progress
        Called with the evaluations done and to do: first, last, and every now and then in between.
    known
        Coalition values at hand, by sorted tuples of players; they cost nothing. It is filled as the run goes on, and
        so survives an interruption.
    batch
        Whether `value` takes a list of coalitions and returns a value for each.

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
    for name, given, least in (("n_players", n_players, 1), ("budget", budget, 0)):
        if given < least:
            raise InvalidInput(f"{name} must be at least {least}, got {given}")
    cache = {} if known is None else known
    for coalition, at_hand in cache.items():
        players = range(n_players)
        if tuple(player for player in players if player in coalition) != coalition:
            raise InvalidInput(
                f"known must be by sorted tuples of players from 0 to {n_players - 1}, got {short_repr(coalition)}"
            )
        cache[coalition] = _checked(coalition, at_hand, None)
    exact = (1 << n_players) - len(cache) <= budget
    seed = int(np.random.default_rng(rng).integers(1 << 62))
    coalitions = _all_coalitions(n_players) if exact else _draw_coalitions(n_players, budget, cache, seed)
    new = [coalition for coalition in coalitions if coalition not in cache]
    if len(new) > budget:
        least = len(new)
        raise InvalidInput(f"budget must be at least {least} to tell the errors of {n_players} players, got {budget}")
    _evaluate(value, new, cache, progress, batch=batch)
    found = np.array([cache[coalition] for coalition in coalitions]).reshape(len(coalitions), -1)
    if exact:
        values = values_of_totals(found.T, size_coefficients(n_players)).T
        errors = np.zeros_like(values)
    else:
        values, errors = _estimate(coalitions, found, n_players)
    empty, grand = found[0], found[-1]
    sizes = np.maximum(np.maximum(np.abs(empty), np.abs(grand)), np.finfo(float).tiny)
    shape = (n_players, *np.shape(cache[coalitions[0]]))
    return SampledShapley(
        values=read_only_copy(values.reshape(shape)),
        standard_errors=read_only_copy(errors.reshape(shape)),
        evaluations=len(new),
        method="enumeration" if exact else "sampling",
        efficiency_gap=float((np.abs(values.sum(axis=0) - (grand - empty)) / sizes).max()),
        known=cache,
    )


def _evaluate(
    value: Callable[..., Any],
    new: list[Coalition],
    cache: dict[Coalition, Any],
    progress: Progress | None,
    *,
    batch: bool,
) -> None:
    """Evaluate coalitions into the cache, one by one or in batches."""
    together, reported = BATCH if batch else 1, -np.inf
    for start in range(0, len(new), together):
        if progress is not None and time.monotonic() - reported >= REPORT_SECONDS:
            progress(start, len(new))
            reported = time.monotonic()
        asked = new[start : start + together]
        answers = list(value(asked)) if batch else [value(*asked)]
        if len(answers) != len(asked):
            raise InvalidInput(
                f"the game must return a value for each coalition: asked {len(asked)}, got {len(answers)}"
            )
        for coalition, answer in zip(asked, answers, strict=True):
            shape = np.shape(next(iter(cache.values()))) if cache else None
            cache[coalition] = _checked(coalition, answer, shape)
    if progress is not None and new:
        progress(len(new), len(new))


def _all_coalitions(n_players: int) -> list[Coalition]:
    """Every coalition, at the number whose bits are its players."""
    players = range(n_players)
    return [tuple(player for player in players if number >> player & 1) for number in range(1 << n_players)]


def _draw_coalitions(n_players: int, budget: int, known: Container[Coalition], seed: int) -> list[Coalition]:
    """As many coalitions as `budget` pays for when those `known` are free; some of each size whatever they cost.

    The empty one is first, the grand one last. With the same seed and a larger budget every size begins with the same
    coalitions.
    """
    empty, grand = (), tuple(range(n_players))
    sequences = {size: _shuffled(n_players, size, seed) for size in range(1, n_players)}
    drawn: dict[int, list[Coalition]] = {size: [] for size in sequences}
    cost = (empty not in known) + (grand not in known)

    def ranks(size: int) -> Iterator[tuple[float, int]]:
        for count in range(comb(n_players, size)):
            yield -np.inf if count < MIN_DRAWS else -1.0 / min(size, n_players - size) / (count + 0.5), size

    for rank, size in heapq.merge(*map(ranks, sequences)):
        coalition = next(sequences[size])
        cost += coalition not in known
        if cost > budget and rank > -np.inf:
            break
        drawn[size].append(coalition)
    return [empty, *(coalition for each in drawn.values() for coalition in each), grand]


def _shuffled(n_players: int, size: int, seed: int) -> Iterator[Coalition]:
    """All coalitions of one size, in random order."""
    rng, found = np.random.default_rng([seed, size]), set[Coalition]()
    while True:
        coalition = tuple(sorted(rng.choice(n_players, size, replace=False).tolist()))
        if coalition not in found:
            found.add(coalition)
            yield coalition


def _estimate(coalitions: list[Coalition], found: FloatArray, n_players: int) -> tuple[FloatArray, FloatArray]:
    """Values and standard errors, (players, outputs), from coalitions, the empty one first and the grand one last."""
    members = np.array([np.isin(np.arange(n_players), coalition) for coalition in coalitions])
    sizes = members.sum(axis=1)
    values = np.tile((found[-1] - found[0]) / n_players, (n_players, 1))
    variances = np.zeros_like(values)
    for size in range(1, n_players):
        drawn, population = sizes == size, comb(n_players, size)
        count = int(drawn.sum())
        z = (n_players * members[drawn] - size) / (size * (n_players - size))
        apart = found[drawn] - found[drawn].mean(axis=0)
        products = (z - z.mean(axis=0))[:, :, None] * apart[:, None]
        scale = (1.0 - 1.0 / population) * count / (count - 1)
        values += scale * products.mean(axis=0)
        variances += scale**2 * products.var(axis=0, ddof=1) / count * (1.0 - count / population)
    return values, np.sqrt(variances)


def _checked(coalition: Coalition, value: ArrayLike, shape: tuple[int, ...] | None) -> float | FloatArray:
    """The value of a coalition: a finite number or a list of them, as many as others have."""
    named = f"the value of coalition {short_repr(coalition)} must be"
    try:
        numbers = read_only_copy(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{named} a number, got {short_repr(value)}") from error
    if numbers.ndim > 1 or numbers.size == 0:
        raise InvalidInput(f"{named} a number or a list of numbers, got an array of shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{named} finite, got {short_repr(numbers.tolist())}")
    if shape not in (None, numbers.shape):
        raise InvalidInput(
            f"every coalition must have as many values as the others: {short_repr(coalition)} has shape "
            f"{numbers.shape}, others {shape}"
        )
    return numbers if numbers.ndim else float(numbers)

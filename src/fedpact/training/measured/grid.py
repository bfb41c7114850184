"""The Externality mechanism on measured payoffs by the paper's search: every profile of a grid is trained.

The welfare measured is that of the models trained: the best of many noisy numbers looks better than it is, so it is a
choice of contributions, and its welfare has to be measured again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from fedpact.training.checks import nearest_counts
from fedpact.training.measured.game import MeasuredGame
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

MAX_PROFILES = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class GridSearch:
    """The best of a grid.

    Attributes
    ----------
    contributions, welfare
        The best profile, and its welfare as measured in the search.
    tried
        How many profiles were looked at.
    trained
        How many of them were not known before.
    on_edge
        Whether an agent's contribution is the smallest or largest of the grid, and more of the same was possible.
    """

    contributions: FloatArray
    welfare: float
    tried: int
    trained: int
    on_edge: bool


def grid_search(
    game: MeasuredGame, costs: ArrayLike, *, centre: ArrayLike = 150.0, reach: int = 100, step: int = 20
) -> GridSearch:
    """Train every profile within `reach` samples of `centre` in steps of `step`; the defaults are the paper's."""
    axes = _axes(game, np.broadcast_to(np.asarray(centre, dtype=np.float64), (game.n_agents,)), reach, step)
    size = int(np.prod([float(axis.size) for axis in axes]))
    if size > MAX_PROFILES:
        raise InvalidInput(
            f"the grid has {size} profiles of {game.n_agents} members, at most {MAX_PROFILES} are tried; "
            f"take larger steps, or surface_search, which needs a few dozen"
        )
    before = game.trained
    profiles = np.array(list(product(*axes)), dtype=np.int64)
    rates = np.broadcast_to(np.asarray(costs, dtype=np.float64), (game.n_agents,))
    welfare = game.many(profiles).sum(axis=1) - profiles @ rates
    best = int(np.argmax(welfare))
    chosen = profiles[best].astype(np.float64)
    return GridSearch(
        contributions=read_only_copy(chosen),
        welfare=float(welfare[best]),
        tried=len(profiles),
        trained=game.trained - before,
        on_edge=_is_on_edge(chosen, axes, game.available, step),
    )


def _axes(game: MeasuredGame, centre: FloatArray, reach: int, step: int) -> list[np.ndarray]:
    offsets = np.arange(-(reach // step) * step, reach + 1, step)
    axes = []
    for middle, most in zip(nearest_counts(centre), game.available, strict=True):
        values = middle + offsets
        axes.append(values[(values >= 0) & (values <= most)])
    for agent, axis in enumerate(axes):
        if not axis.size:
            raise InvalidInput(
                f"centre[{agent}] must lie within {reach} of what the member holds, {game.available[agent]:.0f} "
                f"samples, got {centre[agent]:g}"
            )
    return axes


def _is_on_edge(chosen: FloatArray, axes: list[np.ndarray], available: FloatArray, step: int) -> bool:
    low = any(own == axis[0] and own - step >= 0 for own, axis in zip(chosen, axes, strict=True))
    high = any(own == axis[-1] and own + step <= most for own, axis, most in zip(chosen, axes, available, strict=True))
    return low or high

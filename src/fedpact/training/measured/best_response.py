"""The Shapley mechanism played on measured payoffs: everybody follows the slope of its own utility.

Agent i's utility is phi_i(s) - c_i s_i, its slope is measured by contributing `perturbation` samples more,

    s_i <- s_i + step ((phi_i(s + perturbation e_i) - phi_i(s)) / perturbation - c_i),   kept within [0, available_i],

all agents at once. Stopping inequality: in `patience` rounds in a row nobody moves by more than `threshold` samples.
A round takes up to 2^n + n 2^(n - 1) - 1 models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from fedpact.training.checks import nearest_counts
from fedpact.training.measured.game import EXACT_UP_TO, MeasuredGame
from fedpact.utils.arrays import FloatArray, read_only_copy


@dataclass(frozen=True, kw_only=True, eq=False)
class BestResponses:
    """Where best responses led.

    Attributes
    ----------
    contributions
        (rounds + 1, n_agents): what is contributed in each round, and in the end.
    shapley_values, slopes
        (rounds, n_agents): measured at each round's contributions; slopes are of phi_i in the agent's own.
    stable
        Whether they came to rest before the rounds were over.
    models
        How many models were looked at.
    """

    contributions: FloatArray
    shapley_values: FloatArray
    slopes: FloatArray
    stable: bool
    models: int

    def schedule(self, rounds: int) -> np.ndarray:
        """Whole samples used in each of `rounds` rounds; once at rest, always the same."""
        path = nearest_counts(self.contributions)
        return path[np.minimum(np.arange(rounds), len(path) - 1)]


def best_responses(
    game: MeasuredGame,
    costs: ArrayLike,
    *,
    start: ArrayLike = 150.0,
    step: float = 1000.0,
    perturbation: int = 10,
    threshold: float = 5.0,
    patience: int = 3,
    rounds: int = 50,
) -> BestResponses:
    """Best-response dynamics with finite differences; the defaults are the paper's."""
    rates = np.broadcast_to(np.asarray(costs, dtype=np.float64), (game.n_agents,))
    here = np.clip(np.broadcast_to(np.asarray(start, dtype=np.float64), (game.n_agents,)), 0.0, game.available)
    quiet = 0
    path: list[FloatArray] = [here]
    values: list[FloatArray] = []
    slopes: list[FloatArray] = []
    with game.counting() as asked:
        while len(values) < rounds and quiet < patience:
            phi, slope = _measure(game, here, perturbation)
            after = np.clip(here + step * (slope - rates), 0.0, game.available)
            quiet = quiet + 1 if np.abs(after - here).max() <= threshold else 0
            values.append(phi)
            slopes.append(slope)
            path.append(after)
            here = after
    return BestResponses(
        contributions=read_only_copy(np.array(path)),
        shapley_values=read_only_copy(np.array(values)),
        slopes=read_only_copy(np.array(slopes)),
        stable=quiet >= patience,
        models=len(asked),
    )


def _measure(game: MeasuredGame, contributions: FloatArray, perturbation: int) -> tuple[FloatArray, FloatArray]:
    """Shapley values, and their slopes in the own contribution: forwards, backwards for who has nothing more."""
    used = game.profile(contributions)
    ways = np.where(used + perturbation <= game.available, perturbation, -np.minimum(perturbation, used))
    moved = [used + way * (np.arange(game.n_agents) == agent) for agent, way in enumerate(ways)]
    if game.n_agents <= EXACT_UP_TO:
        masks = np.array(list(product([0, 1], repeat=game.n_agents)))
        game.many(np.concatenate([masks * profile for profile in (used, *moved)]))  # all in one go
    values = np.asarray(game.shapley(used).values)
    slopes = np.zeros(game.n_agents)
    for agent, profile in enumerate(moved):
        if ways[agent]:
            slopes[agent] = (game.shapley(profile).values[agent] - values[agent]) / ways[agent]
    return values, slopes

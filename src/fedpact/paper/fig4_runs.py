"""The runs behind Fig. 4: both mechanisms on the accuracies of trained models, for several seeds and two costs.

Three agents hold 400 images each, a fifth of them for testing. Accuracies that a mechanism is worked out from are those
of models trained from scratch for 20 rounds; what is drawn is one model trained for 50 rounds under the mechanism's
contributions, which under M^Shap move from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from fedpact.paper.measured_mechanisms import (
    BestResponses,
    GridSearch,
    Leaving,
    SurfaceSearch,
    best_responses,
    grid_search,
    leaving,
    standing_alone,
    surface_search,
)
from fedpact.training import Experiment, mnist
from fedpact.training.measured import MeasuredGame
from fedpact.training.settings import nearest_counts
from fedpact.utils.arrays import FloatArray

N_AGENTS, SAMPLES, TEST_SHARE, START = 3, 400, 0.2, 150
GAMMAS = (0.001, 0.01)
MAX_GRIDS = 4  # a grid whose best profile is on its edge is followed by one around that profile
PARTS = 4  # of a run, for the progress bar

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Fig4Settings:
    """How long and how fine."""

    seeds: Sequence[int]
    rounds: int
    grid_step: int


FULL = Fig4Settings(seeds=(0, 1, 2), rounds=50, grid_step=20)
QUICK = Fig4Settings(seeds=(0,), rounds=20, grid_step=50)


@dataclass(frozen=True, kw_only=True, eq=False)
class MechanismRounds:
    """One mechanism round by round.

    Attributes
    ----------
    schedule
        (rounds, n_agents): samples used.
    accuracies
        (rounds, n_agents): of the model after each round.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions, once a model is trained.
    leaving
        Who is better off alone, and what is left then.
    """

    schedule: np.ndarray
    accuracies: FloatArray
    utilities: FloatArray
    leaving: Leaving

    @property
    def accuracy(self) -> FloatArray:
        """(rounds,): summed over the agents."""
        return np.asarray(self.accuracies.sum(axis=1))

    @property
    def welfare(self) -> FloatArray:
        """(rounds,): with everybody in."""
        return self.leaving.everybody


@dataclass(frozen=True, kw_only=True, eq=False)
class Fig4Run:
    """Both mechanisms for one seed and one cost."""

    seed: int
    gamma: float
    responses: BestResponses
    grids: Sequence[GridSearch]
    surface: SurfaceSearch
    alone: FloatArray
    shapley: MechanismRounds
    externality: MechanismRounds

    @property
    def grid_trainings(self) -> int:
        """Profiles the grid search looked at."""
        return sum(grid.tried for grid in self.grids)


def runs(settings: Fig4Settings, *, folder: Path | None = None, progress: Progress | None = None) -> list[Fig4Run]:
    """All runs; what was trained before is read from the folder."""
    images = mnist()
    total, found = PARTS * len(GAMMAS) * len(settings.seeds), list[Fig4Run]()
    begun = count(1)

    def finish() -> None:
        if progress is not None:
            progress(next(begun), total)

    for seed in settings.seeds:
        experiment = Experiment(images, n_agents=N_AGENTS, samples=SAMPLES, test_share=TEST_SHARE, seed=seed)
        game = MeasuredGame(experiment, folder=folder)
        found += [_run(game, seed, gamma, settings, finish) for gamma in GAMMAS]
    return found


def _run(game: MeasuredGame, seed: int, gamma: float, settings: Fig4Settings, finish: Callable[[], None]) -> Fig4Run:
    alone = standing_alone(game, gamma)
    grids = [grid_search(game, gamma, centre=START, step=settings.grid_step)]
    while grids[-1].on_edge and len(grids) < MAX_GRIDS:
        grids.append(grid_search(game, gamma, centre=grids[-1].contributions, step=settings.grid_step))
    finish()
    surface = surface_search(game, gamma)
    finish()
    responses = best_responses(game, gamma, start=START, rounds=settings.rounds)
    finish()
    best = grids[-1].contributions
    schedule = np.tile(nearest_counts(best), (settings.rounds, 1))
    utilities = _externality(game, gamma, best, surface)
    run = Fig4Run(
        seed=seed,
        gamma=gamma,
        responses=responses,
        grids=grids,
        surface=surface,
        alone=alone,
        shapley=_shapley(game, gamma, responses, alone, settings.rounds),
        externality=_curve(game, gamma, schedule, np.tile(utilities, (settings.rounds, 1)), alone),
    )
    finish()
    return run


def _shapley(game: MeasuredGame, gamma: float, found: BestResponses, alone: FloatArray, rounds: int) -> MechanismRounds:
    schedule = found.schedule(rounds)
    values = np.array([game.shapley(used).values for used in schedule])
    return _curve(game, gamma, schedule, values - gamma * schedule, alone)


def _externality(game: MeasuredGame, gamma: float, given: FloatArray, surface: SurfaceSearch) -> FloatArray:
    """(n_agents,) utilities at contributions that stay; payments are at the prices of the fitted surface."""
    federation = surface.surface.federation(costs=gamma, caps=game.available)
    return np.asarray(game.accuracies(given) - gamma * given + federation.arrays.price_payments(given))


def _curve(
    game: MeasuredGame, gamma: float, schedule: np.ndarray, utilities: FloatArray, alone: FloatArray
) -> MechanismRounds:
    return MechanismRounds(
        schedule=schedule,
        accuracies=game.history(schedule).accuracies,
        utilities=utilities,
        leaving=leaving(game, gamma, schedule, utilities, alone),
    )

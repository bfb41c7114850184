"""The Externality mechanism on measured payoffs from few trainings: fit, solve, train there, and again.

The payoff surface (`fedpact.fitting`) is fitted to all accuracies seen so far; its welfare optimum is trained next,
together with profiles around it, where the surface has to be right. A few dozen trainings take the place of the grid's
thousand, and since a fit averages over the noise of single trainings its optimum is not the luckiest of many draws. The
fitted surface has slopes too: they are the prices, which a grid does not give.

Stopping inequality: the optimum moves by at most `settled` samples of everybody's, twice in a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from fedpact.fitting import Fit, Observations, fit
from fedpact.mechanisms.externality import ExternalityMechanism
from fedpact.training.checks import nearest_counts
from fedpact.training.measured.game import MeasuredGame
from fedpact.utils.arrays import FloatArray, read_only_copy

FIRST_LEVELS = (0.05, 0.15, 0.4, 1.0)  # of what everybody holds: the first profiles
PRIOR = 10.0
NEARBY = 0.5  # how far around the optimum the next profiles are
MIN_SPREAD = 5.0  # samples: around those who contribute none


@dataclass(frozen=True, kw_only=True, eq=False)
class SurfaceSearch:
    """The optimum of a fitted surface.

    Attributes
    ----------
    contributions
        Whole samples.
    welfare
        As the fitted surface has it at these contributions.
    payments
        At the fitted personal prices; they sum to zero.
    surface
        The fit.
    trained
        How many models it took.
    settled
        Whether the optimum had come to rest before the budget was spent.
    path
        (searches, n_agents): the optima on the way.
    """

    contributions: FloatArray
    welfare: float
    payments: FloatArray
    surface: Fit
    trained: int
    settled: bool
    path: FloatArray


def surface_search(
    game: MeasuredGame,
    costs: ArrayLike,
    *,
    budget: int = 60,
    settled: float = 10.0,
    prior: float = PRIOR,
    rng: int = 0,
) -> SurfaceSearch:
    """The welfare optimum of a surface fitted to at most `budget` models, or a few more for the last search.

    Parameters
    ----------
    prior
        How many pseudo-observations say that everybody's data is alike, as in `fit`: with linear costs the slightest
        difference decides who contributes, and few models cannot tell slight differences from noise.
    rng
        Draws the profiles around the optimum.
    """
    rates = np.broadcast_to(np.asarray(costs, dtype=np.float64), (game.n_agents,))
    generator = np.random.default_rng(rng)
    seen = _first_profiles(game)
    path: list[FloatArray] = []
    still = 0
    while True:
        surface = fit_surface(game, seen, prior=prior)
        optimum = _optimum(game, surface, rates)
        still = still + 1 if path and np.abs(optimum - path[-1]).max() <= settled else 0
        path.append(optimum)
        if still == 2 or len(seen) >= budget:
            break
        seen = np.unique(np.concatenate([seen, _around(game, optimum, generator)]), axis=0)
    payments = surface.federation(costs=rates, caps=game.available).arrays.price_payments(optimum)
    return SurfaceSearch(
        contributions=read_only_copy(optimum),
        welfare=float(surface.predict(optimum).sum() - rates @ optimum),
        payments=read_only_copy(payments),
        surface=surface,
        trained=len(seen),
        settled=still == 2,
        path=read_only_copy(np.array(path)),
    )


def fit_surface(game: MeasuredGame, profiles: np.ndarray, *, prior: float = PRIOR) -> Fit:
    """The surface through the accuracies of some profiles."""
    sizes = np.broadcast_to(game.test_sizes, profiles.shape)
    names = game.experiment.names
    seen = Observations.of(profiles.astype(np.float64), game.many(profiles), test_sizes=sizes, names=names)
    return fit(seen, prior=prior)


def _first_profiles(game: MeasuredGame) -> np.ndarray:
    """Everybody alone and all together, with little and with much."""
    whole = np.eye(game.n_agents + 1, game.n_agents) + (np.arange(game.n_agents + 1) == game.n_agents)[:, None]
    rows = [nearest_counts(level * game.available * who) for level, who in product(FIRST_LEVELS, whole)]
    return np.unique([row for row in rows if row.any()], axis=0)


def _optimum(game: MeasuredGame, surface: Fit, rates: FloatArray) -> FloatArray:
    federation = surface.federation(costs=np.maximum(rates, np.finfo(float).tiny), caps=game.available)
    return nearest_counts(ExternalityMechanism().solve(federation).contributions).astype(np.float64)


def _around(game: MeasuredGame, optimum: FloatArray, rng: np.random.Generator) -> np.ndarray:
    """The optimum, and profiles with everybody somewhat more or less."""
    factors = rng.uniform(1.0 - NEARBY, 1.0 + NEARBY, (game.n_agents + 1, game.n_agents))
    around = np.concatenate([optimum[None], factors * np.maximum(optimum, MIN_SPREAD)])
    rows = nearest_counts(np.clip(around, 0, game.available))
    return rows[rows.any(axis=1)]

"""Who would leave, on measured payoffs: what everybody gets alone, and what is left when somebody goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.tolerances import utility_tolerances, would_leave
from fedpact.fitting import Observations, fit
from fedpact.training.checks import nearest_counts
from fedpact.training.measured.game import MeasuredGame
from fedpact.utils.arrays import FloatArray, read_only_copy

MODELS_ALONE = 24  # models per agent
EVERY = 1  # samples: how finely the fitted curve is searched


@dataclass(frozen=True, kw_only=True, eq=False)
class StandingAlone:
    """What everybody does without the others.

    Attributes
    ----------
    contributions, accuracies, utilities
        (n_agents,): the best for each, by the curve fitted to its models.
    trained
        (levels, n_agents) samples, and the accuracies measured with them.
    """

    contributions: FloatArray
    accuracies: FloatArray
    utilities: FloatArray
    samples: FloatArray
    measured: FloatArray


def standing_alone(game: MeasuredGame, costs: ArrayLike, *, levels: int = MODELS_ALONE) -> StandingAlone:
    """The best each agent can do alone: models of its own at several sizes, a curve through them, its best point.

    The largest of the measured utilities would be the luckiest; the curve averages the luck out. Whoever loses by every
    model of its own trains none, and has zero.
    """
    rates = np.broadcast_to(np.asarray(costs, dtype=np.float64), (game.n_agents,))
    samples = np.array([_sizes(float(most), levels) for most in game.available]).T
    profiles = [
        size * (np.arange(game.n_agents) == agent) for agent in range(game.n_agents) for size in samples[:, agent]
    ]
    all_accuracies = game.many(np.array(profiles, dtype=np.int64)).reshape(game.n_agents, levels, game.n_agents)
    measured = np.array([all_accuracies[agent, :, agent] for agent in range(game.n_agents)]).T
    best = [
        _best(samples[:, agent], measured[:, agent], float(game.test_sizes[agent]), float(rates[agent]))
        for agent in range(game.n_agents)
    ]
    contributions, accuracies, utilities = (read_only_copy(np.array(column)) for column in zip(*best, strict=True))
    return StandingAlone(
        contributions=contributions,
        accuracies=accuracies,
        utilities=utilities,
        samples=read_only_copy(samples),
        measured=read_only_copy(measured),
    )


def _sizes(most: float, levels: int) -> FloatArray:
    """Sizes that lie closer where curves are steep."""
    return np.maximum(nearest_counts(most * np.linspace(0.0, 1.0, levels + 1)[1:] ** 1.6), 1).astype(np.float64)


def _best(samples: FloatArray, measured: FloatArray, test_size: float, rate: float) -> tuple[float, float, float]:
    curve = fit(Observations.of(samples[:, None], measured[:, None], test_sizes=test_size))
    tried = np.arange(1.0, samples.max() + 1.0, EVERY)
    accuracies = curve.predict(tried[:, None])[:, 0]
    utilities = accuracies - rate * tried
    place = int(np.argmax(utilities))
    if utilities[place] <= 0.0:
        return 0.0, 0.0, 0.0
    return float(tried[place]), float(accuracies[place]), float(utilities[place])


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaving:
    """Welfare if those who gain by it leave.

    Attributes
    ----------
    leaves
        (rounds, n_agents): who is better off alone.
    everybody
        (rounds,): welfare with everybody in.
    without
        (rounds,): those who leave have their utility alone, the others a model without their data.
    accuracy
        (rounds,): the sum of accuracies then.
    """

    leaves: np.ndarray
    everybody: FloatArray
    without: FloatArray
    accuracy: FloatArray


def leaving(
    game: MeasuredGame, costs: ArrayLike, schedule: np.ndarray, utilities: FloatArray, alone: StandingAlone
) -> Leaving:
    """Two federations trained round by round: with everybody, and without those who are better off alone.

    Parameters
    ----------
    schedule
        (rounds, n_agents): samples used.
    utilities
        (rounds, n_agents): what the mechanism gives everybody at each round's contributions.
    alone
        What everybody has without the others.
    """
    rates = np.broadcast_to(np.asarray(costs, dtype=np.float64), (game.n_agents,))
    whole = game.history(schedule).accuracies
    spent = schedule * rates
    paid = utilities - (whole - spent)
    leaves = would_leave(utilities - alone.utilities, utility_tolerances(whole, spent, paid, np.ones(game.n_agents)))
    rest = game.history(np.where(leaves, 0, schedule)).accuracies if leaves.any() else whole
    # Before anybody has trained anything together, and where nobody is left, there is no model.
    begun = np.cumsum(np.where(leaves, 0, schedule).sum(axis=1)) > 0
    kept = np.where(begun[:, None], rest, 0.0) - spent
    accuracy = np.where(leaves, alone.accuracies, np.where(begun[:, None], rest, 0.0))
    return Leaving(
        leaves=leaves,
        everybody=read_only_copy((whole - spent).sum(axis=1)),
        without=read_only_copy(np.where(leaves, alone.utilities, kept).sum(axis=1)),
        accuracy=read_only_copy(accuracy.sum(axis=1)),
    )

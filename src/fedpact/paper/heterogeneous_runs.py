"""The runs behind the study of unequal data: train some coalitions, fit, predict deals, train under them.

Five agents hold 500 MNIST images each, 150 of them for testing, with their own mix of classes. Two fifths of the labels
of the fourth are wrong, and the fifth clips its updates and adds noise to them. A deal is predicted from the fit alone;
then models are trained at its contributions, and everybody alone at what it would contribute alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fedpact.comparison import Outlook, outlooks
from fedpact.deals import Outcome
from fedpact.fitting import Fit, Observations, fit
from fedpact.mechanisms import ExternalityMechanism, Mechanism, ShapleyMechanism, Standalone
from fedpact.training import Dirichlet, Experiment, LabelNoise, PrivateUpdates, mnist
from fedpact.training.measured import MeasuredGame
from fedpact.training.settings import nearest_counts
from fedpact.utils.arrays import FloatArray

MEMBER_NAMES = ("A", "B", "C", "D, wrong labels", "E, private updates")
SAMPLES, TEST_SHARE, ALPHA = 500, 0.3, 1.0
WRONG_LABELS = (0.0, 0.0, 0.0, 0.4, 0.0)
CLIPS = (np.inf, np.inf, np.inf, np.inf, 1.0)
MULTIPLIERS = (0.0, 0.0, 0.0, 0.0, 0.02)
SAMPLE_SHARES = (0.03, 0.1, 0.3, 1.0)  # of what everybody holds: alone and all together
RANDOM = 40  # coalitions with random contributions
COSTS = (0.0005, 0.002)
MECHANISMS: tuple[Mechanism, ...] = (ExternalityMechanism(), ShapleyMechanism())

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class RealisedDeal:
    """A deal predicted, and what training under it came to; arrays are (n_agents,).

    Attributes
    ----------
    cost, outcome, outlook
        The cost of a sample, the deal on the estimates, and on draws from the fit.
    contributions
        Whole samples.
    predicted, realised
        Accuracies.
    alone_predicted, alone_realised
        Utilities of training alone, at the contributions predicted to be best for that.
    floors
        What payoffs are counted from.
    """

    cost: float
    outcome: Outcome
    outlook: Outlook
    contributions: FloatArray
    predicted: FloatArray
    realised: FloatArray
    alone_predicted: FloatArray
    alone_realised: FloatArray
    floors: FloatArray

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.outlook.mechanism

    def utilities(self, accuracies: FloatArray) -> FloatArray:
        """Of accuracies, at the contributions and payments agreed."""
        return np.asarray(accuracies - self.floors - self.cost * self.contributions + self.outcome.payments)

    @property
    def gaps(self) -> tuple[FloatArray, FloatArray]:
        """IR gaps predicted and realised."""
        return (
            self.utilities(self.predicted) - self.alone_predicted,
            self.utilities(self.realised) - self.alone_realised,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """What was trained, the fit, and the deals."""

    profiles: np.ndarray
    accuracies: FloatArray
    test_sizes: FloatArray
    surface: Fit
    deals: Sequence[RealisedDeal]

    @cached_property
    def residuals(self) -> FloatArray:
        """(profiles, n_agents): measured less fitted."""
        return np.asarray(self.accuracies - self.surface.predict(self.profiles.astype(np.float64)))

    def noise(self, accuracies: FloatArray) -> FloatArray:
        """Standard deviation of a measured accuracy around the fit: test set, noise of training and misfit."""
        sampling = accuracies * (1.0 - accuracies) / self.test_sizes
        return np.asarray(np.sqrt(sampling + self.surface.unexplained**2))


def study(*, folder: Path | None = None, progress: Progress | None = None) -> Study:
    """All of it; what was trained before is read from the folder."""
    experiment = Experiment(
        mnist(),
        n_agents=len(MEMBER_NAMES),
        samples=SAMPLES,
        test_share=TEST_SHARE,
        partition=Dirichlet(ALPHA, every_class=False),
        noise=[LabelNoise(WRONG_LABELS), PrivateUpdates(CLIPS, MULTIPLIERS)],
        names=MEMBER_NAMES,
    )
    count, total = (
        0,
        len(SAMPLE_SHARES) * (len(MEMBER_NAMES) + 1) + RANDOM + len(COSTS) * len(MECHANISMS) * (1 + len(MEMBER_NAMES)),
    )

    def trained(models: int) -> None:
        nonlocal count
        count = min(count + models, total)
        if progress is not None:
            progress(count, total)

    game = MeasuredGame(experiment, folder=folder, progress=trained)
    profiles = _profiles(game)
    accuracies = game.many(profiles)
    seen = Observations.of(
        profiles.astype(np.float64),
        accuracies,
        test_sizes=np.broadcast_to(game.test_sizes, profiles.shape),
        names=MEMBER_NAMES,
    )
    surface = fit(seen, signs="any")
    deals = [deal for cost in COSTS for deal in _deals(game, surface, cost)]
    return Study(profiles=profiles, accuracies=accuracies, test_sizes=game.test_sizes, surface=surface, deals=deals)


def _profiles(game: MeasuredGame) -> np.ndarray:
    """Everybody alone and all together with little and with much, and random coalitions."""
    rng = np.random.default_rng(0)
    who = np.vstack([np.eye(game.n_agents), np.ones(game.n_agents)])
    ordered = [nearest_counts(level * game.available * members) for level in SAMPLE_SHARES for members in who]
    drawn: list[np.ndarray] = []
    while len(drawn) < RANDOM:
        members = rng.random(game.n_agents) < 0.6
        if members.any():
            drawn.append(nearest_counts(game.available * members * rng.uniform(0.1, 1.0, game.n_agents) ** 2))
    return np.unique(np.array([*ordered, *drawn]), axis=0)


def _deals(game: MeasuredGame, surface: Fit, cost: float) -> list[RealisedDeal]:
    federation = surface.federation(costs=cost, caps=game.available)
    outlook = outlooks(federation, surface.uncertainty(), MECHANISMS)
    alone = nearest_counts(Standalone().solve(federation).contributions).astype(np.float64)
    predicted = np.array([surface.predict(row)[agent] for agent, row in enumerate(np.diag(alone))])
    realised = np.array([game.many([row])[0][agent] for agent, row in enumerate(np.diag(alone).astype(np.int64))])
    # Without a model of its own an agent is where its curve begins.
    realised = np.where(alone > 0, realised, surface.floors)
    deals = []
    for mechanism in MECHANISMS:
        outcome = mechanism.solve(federation)
        used = nearest_counts(outcome.contributions).astype(np.float64)
        deals.append(
            RealisedDeal(
                cost=cost,
                outcome=outcome,
                outlook=outlook[mechanism.name],
                contributions=used,
                predicted=surface.predict(used),
                realised=game.accuracies(used),
                alone_predicted=predicted - surface.floors - cost * alone,
                alone_realised=realised - surface.floors - cost * alone,
                floors=surface.floors,
            )
        )
    return deals

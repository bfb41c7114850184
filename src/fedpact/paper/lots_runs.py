"""The runs behind the study of data of several kinds: sort everybody's images into lots, fit, make deals, train.

Four members hold MNIST images. Three of them have few images of the rare classes, the fourth has many; of two of them
a part of the labels is wrong. Everybody wants to be right on common and on rare classes. A member's lots are its common
and its rare classes, each cut into tiers by what single images are worth (`fedpact.training.sample_lots`), judged by
clean images that are nobody's. Models of coalitions are trained once with whole members and once with lots, weights
are fitted to each, and deals made on either fit are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedpact.deals import whole_samples
from fedpact.fitting import Fit, Observations, fit
from fedpact.mechanisms import ExternalityMechanism
from fedpact.training import Experiment, Images, LabelNoise, Partition, Training, mnist
from fedpact.training.measured import MeasuredGame
from fedpact.training.sample_lots import find_lots
from fedpact.training.settings import IntArray, nearest_counts
from fedpact.utils.arrays import FloatArray

MEMBER_NAMES = ("Careful", "Hasty", "Careless", "Rare classes")
WRONG_LABELS = (0.1, 0.3, 0.5, 0.3)
COMMON, RARE = tuple(range(7)), (7, 8, 9)
TASKS = {"common": COMMON, "rare": RARE}
SAMPLES, TEST_SHARE = 1000, 0.5
RARE_IMAGES = (180, 180, 180, 500)  # of the samples of each
JUDGES = 400  # clean images that are nobody's
TIERS = 2
MIN_SHARE = 0.05  # of a member's images: fewer are no lot of their own
SEEDS = (0, 1, 2)
RUNS = 60  # models to fit weights to at first, of whole members and of lots
TURNS, NEARBY = 3, 6  # how often models near the deals are added, and how many for each
SPREAD = 0.3  # of contributions near a deal
TRAININGS = 5  # of a deal, with seeds of their own, to see what comes of it
SAMPLE_SHARES = (0.1, 0.3, 1.0)
COSTS = (0.0005, 0.002)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RareClasses(Partition):
    """Rare classes make up a number of each member's images, and the others the rest, evenly."""

    rare: tuple[int, ...] = RARE
    images: tuple[int, ...] = RARE_IMAGES

    def counts(self, sizes: IntArray, classes: IntArray, rng: np.random.Generator, names: Sequence[str]) -> IntArray:
        """As many of every rare class, and of every common one, up to one where they do not divide."""
        among = np.isin(classes, self.rare)
        counts = np.zeros((len(sizes), len(classes)), dtype=np.int64)
        for chosen, total in ((among, np.array(self.images)), (~among, sizes - np.array(self.images))):
            places = np.flatnonzero(chosen)
            for member, amount in enumerate(total):
                counts[member, places] = amount // len(places)
                counts[member, places[: amount % len(places)]] += 1
        return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class RealisedLots:
    """A deal, predicted from a fit and trained.

    Attributes
    ----------
    samples
        (lots,): whole images brought.
    predicted
        (tasks,): accuracies.
    realised
        (trainings, tasks): the same, measured.
    """

    cost: float
    samples: IntArray
    predicted: FloatArray
    realised: FloatArray

    @property
    def spent(self) -> float:
        """What the images cost."""
        return self.cost * float(self.samples.sum())

    @property
    def predicted_welfare(self) -> float:
        """The sum of accuracies over all tasks, less costs."""
        return float(self.predicted.sum()) - self.spent

    @property
    def welfare(self) -> float:
        """The same as trained."""
        return float(self.realised.mean(axis=0).sum()) - self.spent

    @property
    def welfare_error(self) -> float:
        """Its standard error, from one training to the next."""
        return float(self.realised.sum(axis=1).std(ddof=1) / np.sqrt(len(self.realised)))


@dataclass(frozen=True, kw_only=True, eq=False)
class LotsStudy:
    """One dealing of the images.

    Attributes
    ----------
    lot_owners, lot_names, held, wrong
        (lots,): whose each lot is, what it is called, its images, and how many of their labels are wrong.
    task_names
        (tasks,).
    losses
        (lots,): accuracy lost over all tasks, per hundred images, where everybody brings everything but the lot.
    whole, by_lots
        The fits to models of whole members, and of lots.
    deals
        By cost: the deal without lots, and the one with lots.
    """

    lot_owners: NDArray[np.intp]
    lot_names: tuple[str, ...]
    held: IntArray
    wrong: IntArray
    task_names: tuple[str, ...]
    losses: FloatArray
    whole: Fit
    by_lots: Fit
    deals: dict[float, tuple[RealisedLots, RealisedLots]]


def studies(*, folder: Path | None = None, progress: Progress | None = None) -> list[LotsStudy]:
    """One for every seed; what was trained before is read from the folder."""
    count, total = 0, len(SEEDS) * 2 * (RUNS + len(COSTS) * (TURNS * NEARBY + TRAININGS))

    def trained(models: int) -> None:
        nonlocal count
        count = min(count + models, total)
        if progress is not None:
            progress(count, total)

    return [_study(seed, folder, trained) for seed in SEEDS]


def _study(seed: int, folder: Path | None, trained: Callable[[int], None]) -> LotsStudy:
    images = mnist()
    experiment = Experiment(
        images,
        n_agents=len(MEMBER_NAMES),
        samples=SAMPLES,
        test_share=TEST_SHARE,
        partition=RareClasses(),
        noise=LabelNoise(WRONG_LABELS),
        names=MEMBER_NAMES,
        training=Training(local_epochs=2),
        seed=seed,
    )
    tested = experiment.with_tasks(TASKS)
    lots, lot_names = _find(experiment, _judges(images, experiment, seed))
    sorted_images = tested.with_lots(lots, lot_names)
    rng = np.random.default_rng(seed)
    fits, games = [], []
    for chosen in (tested, sorted_images):
        game = MeasuredGame(chosen, folder=folder, progress=trained)
        fits.append(_fit(game, rng))
        games.append(game)
    clean = replace(experiment, noise=()).holdings
    wrong = [held.labels != own.labels for held, own in zip(experiment.holdings, clean, strict=True)]
    owned = sorted_images.ownership
    return LotsStudy(
        lot_owners=owned.lot_owners,
        lot_names=owned.lot_names,
        held=sorted_images.available,
        wrong=np.concatenate(
            [
                np.bincount(own, weights=flags, minlength=len(called)).astype(np.int64)
                for own, flags, called in zip(lots, wrong, lot_names, strict=True)
            ]
        ),
        task_names=owned.task_names,
        losses=_losses(games[1], sorted_images.available),
        whole=fits[0],
        by_lots=fits[1],
        deals={
            cost: (
                _deal(games[0], fits[0], cost, folder, trained),
                _deal(games[1], fits[1], cost, folder, trained),
            )
            for cost in COSTS
        },
    )


def _judges(images: Images, experiment: Experiment, seed: int) -> tuple[FloatArray, NDArray[np.int32]]:
    """Clean images that nobody holds, scaled as everybody's are."""
    deviation = float(images.pixels.std(dtype=np.float64))
    pixels = np.round(images.pixels * 255).astype(np.uint8)
    held = {
        np.round(row * deviation * 255).astype(np.uint8).tobytes()
        for own in experiment.holdings
        for part in (own.pixels, own.test_pixels)
        for row in part
    }
    free = np.array([place for place, row in enumerate(pixels) if row.tobytes() not in held])
    rng = np.random.default_rng(seed)
    piles = [free[images.labels[free] == each] for each in range(images.n_classes)]
    chosen = np.concatenate([rng.permutation(pile)[: JUDGES // images.n_classes] for pile in piles])
    return images.pixels[chosen] / deviation, images.labels[chosen]


def _find(
    experiment: Experiment, judges: tuple[FloatArray, NDArray[np.int32]]
) -> tuple[list[NDArray[np.intp]], list[tuple[str, ...]]]:
    """Per member: the lot of each of its images, and the names of its lots."""
    lots, names = [], []
    for own in experiment.holdings:
        found = find_lots(own.pixels, own.labels, *judges, tiers=TIERS)
        kinds = np.isin(own.labels, RARE)  # by the label an image has, right or wrong
        every = kinds * len(found.names) + found.lots
        few = np.flatnonzero(np.bincount(every) < MIN_SHARE * len(every))
        every[np.isin(every, few)] -= found.lots[np.isin(every, few)]  # into the best tier of its kind
        called = [f"{task}, {tier}" for task in TASKS for tier in found.names]
        present = np.unique(every)
        lots.append(np.searchsorted(present, every))
        names.append(tuple(called[place] for place in present))
    return lots, names


def _profiles(experiment: Experiment, rng: np.random.Generator) -> IntArray:
    """Every lot alone and all but every lot, all together with little and with much, and random coalitions of lots."""
    n_lots, available = experiment.n_lots, experiment.available
    ordered = [nearest_counts(share * available) for share in SAMPLE_SHARES]
    ordered += list(available * (1 - np.eye(n_lots, dtype=np.int64)))
    drawn = {tuple(profile): None for profile in ordered}
    while len(drawn) < RUNS:
        members = rng.random(n_lots) < 0.6
        if members.any():
            amounts = available * members * rng.uniform(0.1, 1.0, n_lots)
            drawn[tuple(np.maximum(nearest_counts(amounts), members))] = None
    return np.array(list(drawn)[:RUNS])


def _fit(game: MeasuredGame, rng: np.random.Generator) -> Fit:
    """Weights from models all over the place, then from more of them near the deals that these lead to."""
    profiles = _profiles(game.experiment, rng)
    for _ in range(TURNS):
        surface = fit(_observations(game, profiles), signs="any")
        near = [_near(_samples(game, surface, cost), game.experiment.available, rng) for cost in COSTS]
        profiles = np.unique(np.concatenate([profiles, *near]), axis=0)
    return fit(_observations(game, profiles), signs="any")


def _near(samples: IntArray, available: IntArray, rng: np.random.Generator) -> IntArray:
    """A deal's contributions, and some around them: more or less of each lot, and a part of the lots left at home."""
    shares = samples / available + rng.uniform(-SPREAD, SPREAD, (NEARBY - 1, len(available)))
    return np.vstack([samples, nearest_counts(np.clip(shares, 0.0, 1.0) * available)])


def _observations(game: MeasuredGame, profiles: IntArray) -> Observations:
    experiment, accuracies = game.experiment, game.many(profiles)
    return Observations.of(
        profiles.astype(np.float64),
        accuracies,
        test_sizes=np.broadcast_to(experiment.test_sizes, accuracies.shape),
        names=MEMBER_NAMES,
        **experiment.ownership._asdict(),
    )


def _losses(game: MeasuredGame, available: IntArray) -> FloatArray:
    everything, *without = game.many([available, *(available * (1 - np.eye(len(available), dtype=np.int64)))])
    return np.array([100.0 * (everything - row).sum() / held for row, held in zip(without, available, strict=True)])


def _samples(game: MeasuredGame, surface: Fit, cost: float) -> IntArray:
    """Whole images brought at the welfare optimum of the fit."""
    outcome = ExternalityMechanism().solve(surface.federation(costs=cost, caps=game.available))
    return whole_samples(outcome.contributions)


def _deal(
    game: MeasuredGame, surface: Fit, cost: float, folder: Path | None, trained: Callable[[int], None]
) -> RealisedLots:
    samples = _samples(game, surface, cost)
    again = [
        MeasuredGame(game.experiment.with_training_seed(1000 + place), folder=folder, progress=trained)
        for place in range(TRAININGS)
    ]
    return RealisedLots(
        cost=cost,
        samples=samples,
        predicted=surface.predict(samples.astype(np.float64)),
        realised=np.array([each.many([samples])[0] for each in again]),
    )

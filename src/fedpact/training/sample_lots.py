"""Lots from single samples: values of samples, cut into tiers, and the tiers put to the test by training without them.

The last tier holds the samples whose value is zero or less: they mislead more often than they help. The others are cut
where their values differ most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.sample_values import (
    NEIGHBOURS,
    checked_samples_and_labels,
    cut_into_tiers,
    even_shares,
    knn_shapley,
)
from fedpact.training.partitions import Holdings
from fedpact.training.settings import Training, require_jax, whole_number
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

TIER_NAMES = {1: ("all",), 2: ("good", "poor"), 3: ("good", "fair", "poor")}
REPEATS = 3  # trainings without each tier


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleLots:
    """Samples cut into lots.

    Attributes
    ----------
    names
        Of the lots, the best tier first.
    lots
        (N,): the lot of each sample, an index of the names.
    values
        (N,): what each sample is worth in even shares of its class, about 1 for a useful one, below 0 if it harms.
    """

    names: Sequence[str]
    lots: NDArray[np.intp]
    values: FloatArray

    @property
    def sizes(self) -> NDArray[np.intp]:
        """(lots,): how many samples each holds."""
        return np.bincount(self.lots, minlength=len(self.names))

    @property
    def mean_values(self) -> FloatArray:
        """(lots,): the mean value of the samples in each."""
        return np.asarray(np.bincount(self.lots, self.values, len(self.names)) / np.maximum(self.sizes, 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class LeftOut:
    """What training without a lot does, on average over some trainings.

    Attributes
    ----------
    accuracy
        With all samples.
    without
        (lots,): with all but those of a lot.
    noise
        Standard error of a difference between two of these.
    """

    accuracy: float
    without: FloatArray
    noise: float
    sizes: NDArray[np.intp]

    @property
    def losses(self) -> FloatArray:
        """(lots,): accuracy lost per hundred samples left out; below zero if the model is better without."""
        return np.asarray(100.0 * (self.accuracy - self.without) / np.maximum(self.sizes, 1))

    @property
    def agrees(self) -> bool:
        """Whether each lot costs at least as much accuracy per sample as the next, give or take twice the noise."""
        slack = 200.0 * self.noise / np.maximum(self.sizes, 1)
        return bool((np.diff(self.losses) <= slack[1:] + slack[:-1]).all())


def find_lots(
    features: ArrayLike,
    labels: ArrayLike,
    test_features: ArrayLike,
    test_labels: ArrayLike,
    *,
    tiers: int = 3,
    by_label: bool = False,
    neighbours: int = NEIGHBOURS,
) -> SampleLots:
    """Cut samples into lots by what each is worth for clean test samples: its Shapley value of votes by neighbours.

    Parameters
    ----------
    features, labels
        (N, d) numbers and (N,) labels, some of which may be wrong.
    test_features, test_labels
        Samples to judge by, whose labels are right.
    tiers
        How many at most.
    by_label
        Whether each label has tiers of its own.
    neighbours
        How many vote.
    """
    most = whole_number("tiers", tiers, least=1)
    rows, own, tests, wanted = _checked(features, labels, test_features, test_labels)
    values = even_shares(knn_shapley(rows, own, tests, wanted, neighbours=neighbours), own, wanted)
    groups = np.unique(own) if by_label else [None]
    names: list[str] = []
    lots = np.zeros(len(rows), dtype=np.intp)
    for group in groups:
        chosen = np.ones(len(rows), dtype=bool) if group is None else own == group
        found = _tiers(values[chosen], most)
        present = np.unique(found)
        lots[chosen] = len(names) + np.searchsorted(present, found)
        called = TIER_NAMES.get(most) or [f"tier {tier + 1}" for tier in range(most)]
        names += [called[tier] if group is None else f"{group} {called[tier]}" for tier in present]
    return SampleLots(names=tuple(names), lots=lots, values=values)


def leave_lots_out(
    found: SampleLots,
    features: ArrayLike,
    labels: ArrayLike,
    test_features: ArrayLike,
    test_labels: ArrayLike,
    *,
    training: Training | None = None,
    repeats: int = REPEATS,
    progress: Callable[[str], None] | None = None,
) -> LeftOut:
    """Train with all samples and without each lot, several times over, and test; needs JAX."""
    require_jax()
    from fedpact.training.engine import Engine  # noqa: PLC0415 - JAX takes a second to import

    rows, own, tests, wanted = _checked(features, labels, test_features, test_labels)
    samples, n_classes = _pooled(rows, own, tests, wanted, found.lots)
    profiles = found.sizes * np.vstack([np.ones(len(found.names)), 1 - np.eye(len(found.names))]).astype(np.int64)
    scores = np.full((whole_number("repeats", repeats, least=2), len(profiles)), np.nan)
    trained = np.flatnonzero(profiles.any(axis=1))
    for seed in range(len(scores)):
        if progress is not None:
            progress(f"training without each lot, {seed + 1} of {len(scores)}")
        for index, (accuracy,) in Engine([samples], n_classes, training or Training(), seed, None).final(
            profiles[trained]
        ):
            scores[seed, trained[index]] = accuracy
    apart = scores[:, 1:] - scores[:, :1]
    return LeftOut(
        accuracy=float(scores[:, 0].mean()),
        without=read_only_copy(scores[:, 1:].mean(axis=0)),
        noise=float(np.sqrt(np.nanmean(apart.var(axis=0, ddof=1)) / len(scores))),
        sizes=found.sizes,
    )


def _checked(features: ArrayLike, labels: ArrayLike, test_features: ArrayLike, test_labels: ArrayLike) -> Any:
    rows, own = checked_samples_and_labels("training", features, labels)
    tests, wanted = checked_samples_and_labels("test", test_features, test_labels)
    if rows.shape[1] != tests.shape[1]:
        raise InvalidInput(f"test features must have {rows.shape[1]} columns like the others, got {tests.shape[1]}")
    return rows, own, tests, wanted


def _pooled(rows: FloatArray, own: Any, tests: FloatArray, wanted: Any, lots: Any) -> tuple[Holdings, int]:
    """The samples as those of one agent, features over their standard deviation, and the number of classes."""
    classes, labels = np.unique(np.concatenate([own, wanted]), return_inverse=True)
    deviation = float(np.std(rows)) or 1.0
    held = Holdings(
        pixels=(rows / deviation).astype(np.float32),
        labels=labels[: len(own)].astype(np.int32),
        test_pixels=(tests / deviation).astype(np.float32),
        test_labels=labels[len(own) :].astype(np.int32),
        lots=lots.astype(np.int32),
        tasks=np.zeros(len(wanted), dtype=np.int32),
    )
    return held, len(classes)


def _tiers(values: FloatArray, most: int) -> NDArray[np.intp]:
    """The last tier for values of zero or less, the others cut where they differ most."""
    useful = values > 0
    if most == 1 or not useful.any() or useful.all():
        return cut_into_tiers(values, max(most - 1, 1)) if useful.any() else np.full(len(values), most - 1)
    tiers = np.full(len(values), most - 1, dtype=np.intp)
    tiers[useful] = cut_into_tiers(values[useful], most - 1)
    return tiers

"""Lots from single samples: values of samples, cut into tiers, and the tiers put to the test by models without them.

The last tier holds the samples whose value is zero or less: they mislead more often than they help. The others are cut
where their values differ most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.fitting.pilots.estimators import require_sklearn
from fedpact.fitting.sample_values import (
    NEIGHBOURS,
    checked_samples_and_labels,
    cut_into_tiers,
    even_shares,
    knn_shapley,
)
from fedpact.training.settings import whole_number
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput

TIER_NAMES = {1: ("all",), 2: ("good", "poor"), 3: ("good", "fair", "poor")}
MAX_STEPS = 1000  # of a logistic regression


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
    """What a model without a lot does.

    Attributes
    ----------
    accuracy
        With all samples.
    without
        (lots,): with all but those of a lot; NaN where there are no others.
    noise
        Standard error of a difference between two of these, by the size of the test set.
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
    found: SampleLots, features: ArrayLike, labels: ArrayLike, test_features: ArrayLike, test_labels: ArrayLike
) -> LeftOut:
    """Fit a logistic regression to all samples and to all but those of each lot, and test; needs scikit-learn."""
    require_sklearn()
    rows, own, tests, wanted = _checked(features, labels, test_features, test_labels)
    every = [found.lots >= 0, *(found.lots != lot for lot in range(len(found.names)))]
    right = np.array([_right_answers(rows[kept], own[kept], tests, wanted) for kept in every])
    apart = right[1:][[kept.any() for kept in every[1:]]] - right[0]
    return LeftOut(
        accuracy=float(right[0].mean()),
        without=read_only_copy(right[1:].mean(axis=1)),
        noise=float(np.sqrt(apart.var(axis=1).mean() / len(wanted))) if len(apart) else 0.0,
        sizes=found.sizes,
    )


def _right_answers(rows: FloatArray, own: Any, tests: FloatArray, wanted: Any) -> FloatArray:
    """Which tests a model of some samples gets right; NaN where there are none."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - optional dependency
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    classes = np.unique(own)
    if classes.size < 2:
        return (classes == wanted).astype(np.float64) if classes.size else np.full(len(wanted), np.nan)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_STEPS)).fit(rows, own)
    return np.asarray(model.predict(tests) == wanted, dtype=np.float64)


def _checked(features: ArrayLike, labels: ArrayLike, test_features: ArrayLike, test_labels: ArrayLike) -> Any:
    rows, own = checked_samples_and_labels("training", features, labels)
    tests, wanted = checked_samples_and_labels("test", test_features, test_labels)
    if rows.shape[1] != tests.shape[1]:
        raise InvalidInput(f"test features must have {rows.shape[1]} columns like the others, got {tests.shape[1]}")
    return rows, own, tests, wanted


def _tiers(values: FloatArray, most: int) -> NDArray[np.intp]:
    """The last tier for values of zero or less, the others cut where they differ most."""
    useful = values > 0
    if most == 1 or not useful.any() or useful.all():
        return cut_into_tiers(values, max(most - 1, 1)) if useful.any() else np.full(len(values), most - 1)
    tiers = np.full(len(values), most - 1, dtype=np.intp)
    tiers[useful] = cut_into_tiers(values[useful], most - 1)
    return tiers

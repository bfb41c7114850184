"""Lots from single samples, where nobody has named any: what each sample is worth, and tiers of these values.

**KNN-Shapley.** The value of a set of samples is how well the k nearest of them vote on test samples,

    v(S) = mean over tests of  1/k  sum over the k nearest i in S of  1[label_i = label of the test].

Its Shapley values have a closed form (Jia et al. 2019, "Efficient task-specific data valuation for nearest neighbor
algorithms", theorem 1): with the samples sorted by distance from a test, the farthest is worth 1[right]/N, and each
nearer one as much as the next plus (1[right] - 1[next right]) / k * min(k, i) / i. They cost one sort per test sample.
It is written here since pyDVL, which has it too, does not install beside NumPy 2.

Classes differ in what they are worth, since tests hold more of one than of another. So that tiers say something of
quality and not of rarity, a value is counted in even shares of its class: 1 if the sample does what an average sample
of its label would do if all of them voted right.

**Tiers.** The last holds the samples whose value is zero or less: they mislead more often than they help. The others
are cut where that leaves the least sum of squares within tiers, one cut after the other (a regression tree).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray, read_only_copy, whole_number
from fedpact.utils.errors import InvalidInput, MissingExtra

NEIGHBOURS = 5
TESTS_AT_ONCE = 64
MAX_SHARES = 2.0  # even shares beyond which a value is as good, or as bad, as any
TIER_NAMES = {1: ("all",), 2: ("good", "poor"), 3: ("good", "fair", "poor")}
MAX_STEPS = 1000  # of a logistic regression


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples to cut into lots, and others with right labels to judge them by."""

    features: Any  # (N, d) numbers
    labels: Any  # (N,), some of which may be wrong
    test_features: Any
    test_labels: Any

    def __post_init__(self) -> None:
        for what, prefix in (("training", ""), ("test", "test_")):
            try:
                rows = np.array(getattr(self, f"{prefix}features"), dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"{what} features must be a matrix of numbers, a row per sample") from error
            labels = np.asarray(getattr(self, f"{prefix}labels"))
            if rows.ndim != 2 or not np.isfinite(rows).all() or labels.shape != rows.shape[:1]:
                raise InvalidInput(
                    f"{what} features must be a matrix of finite numbers with a label per row, got shapes "
                    f"{rows.shape} and {labels.shape}"
                )
            object.__setattr__(self, f"{prefix}features", rows)
            object.__setattr__(self, f"{prefix}labels", labels)
        columns = self.features.shape[1], self.test_features.shape[1]
        if columns[0] != columns[1]:
            raise InvalidInput(f"test features must have {columns[0]} columns like the others, got {columns[1]}")


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleLots:
    """Samples cut into lots."""

    names: Sequence[str]  # of the lots, the best tier first
    lots: NDArray[np.intp]  # (N,): the lot of each sample, an index of the names
    values: FloatArray  # (N,): in even shares of the class, about 1 for a useful sample, below 0 if it harms

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
    """What a model without a lot does."""

    accuracy: float  # with all samples
    without: FloatArray  # (lots,): with all but those of a lot; NaN where there are no others
    noise: float  # standard error of a difference between two of these, by the size of the test set
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


def find_lots(samples: Samples, *, tiers: int = 3, by_label: bool = False, neighbours: int = NEIGHBOURS) -> SampleLots:
    """Cut samples into at most so many tiers by what each is worth; with `by_label` every label has its own tiers."""
    most = whole_number("tiers", tiers, least=1)
    values = even_shares(knn_shapley(samples, neighbours=neighbours), samples)
    called = TIER_NAMES.get(most) or [f"tier {tier + 1}" for tier in range(most)]
    names: list[str] = []
    lots = np.zeros(len(values), dtype=np.intp)
    for label in np.unique(samples.labels) if by_label else [None]:
        chosen = np.ones(len(values), dtype=bool) if label is None else samples.labels == label
        found = _tiers(values[chosen], most)
        present = np.unique(found)
        lots[chosen] = len(names) + np.searchsorted(present, found)
        names += [called[tier] if label is None else f"{label} {called[tier]}" for tier in present]
    return SampleLots(names=tuple(names), lots=lots, values=values)


def knn_shapley(samples: Samples, *, neighbours: int = NEIGHBOURS) -> FloatArray:
    """(N,): the Shapley value of every sample for votes of nearest neighbours on the tests, in closed form.

    They add up to the accuracy of the votes. The cost is O(tests N (d + log N)).

    Examples
    --------
    >>> samples = Samples(features=[[0.0], [1.0], [5.0]], labels=[0, 1, 0], test_features=[[0.2]], test_labels=[0])
    >>> knn_shapley(samples, neighbours=1).round(3).tolist()
    [0.833, -0.167, 0.333]
    """
    k, rows, tests = whole_number("neighbours", neighbours, least=1), samples.features, samples.test_features
    count = len(rows)
    ranks = np.arange(1, count)
    steps = np.minimum(k, ranks) / (k * ranks)
    squares = (rows**2).sum(axis=1)
    total = np.zeros(count)
    for first in range(0, len(tests), TESTS_AT_ONCE):
        some = slice(first, first + TESTS_AT_ONCE)
        order = np.argsort(squares - 2.0 * tests[some] @ rows.T, axis=1, kind="stable")
        right = (samples.labels[order] == samples.test_labels[some, None]).astype(np.float64)
        values = np.empty_like(right)
        values[:, -1] = right[:, -1] * min(k, count) / (k * count)
        gains = (right[:, :-1] - right[:, 1:]) * steps
        values[:, :-1] = values[:, -1:] + gains[:, ::-1].cumsum(axis=1)[:, ::-1]
        np.add.at(total, order, values)
    return read_only_copy(total / len(tests))


def even_shares(values: FloatArray, samples: Samples) -> FloatArray:
    """Values in even shares of their class: over the part of tests with the label, per sample that has it.

    Labels that no test has are worth nothing: their values are taken as they are, over an even share of all.
    """
    shares = np.empty(len(values))
    kinds = np.unique(samples.labels)
    for label in kinds:
        alike = samples.labels == label
        tested = float((samples.test_labels == label).mean()) or 1.0 / len(kinds)
        shares[alike] = values[alike] * alike.sum() / tested
    return read_only_copy(shares)


def _tiers(values: FloatArray, most: int) -> NDArray[np.intp]:
    """The tier of each value, 0 for the best; the last is for values of zero or less."""
    try:
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("scikit-learn", "pilot") from error
    tiers = np.full(len(values), most - 1, dtype=np.intp)
    useful = values > 0
    if most < 3:
        tiers[useful] = 0
    elif useful.any():
        limited = np.minimum(values[useful], MAX_SHARES)
        means = DecisionTreeRegressor(max_leaf_nodes=most - 1, random_state=0).fit(limited[:, None], limited)
        _, tiers[useful] = np.unique(-means.predict(limited[:, None]), return_inverse=True)
    return tiers


def leave_lots_out(found: SampleLots, samples: Samples) -> LeftOut:
    """Fit a logistic regression to all samples and to all but those of each lot, and test."""
    every = [found.lots >= 0, *(found.lots != lot for lot in range(len(found.names)))]
    right = np.array([_right_answers(samples, kept) for kept in every])
    apart = right[1:][[kept.any() for kept in every[1:]]] - right[0]
    return LeftOut(
        accuracy=float(right[0].mean()),
        without=read_only_copy(right[1:].mean(axis=1)),
        noise=float(np.sqrt(apart.var(axis=1).mean() / right.shape[1])) if len(apart) else 0.0,
        sizes=found.sizes,
    )


def _right_answers(samples: Samples, kept: NDArray[np.bool_]) -> FloatArray:
    """Which tests a model of some samples gets right; NaN where there are none."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - optional dependency
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    own, wanted = samples.labels[kept], samples.test_labels
    classes = np.unique(own)
    if classes.size < 2:
        return (classes == wanted).astype(np.float64) if classes.size else np.full(len(wanted), np.nan)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_STEPS)).fit(samples.features[kept], own)
    return np.asarray(model.predict(samples.test_features) == wanted, dtype=np.float64)

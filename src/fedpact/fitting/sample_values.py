"""What single samples are worth, and tiers of them: where lots come from if nobody has named any.

**KNN-Shapley.** The value of a set of samples is how well the k nearest of them vote on test samples,

    v(S) = mean over tests of  1/k  sum over the k nearest i in S of  1[label_i = label of the test].

Its Shapley values have a closed form (Jia et al. 2019, "Efficient task-specific data valuation for nearest neighbor
algorithms", theorem 1): with the samples sorted by distance from a test, the farthest is worth 1[right]/N, and each
nearer one as much as the next plus (1[right] - 1[next right]) / k * min(k, i) / i. They cost one sort per test sample.
It is written here since pyDVL, which has it too, does not install beside NumPy 2.

Classes differ in what they are worth, since tests hold more of one than of another. So that tiers say something of
quality and not of rarity, a value is counted in even shares of its class: 1 if the sample does what an average sample
of its label would do if all of them voted right.

**Tiers** are cut where the values leave the widest gaps: the cut with the least sum of squares within tiers (Fisher
1958, natural breaks), exact by dynamic programming.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

NEIGHBOURS = 5
TESTS_AT_ONCE = 64
MAX_BREAK_POINTS = 1000  # places where tiers may be cut; of more values, every so many-th
MAX_SHARES = 2.0  # even shares beyond which a value is as good, or as bad, as any


def checked_samples_and_labels(what: str, features: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
    """Samples as rows of finite numbers, and a label for each."""
    try:
        rows = np.array(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} features must be a matrix of numbers, got {short_repr(features)}") from error
    if rows.ndim != 2 or not rows.size:
        raise InvalidInput(f"{what} features must be a matrix with a row per sample, got shape {rows.shape}")
    for row, column in np.argwhere(~np.isfinite(rows))[:1]:
        raise InvalidInput(f"{what} features[{row}, {column}] must be finite, got {rows[row, column]:g}")
    own = np.asarray(labels)
    if own.shape != (len(rows),):
        raise InvalidInput(f"{what} labels must be {len(rows)}, one per sample, got shape {own.shape}")
    return rows, own


def knn_shapley(
    features: ArrayLike,
    labels: ArrayLike,
    test_features: ArrayLike,
    test_labels: ArrayLike,
    *,
    neighbours: int = NEIGHBOURS,
) -> FloatArray:
    """The Shapley value of every sample for votes of nearest neighbours on test samples, in closed form.

    Parameters
    ----------
    features, labels
        (N, d) numbers and (N,) labels of the samples to value.
    test_features, test_labels
        Of the samples they are tested on, clean ones.
    neighbours
        k, how many vote.

    Returns
    -------
    FloatArray
        (N,), adding up to the accuracy of the votes. The cost is O(tests N (d + log N)).

    Examples
    --------
    >>> knn_shapley([[0.0], [1.0], [5.0]], [0, 1, 0], [[0.2]], [0], neighbours=1).round(3).tolist()
    [0.833, -0.167, 0.333]
    """
    rows, own = checked_samples_and_labels("training", features, labels)
    tests, wanted = checked_samples_and_labels("test", test_features, test_labels)
    if rows.shape[1] != tests.shape[1]:
        raise InvalidInput(f"test features must have {rows.shape[1]} columns like the others, got {tests.shape[1]}")
    if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < 1:
        raise InvalidInput(f"neighbours must be a whole number of at least 1, got {short_repr(neighbours)}")
    count = len(rows)
    places = np.arange(1, count)
    steps = np.minimum(neighbours, places) / (neighbours * places)
    squares = (rows**2).sum(axis=1)
    total = np.zeros(count)
    for first in range(0, len(tests), TESTS_AT_ONCE):
        some = tests[first : first + TESTS_AT_ONCE]
        order = np.argsort(squares - 2.0 * some @ rows.T, axis=1, kind="stable")
        right = (own[order] == wanted[first : first + TESTS_AT_ONCE, None]).astype(np.float64)
        values = np.empty_like(right)
        values[:, -1] = right[:, -1] * min(neighbours, count) / (neighbours * count)
        gains = (right[:, :-1] - right[:, 1:]) * steps
        values[:, :-1] = values[:, -1:] + gains[:, ::-1].cumsum(axis=1)[:, ::-1]
        np.add.at(total, order, values)
    return read_only_copy(total / len(tests))


def even_shares(values: ArrayLike, labels: ArrayLike, test_labels: ArrayLike) -> FloatArray:
    """Values in even shares of their class: over the part of tests with the label, per sample that has it.

    Labels that no test has are worth nothing: their values are taken as they are, over an even share of all.
    """
    numbers, own, wanted = np.asarray(values, dtype=np.float64), np.asarray(labels), np.asarray(test_labels)
    shares = np.empty(len(numbers))
    for label in np.unique(own):
        alike = own == label
        tested = float((wanted == label).mean()) or 1.0 / len(np.unique(own))
        shares[alike] = numbers[alike] * alike.sum() / tested
    return read_only_copy(shares)


def cut_into_tiers(values: ArrayLike, count: int) -> NDArray[np.intp]:
    """(N,): the tier of each value, 0 for the best, cut where they differ most; fewer tiers if values are alike.

    Examples
    --------
    >>> cut_into_tiers([0.9, 1.0, -0.2, 0.95, 0.1], 2).tolist()
    [0, 0, 1, 0, 1]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInput(f"tiers must be a whole number of at least 1, got {short_repr(count)}")
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        raise InvalidInput(f"values must be finite numbers, one per sample, got shape {numbers.shape}")
    limited = np.clip(numbers, -MAX_SHARES, MAX_SHARES) if np.abs(numbers).max() > MAX_SHARES else numbers
    points, sizes = np.unique(limited, return_counts=True)
    if points.size > MAX_BREAK_POINTS:
        groups = np.linspace(0, points.size, MAX_BREAK_POINTS + 1).astype(np.intp)[:-1]
        weights = np.add.reduceat(sizes, groups)
        points = np.add.reduceat(points * sizes, groups) / weights
        sizes = weights
    starts = _natural_breaks(points, sizes.astype(np.float64), min(count, points.size))
    bounds = (points[starts[1:]] + points[[start - 1 for start in starts[1:]]]) / 2.0
    return np.asarray(len(bounds) - np.searchsorted(bounds, limited, side="right"), dtype=np.intp)


def _natural_breaks(points: FloatArray, sizes: FloatArray, count: int) -> list[int]:
    """Where each of `count` runs of sorted points begins, with the least sum of squares within them."""
    sums = [np.append(0.0, np.cumsum(part)) for part in (sizes, sizes * points, sizes * points**2)]
    weight, first, second = (part - part[:, None] for part in sums)  # of the points from the row up to the column
    within = np.where(weight > 0.0, second - first**2 / np.where(weight > 0.0, weight, 1.0), np.inf)
    best, chosen = within[0], []
    for _ in range(1, count):
        tried = best[:, None] + within
        chosen.append(tried.argmin(axis=0))
        best = tried.min(axis=0)
    starts, end = [], points.size
    for begun in reversed(chosen):
        end = int(begun[end])
        starts.append(end)
    return [0, *reversed(starts)]

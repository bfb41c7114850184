"""Values of single samples: the closed form against enumeration, shares of classes, tiers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import fedpact as fp
from fedpact.fitting.sample_values import cut_into_tiers, even_shares, knn_shapley


def enumerated(rows: np.ndarray, labels: np.ndarray, tests: np.ndarray, wanted: np.ndarray, k: int) -> np.ndarray:
    """Mean gains over all orders in which the samples may come."""

    def votes(chosen: list[int]) -> float:
        right = 0
        for test, label in zip(tests, wanted, strict=True):
            nearest = sorted(chosen, key=lambda place: ((rows[place] - test) ** 2).sum())[:k]
            right += sum(labels[place] == label for place in nearest)
        return right / k / len(tests)

    values, orders = np.zeros(len(rows)), list(permutations(range(len(rows))))
    for order in orders:
        for place, sample in enumerate(order):
            values[sample] += votes(list(order[: place + 1])) - votes(list(order[:place]))
    return values / len(orders)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_the_closed_form_is_that_of_enumeration(k: int) -> None:
    rng = np.random.default_rng(k)
    rows, tests = rng.standard_normal((5, 2)), rng.standard_normal((3, 2))
    labels, wanted = rng.integers(0, 2, 5), rng.integers(0, 2, 3)
    found = knn_shapley(rows, labels, tests, wanted, neighbours=k)
    np.testing.assert_allclose(found, enumerated(rows, labels, tests, wanted, k), atol=1e-12)


def test_rare_classes_count_as_much_as_common_ones() -> None:
    labels, wanted = np.repeat([0, 1], [90, 10]), np.repeat([0, 1], [45, 5])
    values = np.where(labels == 0, 0.9 / 90, 0.1 / 10)  # all vote right
    np.testing.assert_allclose(even_shares(values, labels, wanted), 1.0)


def test_tiers_are_cut_with_the_least_squares_within() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.0, 1.0, 14)
    tiers = cut_into_tiers(values, 3)
    ordered = np.sort(values)[::-1]

    def within(first: int, second: int) -> float:
        return sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(ordered, [first, second]))

    best = min(within(first, second) for first in range(1, 13) for second in range(first + 1, 14))
    found = sum(float(((values[tiers == tier] - values[tiers == tier].mean()) ** 2).sum()) for tier in range(3))
    assert found == pytest.approx(best, rel=1e-9)
    assert values[tiers == 0].min() > values[tiers == 1].max() > values[tiers == 2].max()


def test_bad_input_is_refused_in_words() -> None:
    with pytest.raises(fp.InvalidInput, match=r"test features must have 2 columns like the others, got 1"):
        knn_shapley([[0.0, 1.0]], [0], [[0.0]], [0])
    with pytest.raises(fp.InvalidInput, match=r"training features\[0, 1\] must be finite, got nan"):
        knn_shapley([[0.0, np.nan]], [0], [[0.0, 1.0]], [0])
    with pytest.raises(fp.InvalidInput, match=r"test labels must be 1, one per sample, got shape \(2,\)"):
        knn_shapley([[0.0, 1.0]], [0], [[0.0, 1.0]], [0, 1])

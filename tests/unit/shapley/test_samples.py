"""Lots from single samples: wrong labels end in the last tier, and training without the tiers agrees."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.cli.lots import read_samples
from fedpact.shapley.samples import (
    SampleLots,
    Samples,
    even_shares,
    find_lots,
    knn_shapley,
    leave_lots_out,
)


def blobs(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.random.default_rng(9).standard_normal((3, 6)) * 1.2
    return centres[labels] + rng.standard_normal((count, 6)), labels


def samples_of(features: object, labels: object, test_features: object, test_labels: object) -> Samples:
    return Samples(features=features, labels=labels, test_features=test_features, test_labels=test_labels)


def spoiled_samples() -> tuple[Samples, np.ndarray]:
    features, labels = blobs(0, 240)
    wrong = np.arange(240) < 70
    return samples_of(features, np.where(wrong, (labels + 1) % 3, labels), *blobs(1, 150)), wrong


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
    found = knn_shapley(samples_of(rows, labels, tests, wanted), neighbours=k)
    np.testing.assert_allclose(found, enumerated(rows, labels, tests, wanted, k), atol=1e-12)


def test_rare_classes_count_as_much_as_common_ones() -> None:
    labels, wanted = np.repeat([0, 1], [90, 10]), np.repeat([0, 1], [45, 5])
    values = np.where(labels == 0, 0.9 / 90, 0.1 / 10)  # all vote right
    samples = samples_of(np.zeros((100, 1)), labels, np.zeros((50, 1)), wanted)
    np.testing.assert_allclose(even_shares(values, samples), 1.0)


def test_bad_input_is_refused_in_words() -> None:
    with pytest.raises(fp.InvalidInput, match=r"test features must have 2 columns like the others, got 1"):
        samples_of([[0.0, 1.0]], [0], [[0.0]], [0])
    with pytest.raises(fp.InvalidInput, match="training features must be a matrix of finite numbers"):
        samples_of([[0.0, np.nan]], [0], [[0.0, 1.0]], [0])
    with pytest.raises(fp.InvalidInput, match=r"test features must be .* with a label per row"):
        samples_of([[0.0, 1.0]], [0], [[0.0, 1.0]], [0, 1])


def test_wrong_labels_end_in_the_last_tier() -> None:
    samples, wrong = spoiled_samples()
    found = find_lots(samples)
    assert found.names == ("good", "fair", "poor") and found.sizes.sum() == 240
    assert wrong[found.lots == 2].mean() > 0.8
    assert wrong[found.lots == 0].mean() < 0.1
    assert (np.diff(found.mean_values) < 0).all()
    apart = find_lots(samples, by_label=True, tiers=2)
    assert apart.names == ("0 good", "0 poor", "1 good", "1 poor", "2 good", "2 poor")


def test_the_order_of_the_tiers_is_that_of_leaving_them_out() -> None:
    samples, _ = spoiled_samples()
    found = find_lots(samples)
    tested = samples_of(samples.features, samples.labels, *blobs(2, 600))
    left_out = leave_lots_out(found, tested)
    assert left_out.agrees
    assert left_out.without[-1] > left_out.accuracy > left_out.without[0]
    backwards = SampleLots(names=found.names[::-1], lots=len(found.names) - 1 - found.lots, values=found.values)
    assert not leave_lots_out(backwards, tested).agrees


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "there is no column 'label'"),
        ("a,label\nx,0\n", "row 2, column 'a' must be a number, got 'x'"),
        ("a,label\n1,\n2,0\n", "row 2, column 'label' must hold a label"),
        ("a,label\n1\n2,0\n", "row 2, column 'label' must hold a label"),
        ("a,label\nnan,0\n", "row 2, column 'a' must be a number, got "),
        ("a,label\n", "the file holds no records"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(fp.InvalidInput) as caught:
        read_samples(path)
    assert message in str(caught.value) and str(path) in str(caught.value)

"""Lots from single samples: wrong labels end in the last tier, and training without the tiers agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedpact as fp
from fedpact.training.sample_files import read_samples
from fedpact.training.sample_lots import SampleLots, find_lots, leave_lots_out


def blobs(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.random.default_rng(9).standard_normal((3, 6)) * 1.2
    return centres[labels] + rng.standard_normal((count, 6)), labels


def spoiled_samples() -> tuple[np.ndarray, ...]:
    features, labels = blobs(0, 240)
    wrong = np.arange(240) < 70
    return features, np.where(wrong, (labels + 1) % 3, labels), *blobs(1, 150), wrong


def test_wrong_labels_end_in_the_last_tier() -> None:
    *samples, wrong = spoiled_samples()
    found = find_lots(*samples)
    assert found.names == ("good", "fair", "poor") and found.sizes.sum() == 240
    assert wrong[found.lots == 2].mean() > 0.8
    assert wrong[found.lots == 0].mean() < 0.1
    assert (np.diff(found.mean_values) < 0).all()
    apart = find_lots(*samples, by_label=True, tiers=2)
    assert apart.names == ("0 good", "0 poor", "1 good", "1 poor", "2 good", "2 poor")


def test_the_order_of_the_tiers_is_that_of_leaving_them_out() -> None:
    *samples, _ = spoiled_samples()
    found = find_lots(*samples)
    features, labels = samples[:2]
    left_out = leave_lots_out(found, features, labels, *blobs(2, 600))
    assert left_out.agrees
    assert left_out.without[-1] > left_out.accuracy > left_out.without[0]
    backwards = SampleLots(names=found.names[::-1], lots=len(found.names) - 1 - found.lots, values=found.values)
    assert not leave_lots_out(backwards, features, labels, *blobs(2, 600)).agrees


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

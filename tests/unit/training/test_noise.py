"""What spoils contributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedpact.training import Experiment, Images, LabelNoise, PixelNoise
from fedpact.training.noise import checked_noise, spoil_labels, spoil_pixels
from fedpact.utils.errors import InvalidInput

NAMES = ["a", "b", "c"]
LABELS = np.tile(np.arange(10, dtype=np.int32), 20)


def spoiled(share: float, seed: int = 0) -> np.ndarray:
    return spoil_labels(LABELS, share, 10, np.random.default_rng(seed))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_wrong_labels_is_exact(share: float) -> None:
    wrong = spoiled(share) != LABELS
    assert wrong.sum() == round(share * len(LABELS))
    assert set(np.unique(spoiled(share))) <= set(range(10))


def test_more_noise_spoils_the_same_labels_and_more() -> None:
    little, much = spoiled(0.2), spoiled(0.6)
    wrong = little != LABELS
    np.testing.assert_array_equal(little[wrong], much[wrong])


def test_wrong_labels_are_of_all_other_classes() -> None:
    counts = np.zeros((10, 10), dtype=int)
    for seed in range(50):
        np.add.at(counts, (LABELS, spoiled(1.0, seed)), 1)
    assert (counts.diagonal() == 0).all()
    others = counts[~np.eye(10, dtype=bool)]
    expected = 50 * 20 / 9
    assert np.abs(others - expected).max() < 5 * np.sqrt(expected)


def test_pixels_stay_between_black_and_white() -> None:
    pixels = np.linspace(0, 1, 5000, dtype=np.float32).reshape(50, 100)
    noisy = spoil_pixels(pixels, 0.3, np.random.default_rng(0))
    assert noisy.dtype == np.float32
    assert noisy.min() == 0.0
    assert noisy.max() == 1.0
    middle = (pixels > 0.4) & (pixels < 0.6)
    assert (noisy - pixels)[middle].std() == pytest.approx(0.3, rel=0.2)
    np.testing.assert_array_equal(spoil_pixels(pixels, 0.0, np.random.default_rng(0)), pixels)


def test_noise_is_each_agents_own(images: Images) -> None:
    clean = Experiment(images, samples=30).holdings
    noisy = Experiment(images, samples=30, noise=[LabelNoise([0, 0.5, 0]), PixelNoise([0, 0, 0.4])]).holdings
    same_labels = [(one.labels == two.labels).mean() for one, two in zip(clean, noisy, strict=True)]
    same_pixels = [(one.pixels == two.pixels).all() for one, two in zip(clean, noisy, strict=True)]
    assert same_labels == [1.0, 0.5, 1.0]
    assert same_pixels == [True, True, False]


def test_test_sets_stay_as_they_are(images: Images) -> None:
    clean = Experiment(images, samples=30).holdings
    noisy = Experiment(images, samples=30, noise=[LabelNoise(0.9), PixelNoise(0.9)]).holdings
    for one, two in zip(clean, noisy, strict=True):
        np.testing.assert_array_equal(one.test_labels, two.test_labels)
        np.testing.assert_array_equal(one.test_pixels, two.test_pixels)
        assert (one.labels != two.labels).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LabelNoise(1.2), "LabelNoise.share must be a share from 0 to 1, got 1.2"),
        (lambda: LabelNoise([0, -0.1]), r"LabelNoise.share\[1\] must be a share from 0 to 1, got -0.1"),
        (lambda: LabelNoise("half"), "LabelNoise.share must be a number or one number per member, got 'half'"),
        (lambda: LabelNoise(np.nan), "LabelNoise.share must be a share from 0 to 1, got nan"),
        (lambda: PixelNoise(-1), "PixelNoise.deviation must be at least zero, got -1"),
        (lambda: PixelNoise(np.inf), "PixelNoise.deviation must be at least zero and finite, got inf"),
        (
            lambda: checked_noise([LabelNoise([0.1, 0.2])], NAMES),
            "LabelNoise.share must be .*: 3 members, 2 numbers",
        ),
        (
            lambda: checked_noise([LabelNoise(0), LabelNoise(1)], NAMES),
            "noise names LabelNoise twice; give it once",
        ),
        (lambda: checked_noise(0.3, NAMES), "noise must be a list of LabelNoise and PixelNoise"),
        (
            lambda: checked_noise([0.3], NAMES),
            "noise must be a list of LabelNoise and PixelNoise",
        ),
        (
            lambda: checked_noise(None, NAMES),
            "noise must be a list of LabelNoise and PixelNoise",
        ),
    ],
)
def test_what_is_no_noise(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_one_kind_needs_no_list() -> None:
    found = checked_noise(PixelNoise([0.5, 0.0, 2.0]), NAMES)
    assert found["PixelNoise"]["deviation"].tolist() == [0.5, 0.0, 2.0]

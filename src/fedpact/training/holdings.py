"""What each agent holds, ready to train on: its share of the images, spoiled by noise, scaled.

An agent may hold several lots of images. Each is dealt and spoiled like the images of an agent of its own, and the
tests of all of them are its owner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fedpact.training.checks import IntArray
from fedpact.training.data import Images
from fedpact.training.noise import LabelNoise, PixelNoise, Strengths, spoiled_labels, spoiled_pixels
from fedpact.training.partitions import Share
from fedpact.training.seeds import Stream, generator


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """One agent's images: training samples in the order of use, noise included, and clean test images.

    `lots` and `tasks` say which of all agents' lots a training sample is of, and to which of all agents' tasks a test
    belongs. Of a lot, samples are used in their order.
    """

    pixels: NDArray[np.float32]
    labels: NDArray[np.int32]
    test_pixels: NDArray[np.float32]
    test_labels: NDArray[np.int32]
    lots: NDArray[np.int32]
    tasks: NDArray[np.int32]


def make_holdings(
    images: Images, shares: Sequence[Share], noise: Strengths, seed: int, *, owners: IntArray
) -> list[Holdings]:
    """All agents' holdings, with the noise of each; there is a share, and an owner, for every lot.

    Pixels are divided by the standard deviation of all images' pixels. They are not centred, unlike what is usual for
    MNIST: accuracies are the same, and blank pixels stay zero, which saves a fifth of the work.
    """
    deviation = np.float32(images.pixels.std(dtype=np.float64))
    found = []
    for lot, share in enumerate(shares):
        pixels, labels = images.pixels[share.train], images.labels[share.train]
        if LabelNoise in noise:
            rng = generator(seed, Stream.LABELS, lot)
            labels = spoiled_labels(labels, noise[LabelNoise]["share"][lot], images.n_classes, rng)
        if PixelNoise in noise:
            rng = generator(seed, Stream.PIXELS, lot)
            pixels = spoiled_pixels(pixels, noise[PixelNoise]["deviation"][lot], rng)
        found.append(
            Holdings(
                pixels=pixels / deviation,
                labels=labels,
                test_pixels=images.pixels[share.test] / deviation,
                test_labels=images.labels[share.test],
                lots=np.full(len(labels), lot, dtype=np.int32),
                tasks=np.full(len(share.test), owners[lot], dtype=np.int32),
            )
        )
    return [_joined([found[lot] for lot in np.flatnonzero(owners == agent)]) for agent in range(owners.max() + 1)]


def _joined(parts: Sequence[Holdings]) -> Holdings:
    """The lots of one agent."""
    if len(parts) == 1:
        return parts[0]
    return Holdings(
        **{part.name: np.concatenate([getattr(own, part.name) for own in parts]) for part in fields(Holdings)}
    )

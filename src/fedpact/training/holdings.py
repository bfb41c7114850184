"""What each agent holds, ready to train on: its share of the images, spoiled by noise, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.training.data import Images
from fedpact.training.noise import LabelNoise, PixelNoise, Strengths, spoiled_labels, spoiled_pixels
from fedpact.training.partitions import Share
from fedpact.training.seeds import Stream, generator


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """One agent's images: training samples in the order of use, noise included, and clean test images."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.int32]
    test_pixels: NDArray[np.float32]
    test_labels: NDArray[np.int32]


def make_holdings(images: Images, shares: Sequence[Share], noise: Strengths, seed: int) -> list[Holdings]:
    """All agents' holdings, with the noise of each.

    Pixels are divided by the standard deviation of all images' pixels. They are not centred, unlike what is usual for
    MNIST: accuracies are the same, and blank pixels stay zero, which saves a fifth of the work.
    """
    deviation = np.float32(images.pixels.std(dtype=np.float64))
    found = []
    for agent, share in enumerate(shares):
        pixels, labels = images.pixels[share.train], images.labels[share.train]
        if LabelNoise in noise:
            rng = generator(seed, Stream.LABELS, agent)
            labels = spoiled_labels(labels, noise[LabelNoise]["share"][agent], images.n_classes, rng)
        if PixelNoise in noise:
            rng = generator(seed, Stream.PIXELS, agent)
            pixels = spoiled_pixels(pixels, noise[PixelNoise]["deviation"][agent], rng)
        found.append(
            Holdings(
                pixels=pixels / deviation,
                labels=labels,
                test_pixels=images.pixels[share.test] / deviation,
                test_labels=images.labels[share.test],
            )
        )
    return found

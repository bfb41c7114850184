"""Images that are learnt in no time: clouds of points around one centre a class."""

from __future__ import annotations

import numpy as np

from fedpact.training import Images

PIXELS = 12
BLANK = 2  # the last of them, in all images


def blobs(*, per_class: int = 120, n_classes: int = 3, spread: float = 0.15, seed: int = 0) -> Images:
    rng = np.random.default_rng([seed, 99])
    labels = np.repeat(np.arange(n_classes), per_class)
    centres = rng.uniform(0.2, 0.8, (n_classes, PIXELS))
    pixels = np.clip(centres[labels] + spread * rng.standard_normal((len(labels), PIXELS)), 0, 1)
    pixels[:, PIXELS - BLANK :] = 0
    order = rng.permutation(len(labels))
    return Images(pixels=pixels[order], labels=labels[order])

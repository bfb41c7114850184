"""Everything random comes from one seed, by a stream for each purpose: changing one leaves the others alone."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What the numbers are for."""

    DEALING = 0
    LABELS = 1
    PIXELS = 2
    WEIGHTS = 3
    SHUFFLES = 4
    PRIVACY = 5


def generator(seed: int, stream: Stream, *which: int) -> np.random.Generator:
    """The numbers for one purpose, and for one agent or round of it."""
    return np.random.default_rng([seed, stream, *which])

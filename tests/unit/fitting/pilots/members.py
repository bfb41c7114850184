"""Members with records that a linear model can learn from, and ones whose labels mislead."""

from __future__ import annotations

import numpy as np

from fedpact.fitting.pilots import PilotData
from fedpact.fitting.pilots.records import CLASSIFICATION, Records

SLOPES = np.array([1.5, -1.0, 0.5, 0.0])


def member(rng: np.random.Generator, count: int, *, flipped: float = 0.0, shift: float = 0.0) -> Records:
    """Records with two classes; a share of the labels that are trained on is flipped, and the classes are shifted."""
    features = rng.normal(size=(count, SLOPES.size))
    truth = (features @ SLOPES + shift + rng.logistic(size=count) > 0).astype(float)
    wrong = rng.random(count) < flipped
    return Records.of(features, np.where(wrong, 1.0 - truth, truth), truth=truth)


def federation(*sizes: int, seed: int = 0, flipped: tuple[float, ...] = ()) -> PilotData:
    """Members whose records follow the same law."""
    rng = np.random.default_rng(seed)
    spoiled = flipped or (0.0,) * len(sizes)
    records = tuple(member(rng, size, flipped=wrong) for size, wrong in zip(sizes, spoiled, strict=True))
    names = tuple("ABCDEF"[: len(sizes)])
    return PilotData(names=names, records=records, task=CLASSIFICATION, classes=("no", "yes"))

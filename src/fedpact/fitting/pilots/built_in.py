"""Pilots on data that comes with scikit-learn: five members, each with a fault of its own.

The first holds most records, the second few of few kinds, the third what an old device recorded, the fourth wrong
targets, and the fifth hardly anything. Tests are clean: faults are in what is trained on, except the third's device and
the second's kinds, which are what these members work with.
"""

from __future__ import annotations

import importlib

import numpy as np

from fedpact.fitting.pilots.estimators import require_sklearn
from fedpact.fitting.pilots.records import CLASSIFICATION, REGRESSION, TEST_SHARE, PilotData, Records, split_records
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

BUILT_IN_PILOTS = {
    "digits": ("load_digits", CLASSIFICATION),
    "breast-cancer": ("load_breast_cancer", CLASSIFICATION),
    "wine": ("load_wine", CLASSIFICATION),
    "diabetes": ("load_diabetes", REGRESSION),
}
MEMBERS = ("Large", "One-sided", "Old device", "Mislabelled", "Small")
SIZES = np.array([0.36, 0.18, 0.18, 0.18, 0.10])
FAVOURED = 6.0  # how many times as often the one-sided member sees its own half of the targets
DEVICE_NOISE = 0.7  # standard deviations of a feature
WRONG_TARGETS = 0.3  # share of them


def built_in_pilot(name: str, *, test_share: float = TEST_SHARE, seed: int = 0) -> PilotData:
    """The records of a built-in pilot, split into members with skew of targets, features, size and noise."""
    if name not in BUILT_IN_PILOTS:
        raise InvalidInput(f"there is no built-in pilot {name!r}; there are {', '.join(BUILT_IN_PILOTS)}")
    require_sklearn()
    loader, task = BUILT_IN_PILOTS[name]
    found = getattr(importlib.import_module("sklearn.datasets"), loader)()
    everything = Records(np.asarray(found.data, dtype=np.float64), np.asarray(found.target, dtype=np.float64))
    classes = tuple(map(str, getattr(found, "target_names", ()))) if task == CLASSIFICATION else ()
    rng = np.random.default_rng(seed)
    shares = _deal(everything.targets, rng)
    train, test = [], []
    for place, member in enumerate(MEMBERS):
        own = everything.take(shares[place])
        if member == "Old device":
            own = Records(_as_the_device_sees(own.features, everything.features, rng), own.targets)
        used, tested = split_records(own, task=task, test_share=test_share, rng=rng, name=member)
        test.append(own.take(tested))
        spoiled = own.take(used)
        if member == "Mislabelled":
            spoiled = Records(spoiled.features, _wrong(spoiled.targets, task, len(classes), rng))
        train.append(spoiled)
    return PilotData(
        names=MEMBERS,
        train=tuple(train),
        test=tuple(test),
        task=task,
        classes=classes,
        feature_names=tuple(map(str, found.feature_names)),
    )


def _deal(targets: FloatArray, rng: np.random.Generator) -> list[np.ndarray]:
    """Places of the records of each member; the one-sided first, who takes mostly targets below the middle."""
    sizes = np.floor(SIZES * len(targets)).astype(np.intp)
    favoured = np.where(targets < np.median(targets), FAVOURED, 1.0)
    one_sided = rng.choice(len(targets), sizes[1], replace=False, p=favoured / favoured.sum())
    rest = rng.permutation(np.setdiff1d(np.arange(len(targets)), one_sided))
    sizes[1] = 0
    parts = np.split(rest, np.cumsum(sizes))[: len(sizes)]
    parts[1] = one_sided
    return parts


def _as_the_device_sees(features: FloatArray, every: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.asarray(features + DEVICE_NOISE * every.std(axis=0) * rng.standard_normal(features.shape))


def _wrong(targets: FloatArray, task: str, n_classes: int, rng: np.random.Generator) -> FloatArray:
    if task == REGRESSION:
        return np.asarray(targets + 2.0 * targets.std() * rng.standard_normal(len(targets)))
    wrong = rng.random(len(targets)) < WRONG_TARGETS
    shifted = (targets + rng.integers(1, n_classes, len(targets))) % n_classes
    return np.where(wrong, shifted, targets)

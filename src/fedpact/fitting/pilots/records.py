"""What a pilot works on: each member's records as numbers, some of them to train on, some to test with.

A member's training records stand in the order of use: a contribution of 40 records is its first 40. They are mixed, so
that the first ones are like all of them. Where members have several lots, each lot has such an order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text, join_names

CLASSIFICATION, REGRESSION = "classification", "regression"
TEST_SHARE = 0.3
MIN_TESTS = 5  # records; of fewer an accuracy says nothing
MAX_LOTS = 6  # of one member


@dataclass(frozen=True, eq=False)
class Records:
    """Features (N, d), NaN where one is missing, and targets (N,): numbers, or places among the classes."""

    features: FloatArray
    targets: FloatArray

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return f"Records({len(self):,} of {self.features.shape[1]} features)"

    def take(self, places: ArrayLike) -> Records:
        """Some of the records."""
        chosen = np.asarray(places)
        return Records(self.features[chosen], self.targets[chosen])


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotData:
    """Everybody's records, split into those to train on and those to test with.

    Attributes
    ----------
    names
        The members.
    train, test
        One each per member.
    task
        "classification" or "regression".
    classes
        What the targets of a classification stand for.
    feature_names
        Of the columns.
    lots
        Per member, the lot of each training record; None where nobody has several.
    lot_names
        Per member, the names of its lots.
    notes
        What was done to the tables, in words.
    """

    names: tuple[str, ...]
    train: tuple[Records, ...]
    test: tuple[Records, ...]
    task: str
    classes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    lots: tuple[NDArray[np.intp], ...] | None = None
    lot_names: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        trained, tested = (sum(map(len, records)) for records in (self.train, self.test))
        return (
            f"PilotData({self.task}, {join_names(self.names)}: {count_text(trained, 'record')} to train on, {tested:,} "
            f"to test with)"
        )

    @property
    def lot_owners(self) -> list[str]:
        """The owner of each column of contributions."""
        if self.lots is None:
            return list(self.names)
        return [name for name, own in zip(self.names, self.lot_names, strict=True) for _ in own]

    @cached_property
    def _orders(self) -> list[tuple[int, NDArray[np.intp]]]:
        """For each column of contributions its member, and the places of its training records in the order of use."""
        if self.lots is None:
            return [(member, np.arange(len(own))) for member, own in enumerate(self.train)]
        return [
            (member, np.flatnonzero(lots == lot))
            for member, lots in enumerate(self.lots)
            for lot in range(len(self.lot_names[member]))
        ]

    @property
    def available(self) -> NDArray[np.intp]:
        """(members,), or (lots,): training records there are, the most that can be contributed."""
        return np.array([len(order) for _, order in self._orders], dtype=np.intp)

    @property
    def test_sizes(self) -> FloatArray:
        """(members,): records each is tested on."""
        return np.array([float(len(own)) for own in self.test])

    def gather(self, contributions: Sequence[int]) -> tuple[Records, NDArray[np.intp]]:
        """The training records of a run, and the member each comes from."""
        parts = [(member, order[:count]) for (member, order), count in zip(self._orders, contributions, strict=True)]
        features = np.concatenate([self.train[member].features[places] for member, places in parts])
        targets = np.concatenate([self.train[member].targets[places] for member, places in parts])
        owners = np.concatenate([np.full(len(places), member, dtype=np.intp) for member, places in parts])
        return Records(features, targets), owners

    @cached_property
    def fingerprint(self) -> str:
        """A number for everything that is trained on and tested with."""
        digest = hashlib.sha256(repr((self.names, self.task, self.classes, self.lot_names)).encode())
        arrays: list[Any] = [part for own in (*self.train, *self.test) for part in (own.features, own.targets)]
        for array in [*arrays, *(self.lots or ())]:
            digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]


def feature_scales(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The middle and the spread of each column; 0 and 1 where nothing is known or nothing differs."""
    known = ~np.isnan(features)
    middle = np.array(
        [np.median(column[some]) if some.any() else 0.0 for column, some in zip(features.T, known.T, strict=True)]
    )
    spread = np.where(known, features, middle).std(axis=0)
    return middle, np.where(spread > 0, spread, 1.0)


def scale_features(features: FloatArray, middle: FloatArray, spread: FloatArray) -> FloatArray:
    """Features on one scale, missing ones in the middle."""
    return np.asarray((np.where(np.isnan(features), middle, features) - middle) / spread)


def split_records(
    own: Records, *, task: str, test_share: float, rng: np.random.Generator, name: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of the records to train on, in the order of use, and of those to test with: a share of every class."""
    if not 0.0 < test_share < 1.0:
        raise InvalidInput(f"test_share must lie between 0 and 1, got {test_share:g}")
    n_test = round(test_share * len(own))
    if n_test < MIN_TESTS or len(own) - n_test < 1:
        raise InvalidInput(
            f'member "{name}" has {len(own)} records, of which a test share of {test_share:g} is {n_test}; a test '
            f"needs at least {MIN_TESTS}: give it more records, or leave the member out"
        )
    kinds = own.targets if task == CLASSIFICATION else np.zeros(len(own))
    _, piles, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    wanted = _share_out(counts, n_test, rng)
    used, tested, places = [], [], []
    for pile, (count, n_first) in enumerate(zip(counts, wanted, strict=True)):
        shuffled = rng.permutation(np.flatnonzero(piles == pile))
        tested.append(shuffled[:n_first])
        used.append(shuffled[n_first:])
        places.append((np.arange(count - n_first) + rng.random()) / max(count - n_first, 1))
    order = np.argsort(np.concatenate(places), kind="stable")  # each class evenly along the way
    return np.concatenate(used)[order], np.concatenate(tested)


def _share_out(counts: NDArray[np.intp], total: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Whole numbers in proportion to the counts that add up to the total, by largest remainders."""
    amounts = counts * total / counts.sum()
    whole = np.floor(amounts).astype(np.intp)
    order = np.lexsort((rng.random(len(counts)), whole - amounts))
    whole[order[: total - whole.sum()]] += 1
    return whole

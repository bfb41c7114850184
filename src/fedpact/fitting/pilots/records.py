"""Members' records as numbers, and how they are divided: every record is tested, never by a model that has seen it.

**Cross-fitting.** Each member's records are dealt into folds, every class evenly. A model that is tested on fold k is
trained without fold k of any member; over all folds every record is tested once. Repeated with other deals, that is
`splits` times. Records that belong together (one patient's) stay together.

**Sharing.** Who shares a part of a lot shares that part of its training records in a fold: a model under test knows
three quarters of what is shared, as it knows three quarters of what a member has itself. They are the first in an order
that is drawn once per split, so that who shares more shares what it shared before and more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text, join_names

CLASSIFICATION, REGRESSION = "classification", "regression"
FOLDS = 4
MIN_RECORDS = 12  # of a member: three to test in each fold
Index = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """One member's records."""

    features: FloatArray  # (N, d), NaN where one is missing
    targets: FloatArray  # (N,), as models are trained on them: numbers, or indices of classes
    truth: FloatArray  # (N,), as models are tested with; other than `targets` only where a built-in pilot spoils these
    lots: Index  # (N,): which of the member's lots each belongs to
    groups: Index  # (N,): records of one number belong together

    @classmethod
    def of(cls, features: FloatArray, targets: FloatArray, **others: Any) -> Records:
        """Records of one lot, each on its own, tested with what they are trained on; unless something else is said."""
        n = len(targets)
        rest = {"truth": targets, "lots": np.zeros(n, dtype=np.intp), "groups": np.arange(n)}
        return cls(features=features, targets=targets, **(rest | others))

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotData:
    """Everybody's records."""

    names: tuple[str, ...]  # The members
    records: tuple[Records, ...]  # One each per member
    task: str  # "classification" or "regression"
    classes: tuple[str, ...] = ()  # What the targets of a classification stand for
    feature_names: tuple[str, ...] = ()  # Of the columns
    # Per member, the names of its lots: one, that is the member's, unless it has several
    lot_names: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()  # What was done to the tables, and what is odd about them, in words

    def __post_init__(self) -> None:
        if not self.lot_names:
            object.__setattr__(self, "lot_names", tuple((name,) for name in self.names))
        for name, own in zip(self.names, self.records, strict=True):
            if len(np.unique(own.groups)) < MIN_RECORDS:
                raise InvalidInput(
                    f'member "{name}" has {len(own)} records in {len(np.unique(own.groups))} groups; a pilot needs '
                    f"{MIN_RECORDS} or more that do not belong together: give it more, or leave the member out"
                )

    def __repr__(self) -> str:
        total = count_text(sum(map(len, self.records)), "record")
        return f"PilotData({self.task}, {join_names(self.names)}: {total})"

    @property
    def has_lots(self) -> bool:
        """Whether a member has several lots."""
        return any(len(own) > 1 for own in self.lot_names)

    @property
    def lot_owners(self) -> list[int]:
        """The owner of every lot, by index."""
        return [member for member, own in enumerate(self.lot_names) for _ in own]

    @property
    def lot_labels(self) -> list[str]:
        """What lots are called among all: the member's name, and the lot's where it has several."""
        return [
            name if len(own) == 1 else f"{name}.{lot}"
            for name, own in zip(self.names, self.lot_names, strict=True)
            for lot in own
        ]

    @cached_property
    def caps(self) -> FloatArray:
        """(lots,): how many records each holds."""
        parts = zip(self.records, self.lot_names, strict=True)
        return np.array([float((own.lots == lot).sum()) for own, lots in parts for lot in range(len(lots))])

    @cached_property
    def fingerprint(self) -> str:
        """A text that tells the records from others."""
        digest = hashlib.sha256(repr((self.names, self.task, self.classes, self.lot_names)).encode())
        for own in self.records:
            for array in (own.features, own.targets, own.truth, own.lots, own.groups):
                digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Fold:
    """Indices of one member's records in one fold: tested, and to train on, in the order in which they are shared."""

    test: Index
    train: Index


def deal_folds(data: PilotData, seed: Sequence[int]) -> list[list[Fold]]:
    """Every member's folds of one split."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold  # noqa: PLC0415

    rng = np.random.default_rng(list(seed))
    dealt = []
    for own in data.records:
        together = len(np.unique(own.groups)) < len(own)
        whole = data.task == REGRESSION
        kinds = {(False, False): StratifiedKFold, (False, True): KFold}
        kinds |= {(True, False): StratifiedGroupKFold, (True, True): GroupKFold}
        made = kinds[together, whole](FOLDS, shuffle=True, random_state=int(rng.integers(2**31)))
        order = rng.permutation(len(own))
        folds = []
        for train, test in made.split(own.features, own.targets, own.groups if together else None):
            folds.append(Fold(test, order[np.isin(order, train)]))
        dealt.append(folds)
    return dealt


def shared_records(own: Records, fold: Fold, shares: Sequence[float]) -> Index:
    """The records that a member shares while a fold is tested: of every lot the first ones, by its share."""
    parts = []
    for lot, share in enumerate(shares):
        of_lot = fold.train[own.lots[fold.train] == lot]
        parts.append(of_lot[: round(share * len(of_lot))])
    return np.concatenate(parts)

"""Coalition runs: which are trained first, and what a model is trained on and tested with.

The first runs are a spread: everybody with all their data, everybody alone, everybody with a part, all but one, alone
with a part. Later ones are those that settle the deal (`fedpact.fitting.suggest`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedpact.fitting.pilots.records import PilotData, Records
from fedpact.utils.arrays import FloatArray

SPREAD_SHARE = 0.6  # of the models there may be
FEW, SOME = 0.1, 0.4  # parts of their data


@dataclass(frozen=True, eq=False)
class CoalitionRecords:
    """What a model of a coalition is trained on, and what it is tested with.

    Attributes
    ----------
    train
        Everybody's contributed records together: `.features` (N, d), NaN where one is missing, and `.targets` (N,),
        numbers, or places among the classes.
    owners
        (N,): the member each comes from, a place among the members.
    tests
        Each member's test records.
    contributions
        How many records each member (lot) contributes.
    average_target
        Of all training records there are.
    seed
        For whatever is random in training.
    """

    train: Records
    owners: NDArray[np.intp]
    tests: tuple[Records, ...]
    contributions: tuple[int, ...]
    average_target: float
    seed: int

    def __repr__(self) -> str:
        return f"CoalitionRecords({self.train!r}, {self.contributions} of {len(self.tests)} members, seed {self.seed})"


def coalition_records(data: PilotData, contributions: Sequence[int], seed: int) -> CoalitionRecords:
    """The records of a run."""
    train, owners = data.gather(contributions)
    average = float(np.concatenate([own.targets for own in data.train]).mean())
    return CoalitionRecords(train, owners, data.test, tuple(map(int, contributions)), average, seed)


def first_runs(available: NDArray[np.intp], owners: Sequence[str], budget: int) -> list[tuple[int, ...]]:
    """The spread of runs to begin with, the most telling first, distinct; at most `budget` of them."""
    names = list(dict.fromkeys(owners))
    mine = np.array([[owner == name for owner in owners] for name in names], dtype=np.float64)
    lots = np.eye(len(owners)) if len(owners) > len(names) else np.empty((0, len(owners)))
    everybody = np.ones((1, len(owners)))
    n_first = max(1 + len(names), round(SPREAD_SHARE * budget))
    shares: list[FloatArray] = [
        everybody,
        mine,
        FEW * everybody,
        lots,
        1.0 - mine if len(names) > 2 else np.empty((0, len(owners))),
        1.0 - lots,
        SOME * everybody,
        FEW * mine,
        SOME * mine,
    ]
    amounts = np.ceil(np.concatenate(shares) * available - 1e-9).astype(np.intp)
    runs = dict.fromkeys(tuple(int(amount) for amount in run) for run in amounts if run.any())
    return list(runs)[: min(n_first, budget)]

"""What an experiment accepts: names, samples per agent, and tables of contributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.arrays import checked_numbers, first_where
from fedpact.utils.errors import InvalidInput

IntArray = NDArray[np.int64]


def frozen_counts(numbers: ArrayLike) -> IntArray:
    """A read-only copy as whole numbers."""
    counts = np.array(numbers, dtype=np.int64)
    counts.setflags(write=False)
    return counts


def nearest_counts(amounts: ArrayLike) -> IntArray:
    """The whole numbers nearest to some amounts: for designs of experiments.

    What a deal means in whole samples, never more than agreed, `fedpact.deals.whole_samples` says.
    """
    return np.rint(amounts).astype(np.int64)


def checked_samples(given: Any, names: Sequence[str]) -> IntArray:
    """Images each agent holds."""
    numbers = checked_numbers(
        "samples",
        given,
        lambda x: (x >= 1) & (x == np.rint(x)) & np.isfinite(x),
        "a whole number of at least 1",
        names=names,
    )
    return frozen_counts(np.broadcast_to(numbers, len(names)))


def checked_counts(
    label: str, row: str, given: ArrayLike, available: IntArray, names: Sequence[str], *, whose: str = "member"
) -> IntArray:
    """A table of contributions with a row per `row` and a column per agent (lot), none beyond what there is.

    `names` are those of the columns, and `whose` says what a column is.
    """
    rule = f"{label} must be whole numbers with a row per {row} and a column per {whose} ({len(names)})"
    try:
        numbers = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(f"{rule}, got rows of different lengths") from error
    if numbers.dtype.kind not in "iuf":
        raise InvalidInput(f"{rule}, got {numbers.dtype}; a coalition is `members * experiment.available`")
    if numbers.ndim != 2 or numbers.shape[1] != len(names):
        raise InvalidInput(f"{rule}, got shape {numbers.shape}")
    uncountable = ~np.isfinite(numbers) | (numbers != np.rint(numbers)) | (numbers < 0)
    for wrong, must in ((uncountable, "be a whole number of at least 0"), (numbers > available, "be at most {}")):
        place = first_where(wrong.ravel())
        if place is not None:
            at, agent = divmod(place, len(names))
            raise InvalidInput(
                f"{label}[{at}, {agent}] must {must.format(available[agent])}, got {numbers[at, agent]:g}: "
                f'{whose} "{names[agent]}" has {available[agent]} training samples'
            )
    return numbers.astype(np.int64)

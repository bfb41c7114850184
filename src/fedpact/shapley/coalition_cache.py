"""Coalition values at hand: what a game has been asked so far, kept so that nothing is evaluated twice.

A coalition is a sorted tuple of players, who count from 0. Inside, it is an integer whose bit j says whether player j
belongs to it: quick to extend by a player, to compare and to look up.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, error_context, short_repr
from fedpact.utils.files import DECODERS, read_text, replace_text

Coalition: TypeAlias = tuple[int, ...]


def mask_of(coalition: Iterable[int]) -> int:
    """The integer whose bits are the players of a coalition.

    Examples
    --------
    >>> mask_of([0, 3])
    9
    """
    mask = 0
    try:
        for player in coalition:
            mask |= 1 << operator.index(player)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a coalition must hold players counted from 0, got {short_repr(coalition)}") from error
    return mask


def players_of(mask: int) -> Coalition:
    """The coalition that an integer stands for.

    Examples
    --------
    >>> players_of(9)
    (0, 3)
    """
    bits = np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), dtype=np.uint8)
    return tuple(np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist())


def masks_of_rows(members: NDArray[np.bool_]) -> list[int]:
    """The integers of the coalitions in the rows of a matrix."""
    packed = np.packbits(members, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


class CoalitionCache(MutableMapping[Coalition, "float | FloatArray"]):
    """A store of coalition values that belongs to the caller: `sample_game` reads and fills it.

    It behaves like a dictionary from coalitions to values, keeps everything evaluated before an interruption, and goes
    to a file and back.

    Parameters
    ----------
    values
        Values to start with, by coalition.

    Examples
    --------
    >>> cache = CoalitionCache({(): 0.0, (1, 0): 3.0})
    >>> cache[0, 1]
    3.0
    >>> cache[2,] = 1.5
    >>> sorted(cache)
    [(), (0, 1), (2,)]
    """

    def __init__(self, values: Mapping[Coalition, ArrayLike] | None = None) -> None:
        self.by_mask: dict[int, FloatArray] = {}
        for coalition, value in (values or {}).items():
            self.put(mask_of(coalition), value)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the values, () for numbers; None while there are none."""
        return next((value.shape for value in self.by_mask.values()), None)

    def put(self, mask: int, value: Any) -> None:
        """Store the value of the coalition that `mask` stands for.

        Raises
        ------
        InvalidInput
            Unless the value is a finite number, or a list of as many finite numbers as the others.
        """
        try:
            numbers = read_only_copy(value)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"the value of coalition {_named(mask)} must be a number, got {short_repr(value)}"
            ) from error
        if numbers.ndim > 1 or numbers.size == 0:
            raise InvalidInput(
                f"the value of coalition {_named(mask)} must be a number or a list of numbers, got an array of shape "
                f"{numbers.shape}"
            )
        if not np.isfinite(numbers).all():
            raise InvalidInput(
                f"the value of coalition {_named(mask)} must be finite, got {short_repr(numbers.tolist())}"
            )
        if self.shape not in (None, numbers.shape):
            raise InvalidInput(
                f"every coalition must have as many values as the others: {_named(mask)} has shape {numbers.shape}, "
                f"others {self.shape}"
            )
        self.by_mask[mask] = numbers

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a JSON file, whole or not at all."""
        entries = [{"members": list(players), "value": self.by_mask[mask_of(players)].tolist()} for players in self]
        replace_text(Path(path), json.dumps({"coalitions": entries}, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CoalitionCache:
        """The cache that `save` wrote to a file."""
        cache = cls()
        with error_context(str(path)):
            content = DECODERS[".json"](read_text(Path(path)))
            try:
                entries = [(entry["members"], entry["value"]) for entry in content["coalitions"]]
            except (TypeError, KeyError) as error:
                raise InvalidInput(
                    'the file must hold {"coalitions": [{"members": [...], "value": ...}, ...]}'
                ) from error
            for members, value in entries:
                mask = mask_of(members)
                if mask in cache.by_mask:
                    raise InvalidInput(f"coalition {_named(mask)} appears twice")
                cache.put(mask, value)
        return cache

    def __getitem__(self, coalition: Coalition) -> float | FloatArray:
        try:
            value = self.by_mask[mask_of(coalition)]
        except (KeyError, InvalidInput):
            raise KeyError(coalition) from None
        return value if value.ndim else float(value)

    def __setitem__(self, coalition: Coalition, value: ArrayLike) -> None:
        self.put(mask_of(coalition), value)

    def __delitem__(self, coalition: Coalition) -> None:
        if coalition not in self:
            raise KeyError(coalition)
        del self.by_mask[mask_of(coalition)]

    def __iter__(self) -> Iterator[Coalition]:
        return map(players_of, list(self.by_mask))

    def __len__(self) -> int:
        return len(self.by_mask)

    def __repr__(self) -> str:
        return f"CoalitionCache of {len(self)} coalitions"


def _named(mask: int) -> str:
    return short_repr(players_of(mask))

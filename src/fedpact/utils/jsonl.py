"""Lines of JSON, written strictly and read with clear errors; values made plain for JSON.

JSON has no infinity and no NaN; they are written "inf", "-inf" and "nan". What JSON cannot hold at all is written as
the name of its type, which no check of an answer lets pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.files import decode_json

MAX_LEVELS = 8  # of what is not plain JSON already: exchanges have five
MAX_INTEGER_BITS = 1023  # a float holds every whole number of so many


def encode_line(entry: Mapping[str, Any]) -> str:
    """Strict JSON on one line."""
    try:
        return json.dumps(entry, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_plain(entry, MAX_LEVELS), allow_nan=False)


def _plain(value: Any, levels: int) -> Any:
    """What an agent may have answered, made of what JSON has, down to so many levels."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping) and levels:
        return {str(key): _plain(entry, levels - 1) for key, entry in value.items()}
    if isinstance(value, list | tuple) and levels:
        return [_plain(entry, levels - 1) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return short_repr(value)
    return value if value is None or isinstance(value, str | bool | int | float) else f"<{type(value).__name__}>"


def jsonable(value: Any) -> Any:
    """`value` with arrays as lists and every number representable in JSON."""
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [jsonable(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isnan(number):
            return None
        return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return value.item() if isinstance(value, np.generic) else value


def whole_lines_length(content: bytes) -> int:
    """The bytes up to the last whole line. Lines are JSON objects: no part of one is JSON."""
    end = content.rfind(b"\n") + 1
    try:
        json.loads(content[end:])
    except (ValueError, RecursionError):
        return end
    return len(content)


def numbered_lines(path: Path, length: int) -> Iterator[tuple[int, bytes]]:
    """The lines of the first `length` bytes, numbered from 1, without those that are blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                length -= len(line)
                if length < 0:
                    return
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InvalidInput(f"{path}: the file cannot be read: {error.strerror}") from error


def decode_line(line: bytes, *, constants: bool = False, record: bool = False) -> dict[str, Any]:
    """The JSON object on one line.

    With `constants`, NaN and infinity are for the caller to refuse, by their key. A `record`, such as a ledger's, holds
    no whole number that is beyond floats.
    """
    hooks: dict[str, Callable[[str], Any]] = {"parse_constant": float} if constants else {}
    entry = decode_json(line, **hooks | ({"parse_int": _checked_integer} if record else {}))
    if not isinstance(entry, dict):
        raise InvalidInput(f"must be a JSON object, got {short_repr(entry)}")
    return entry


def _checked_integer(digits: str) -> int:
    """A whole number of JSON text, if a float can hold it."""
    number = int(digits)
    if number.bit_length() > MAX_INTEGER_BITS:
        raise InvalidInput(f"must hold numbers below 8.9e307, got {short_repr(number)}")
    return number

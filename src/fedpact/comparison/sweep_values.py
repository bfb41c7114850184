"""The values of an axis: `start:stop:count`, `start:stop:count:log`, or a list."""

from __future__ import annotations

import numpy as np

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

__all__ = ["MOST_VALUES", "parse_values"]

MOST_VALUES = 1_000_000
FORMS = 'write "start:stop:count", "start:stop:count:log" or a list such as "0.1,0.2,0.5"'
DIGITS = 15  # of the larger end, in evenly spaced values


def parse_values(label: str, written: str) -> FloatArray:
    """The numbers a person wrote; errors begin with the label.

    Examples
    --------
    >>> parse_values("weights[0,1]", "-0.9:0.9:7").tolist()
    [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    """
    values = _range(label, written.split(":")) if ":" in written else _list(label, written)
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        again = distinct[counts > 1][0]
        raise InvalidInput(f"{label}: values must differ, got {again:g} more than once in {_short(written)}")
    return values


def _list(label: str, written: str) -> FloatArray:
    return np.array([_number(label, part) for part in written.split(",")]) + 0.0


def _range(label: str, parts: list[str]) -> FloatArray:
    written = ":".join(parts)
    if len(parts) not in {3, 4} or (len(parts) == 4 and parts[3].strip() != "log"):
        raise InvalidInput(f"{label}: values cannot be {_short(written)}; {FORMS}")
    start, stop, count = _number(label, parts[0]), _number(label, parts[1]), _count(label, parts[2])
    if not (np.isfinite(start) and np.isfinite(stop)):
        raise InvalidInput(f"{label}: a range needs finite ends, got {_short(written)}; list the values instead")
    if start == stop or count == 1:
        raise InvalidInput(
            f"{label}: a range needs two different ends and a count of at least 2, got {_short(written)}; "
            f"a single value is written alone, {label}={start:g}"
        )
    if len(parts) == 3:
        return _evenly(start, stop, count)
    if start <= 0 or stop <= 0:
        raise InvalidInput(
            f"{label}: a logarithmic range needs positive ends, got {_short(written)}; leave out :log or raise them"
        )
    return np.geomspace(start, stop, count)


def _evenly(start: float, stop: float, count: int) -> FloatArray:
    """Evenly spaced, without the rounding that would make 0 a -1e-16, which is harm where there is none."""
    part = np.linspace(0.0, 1.0, count)
    values = start * (1.0 - part) + stop * part
    decimals = DIGITS - 1 - int(np.floor(np.log10(max(abs(start), abs(stop)))))
    rounded = np.round(values, decimals) if abs(decimals) < 300 else values
    rounded[[0, -1]] = start, stop
    return rounded + 0.0


def _count(label: str, written: str) -> int:
    digits = written.strip()
    if not digits.isdecimal() or len(digits) > len(str(MOST_VALUES)) or not 1 <= int(digits) <= MOST_VALUES:
        raise InvalidInput(
            f"{label}: the count must be a whole number from 1 to {MOST_VALUES:,}, got {_short(written)}"
        )
    return int(digits)


def _number(label: str, written: str) -> float:
    try:
        number = float(written)
    except ValueError as error:
        raise InvalidInput(f"{label}: {_short(written.strip())} is not a number; {FORMS}") from error
    if np.isnan(number):
        raise InvalidInput(f"{label}: values must be numbers, got {_short(written.strip())}")
    return number


def _short(written: str) -> str:
    return repr(written if len(written) <= 60 else written[:57] + "...")

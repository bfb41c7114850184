"""Numbers given per agent: checked once, kept as read-only float arrays.

A pandas Series or frame says whose its numbers are by its labels. Labels that are the names of the agents (lots, tasks)
are followed, in whatever order they stand; those that only count from zero say nothing, and numbers go by position; all
others are refused. pandas itself is not needed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.utils.errors import InvalidInput, short_repr

FloatArray = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)

POSITIVE = "positive and finite"
NON_NEGATIVE = "at least zero and finite"
ONE_OR_ONE_EACH = "must be a number or one number per {kind}"
MAX_ERRORS = 1000  # of one argument: nobody reads more, and a matrix of NaN would hold millions
MAX_FAULTS = 4  # labels named in one error


class LotLabels(tuple[str, ...]):
    """Names of lots of data, where numbers are given per lot."""

    kind = "lot"


class TaskLabels(tuple[str, ...]):
    """Names of tasks, where numbers are given per task."""

    kind = "task"


def labels_of(given: Any, axis: str = "index") -> list[Any] | None:
    """The labels of a pandas object, of its `index` or `columns`; None where there are none or they just count."""
    index = getattr(given, axis, None)
    if index is None or callable(index):  # lists have a method of that name
        return None
    labels = list(index)
    return None if labels == list(range(len(labels))) else labels


def label_positions(field: str, labels: Sequence[Any], names: Sequence[str], *, where: str = "index") -> list[int]:
    """Where the number of each name stands among labels that are these names in any order.

    Examples
    --------
    >>> label_positions("costs", ["B", "A"], ["A", "B"])
    [1, 0]
    >>> label_positions("costs", ["B", "C"], ["A", "B"])
    Traceback (most recent call last):
        ...
    fedpact.utils.errors.InvalidInput: costs must have the members' names as its index: "A" is missing, "C" is none of \
them; label it by these names, or give its .to_numpy() to go by position
    """
    kind: str = getattr(names, "kind", "member")
    index, known = {label: position for position, label in enumerate(labels)}, set(names)
    faults = [f'"{name}" is missing' for name in names if name not in index]
    faults += [f'"{label}" is none of them' for label in index if label not in known]
    faults += [f'"{label}" is there twice' for position, label in enumerate(labels) if index[label] != position]
    if faults:
        listed = ", ".join(faults[:MAX_FAULTS]) + (", ..." if len(faults) > MAX_FAULTS else "")
        raise InvalidInput(
            field=field,
            rule=f"must have the {kind}s' names as its {where}",
            value=labels,
            given=f": {listed}; label it by these names, or give its .to_numpy() to go by position",
        )
    return [index[name] for name in names]


def align(field: str, given: Any, names: Sequence[str]) -> Any:
    """What is given per name, in the order of the names; as it is where it has no labels."""
    labels = labels_of(given)
    return given if labels is None else np.asarray(given)[label_positions(field, labels, names)]


def align_columns(field: str, given: Any, names: Sequence[str]) -> Any:
    """A matrix with a column per name, in the order of the names; as it is where its columns have no labels."""
    labels = labels_of(given, "columns")
    return given if labels is None else np.asarray(given)[:, label_positions(field, labels, names, where="columns")]


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """The array itself, which nobody writes to any more."""
    array.setflags(write=False)
    return array


def read_only_copy(array: ArrayLike) -> FloatArray:
    """A read-only float copy of `array`, never sharing memory with it."""
    return read_only(np.array(array, dtype=np.float64))


def real_numbers(given: Any) -> FloatArray:
    """A float copy of real numbers; `TypeError` for truth values, texts and complex numbers.

    Examples
    --------
    >>> real_numbers([1, 2.5]).tolist()
    [1.0, 2.5]
    >>> real_numbers([1, True])
    Traceback (most recent call last):
        ...
    TypeError: bool is no real number
    """
    # In a list single truth values would be lost among the numbers, so its entries are looked at one by one.
    array = np.asarray(given) if hasattr(given, "dtype") else np.array(given, dtype=object)
    kinds = set(map(type, array.ravel().tolist())) if array.dtype == object else {array.dtype.type}
    for kind in kinds:
        if issubclass(kind, bool | np.bool_ | str | bytes | complex | np.complexfloating):
            raise TypeError(f"{kind.__name__} is no real number")
    return np.array(given, dtype=np.float64)


def first_where(mask: NDArray[np.bool_]) -> int | None:
    """Index of the first true entry, or None."""
    hits = np.flatnonzero(mask)
    return int(hits[0]) if hits.size else None


def checked_numbers(
    field: str,
    given: Any,
    accepts: Callable[[FloatArray], NDArray[np.bool_]],
    rule: str,
    *,
    names: Sequence[str] | None = None,
    index: int | tuple[int, ...] = (),
    agent: str | None = None,
) -> FloatArray:
    """A read-only array of one number, or one per agent, every entry of which passes `accepts`.

    The result is 0-d when one number was given. With `names` a 1-d array must have one entry per name, and errors
    speak of the agent by name, or of the lot or task (`LotLabels`, `TaskLabels`); numbers with labels are put in the
    order of the names. Without names these are refused. `index` and `agent` say whose a single number is.
    """
    kind: str = getattr(names, "kind", "member")
    one_or_one_each = ONE_OR_ONE_EACH.format(kind=kind)
    try:
        if given is None:
            raise TypeError("nothing given")
        array = real_numbers(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(field=field, index=index, rule=one_or_one_each, value=given) from error
    if array.ndim > 1:
        shape = f", got an array of shape {array.shape}"
        raise InvalidInput(field=field, rule=one_or_one_each, value=given, given=shape)
    labels = labels_of(given) if array.ndim == 1 else None
    if labels is not None and names is not None:
        array = array[label_positions(field, labels, names)]
    elif labels is not None:
        way_out = f", got labels such as {short_repr(labels[0])}: give its .to_numpy(), in the order of the members"
        raise InvalidInput(field=field, rule="goes by position", value=given, given=way_out)
    if names is not None and array.ndim == 1 and array.size != len(names):
        counts = f": {len(names)} {kind}s, {array.size} numbers given"
        raise InvalidInput(field=field, rule=one_or_one_each, value=given, given=counts)
    numbers = np.atleast_1d(array)
    wrong = np.flatnonzero(~accepts(numbers))
    if wrong.size:
        each = array.ndim == 1
        raise InvalidInput.first_of(
            [
                InvalidInput(
                    field=field,
                    index=int(entry) if each else index,
                    rule=f"must be {rule.removesuffix(' and finite') if np.isfinite(numbers[entry]) else rule}",
                    value=float(numbers[entry]),
                    agent=names[entry] if each and names is not None else agent,
                    whose=f'{kind} "{names[entry]}"' if each and names is not None else None,
                )
                for entry in wrong[:MAX_ERRORS]
            ]
        )
    return read_only(array)


def positive(array: FloatArray) -> NDArray[np.bool_]:
    """Entries that are positive and finite."""
    return (array > 0) & np.isfinite(array)


def non_negative(array: FloatArray) -> NDArray[np.bool_]:
    """Entries that are at least zero and finite."""
    return (array >= 0) & np.isfinite(array)


def whole_number(label: str, given: Any, *, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise InvalidInput(f"{label} must be a whole number of at least {least}, got {short_repr(given)}")
    return int(given)


def one_number(label: str, given: Any, accepts: Callable[[Any], Any], rule: str) -> float:
    """One number that follows a rule."""
    number = checked_numbers(label, given, accepts, rule)
    if number.ndim:
        raise InvalidInput(f"{label} must be one number, got {number.size}")
    return float(number)

"""What is varied, in words a person writes: `weights[0,1]=-3:3:121`, `costs[City]=0.001,0.01`, `beta=0.01:1:40:log`.

| written                 | varies                                                              |
|-------------------------|---------------------------------------------------------------------|
| `weights[i,j]`          | how useful j's data is to i; the row receives                       |
| `weights[*,j]`          | j's data to everybody else                                          |
| `weights[i,*]`          | everybody else's data to i                                          |
| `weights`               | all weights between different agents                                |
| `costs[i]`, `costs`     | the linear cost of one agent, of all                                |
| `costs.quadratic[i]`    | the quadratic cost                                                  |
| `caps[i]`, `values[i]`  | what an agent can contribute at most; money per unit of payoff      |
| `shared_caps[i]`        | what a member's lots under a shared cap come to at most: the member's name, or the number |
| `beta[i]`, `beta`       | a parameter of the payoff family, also `payoff.beta`                |

Where agents have several lots of data or tasks, rows are tasks and columns lots; costs and caps are per lot, values and
the payoff's parameters per task. They are given as reports write them ("City: X-rays"), by number, or all of an agent's
by its name.

Agents are given by name or by number; where a name is a number too, the name counts. A name may hold commas, brackets
and equals signs. Values are `start:stop:count`, evenly spaced; `start:stop:count:log`, evenly in their logarithms; or a
list, `0.1,0.2,0.5`. They may fall, and must differ from one another. Two axes may not set the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

EXAMPLE = 'write for example "weights[0,1]=-3:3:121" or "costs=0.001,0.01,0.1"'
EVERYBODY = "*"
MAX_NAMES_IN_ERROR = 6
MAX_VALUES = 1_000_000
FORMS = 'write "start:stop:count", "start:stop:count:log" or a list such as "0.1,0.2,0.5"'
SPACING_DIGITS = 15  # of the larger end, in evenly spaced values


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """One parameter and the values it takes.

    Attributes
    ----------
    label
        The parameter as it was written, such as "weights[0,1]".
    field
        What of the federation's arrays varies: "weights", "linear", "quadratic", "caps", "values", "shared_limits" or
        a payoff's parameter.
    places
        Where: the rows and the columns of the weights, or the agents.
    points
        The values.
    """

    label: str
    field: str
    places: tuple[np.ndarray, ...]
    points: FloatArray


def parse_axis(written: str | tuple[str, ArrayLike], federation: Federation) -> Axis:
    """The axis a person wrote, or a parameter and its values, checked against the federation.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, payoff=PowerLaw(0.1), names=["North", "South"])
    >>> parse_axis("weights[North,1]=0:1:5", pair).points.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> parse_axis(("costs", [0.01, 0.02]), pair).label
    'costs'
    """
    if isinstance(written, tuple):
        label, values = str(written[0]), _check_values(str(written[0]), written[1])
        index = _index_of(label)
    else:
        label, index, texts = _split_axis(written)
        values = parse_values(label, texts)
    field = _field(label.partition("[")[0].strip(), federation)
    places = _pairs(label, index, federation) if field == "weights" else _single(label, index, federation, field)
    if not places[0].size:
        why = f"{label} varies nothing: it is about the weights between members, and there is only one"
        raise InvalidInput(why, field=label, rule="must vary something", value=written)
    axis = Axis(label=label, field=field, places=places, points=read_only_copy(values))
    check_axes(federation, [axis])
    return axis


def check_axes(federation: Federation, axes: Sequence[Axis]) -> None:
    """Axes must not set the same number, and the federations at the corners of the grid must exist.

    What federations may be is a matter of signs and of being finite, so the others exist if those at the corners do.
    """
    if len(axes) == 2:
        _check_overlap(axes[0], axes[1], federation)
    ends = [np.unique([axis.points.min(), axis.points.max()]) for axis in axes]
    for corner in product(*ends):
        try:
            federation.with_arrays(arrays_at(federation, axes, [np.array([value]) for value in corner]).at(0))
        except InvalidInput as error:
            where = " and ".join(f"{axis.label} = {value:g}" for axis, value in zip(axes, corner, strict=True))
            why = f"there is no federation with {where}: {error}"
            raise InvalidInput(
                why, field=error.field, index=error.index, rule=error.rule, value=error.value, agent=error.agent
            ) from error


def arrays_at(federation: Federation, axes: Sequence[Axis], points: Sequence[FloatArray]) -> FederationArrays:
    """The federations at given values of the axes: `points[a][k]` is the value of axis a in federation k."""
    own, size = _own_numbers(federation), points[0].size
    varied: dict[str, Any] = {}
    for axis, values in zip(axes, points, strict=True):
        if axis.field not in varied:
            varied[axis.field] = np.repeat(own[axis.field][None], size, axis=0)
        everywhere: Any = (slice(None), *axis.places)
        varied[axis.field][everywhere] = values[:, None]
    arrays = federation.arrays.repeated(size)
    parameters = {name: varied.pop(name, numbers) for name, numbers in arrays.payoff.parameters.items()}
    return replace(arrays, **varied, payoff=arrays.payoff.unchecked(**parameters))


def _own_numbers(federation: Federation) -> Mapping[str, FloatArray]:
    """The federation's own numbers, by field."""
    arrays = federation.arrays
    own = {name: getattr(arrays, name) for name in ("linear", "quadratic", "caps", "values", "shared_limits")}
    parameters = {
        name: np.broadcast_to(numbers, federation.n_tasks) for name, numbers in federation.payoff.parameters.items()
    }
    return {"weights": federation.dense_weights(), **own, **parameters}


def _split_axis(written: str) -> tuple[str, str | None, str]:
    """The label, what stands in its brackets if there are any, and the values, which hold neither = nor brackets."""
    label, equals, values = (part.strip() for part in written.rpartition("="))
    name, bracket, index = label.partition("[")
    if not equals or not name or not values or (bracket and not index.endswith("]")):
        why = f"what to vary must be NAME=VALUES, got {written!r}; {EXAMPLE}"
        raise InvalidInput(why, field="vary", rule="must be NAME=VALUES", value=written)
    return label, _index_of(label), values


def _index_of(label: str) -> str | None:
    """What stands in the brackets of a label, if it has any."""
    _, bracket, index = label.partition("[")
    return index.removesuffix("]") if bracket else None


def _field(name: str, federation: Federation) -> str:
    parameters = federation.payoff.parameters
    known = {"weights": "weights", "costs": "linear", "costs.linear": "linear", "costs.quadratic": "quadratic"}
    known |= {"caps": "caps", "values": "values"} | ({"shared_caps": "shared_limits"} if federation.shared_caps else {})
    known |= {prefix + parameter: parameter for parameter in parameters for prefix in ("", "payoff.")}
    if name not in known:
        offered = [each for each in known if each != "costs.linear" and not each.startswith("payoff.")]
        known_names = ", ".join(offered)
        why = f"there is no parameter {name!r} to vary; there are {known_names}"
        raise InvalidInput(why, field="vary", rule=f"must be one of {known_names}", value=name)
    return known[name]


@dataclass(frozen=True, kw_only=True)
class _Side:
    """The rows or columns of the weights: what each is called, and whose it is."""

    kind: str
    names: Sequence[str]
    owners: np.ndarray
    agents: Sequence[str]

    def find(self, given: str) -> np.ndarray | None:
        """The places meant: those of a name, a number or all of an agent's; None if there are none."""
        short = given.strip()
        for name in (given, short):
            if name in self.names:
                return np.array([list(self.names).index(name)])
            if name in self.agents and (owned := np.flatnonzero(self.owners == list(self.agents).index(name))).size:
                return owned
        size = len(self.names)
        is_number = short.isdecimal() and len(short) <= len(str(size)) and int(short) < size
        return np.array([int(short)]) if is_number else None


def _side(federation: Federation, *, of_lots: bool) -> _Side:
    kind = ("lot" if of_lots else "task") if federation.has_lots else "member"
    names = federation.lot_labels if of_lots else federation.task_labels
    owners = federation.lot_owners if of_lots else federation.task_owners
    return _Side(kind=kind, names=names, owners=owners, agents=federation.names)


def _shared_side(federation: Federation) -> _Side:
    """Shared caps, called by their lots or by whose they are."""
    labels, shared = federation.lot_labels, federation.shared_caps
    names = [" + ".join(labels[lot] for lot in each.lots) for each in shared]
    owners = federation.lot_owners[[each.lots[0] for each in shared]]
    return _Side(kind="shared cap", names=names, owners=owners, agents=federation.names)


def _pairs(label: str, index: str | None, federation: Federation) -> tuple[np.ndarray, ...]:
    """The rows and columns of the weights meant; with everybody on either side, those of different agents."""
    chosen = federation.task_owners[:, None] != federation.lot_owners
    if index is None:
        return np.nonzero(chosen)
    rows, columns = _two_sides(label, index, federation)
    if rows is not None and columns is not None:
        return np.repeat(rows, columns.size), np.tile(columns, rows.size)
    if rows is not None:
        chosen &= np.isin(np.arange(federation.n_tasks), rows)[:, None]
    if columns is not None:
        chosen &= np.isin(np.arange(federation.n_lots), columns)
    return np.nonzero(chosen)


def _two_sides(label: str, index: str, federation: Federation) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The two sides of a pair; names may hold commas, so every comma is tried as the one between them."""
    sides = _side(federation, of_lots=False), _side(federation, of_lots=True)
    parts = index.split(",")
    splits = [(",".join(parts[:at]), ",".join(parts[at:])) for at in range(1, len(parts))]
    if not splits:
        why = f"{label} needs two members, the one that receives and the one that gives, as in weights[0,1]"
        raise InvalidInput(why, field=label, rule="must name two members", value=index)
    known = [split for split in splits if all(_is_known(part, side) for part, side in zip(split, sides, strict=True))]
    if len(known) > 1:
        why = f"{label} can be read as more than one pair of members; give them by number"
        raise InvalidInput(why, field=label, rule="must name one pair of members", value=index)
    row, column = (known or splits)[0]
    return _places(label, row, sides[0]), _places(label, column, sides[1])


def _single(label: str, index: str | None, federation: Federation, field: str) -> tuple[np.ndarray, ...]:
    if field == "shared_limits":
        side = _shared_side(federation)
    else:
        side = _side(federation, of_lots=field in {"linear", "quadratic", "caps"})
    places = None if index is None else _places(label, index, side)
    return (np.arange(len(side.names)) if places is None else places,)


def _is_known(given: str, side: _Side) -> bool:
    return given.strip() == EVERYBODY or side.find(given) is not None


def _places(label: str, given: str, side: _Side) -> np.ndarray | None:
    """The places of an agent, lot or task; None for all."""
    if given.strip() == EVERYBODY:
        return None
    places = side.find(given)
    if places is None:
        size = len(side.names)
        names = ", ".join(side.names[:MAX_NAMES_IN_ERROR]) + ", ..." * (size > MAX_NAMES_IN_ERROR)
        why = (
            f"{label}: there is no {side.kind} {given.strip()!r}; {side.kind}s are numbered 0 to {size - 1}, "
            f"or called by name: {names}"
        )
        raise InvalidInput(why, field=label, rule=f"must name {side.kind}s of the federation", value=given.strip())
    return places


def _check_overlap(first: Axis, second: Axis, federation: Federation) -> None:
    if first.field != second.field:
        return
    shape = _own_numbers(federation)[first.field].shape
    both = np.intersect1d(np.ravel_multi_index(first.places, shape), np.ravel_multi_index(second.places, shape))
    if both.size:
        index = ",".join(str(int(part)) for part in np.unravel_index(int(both[0]), shape))
        parameter = first.label.partition("[")[0]
        why = f"{first.label} and {second.label} both set {parameter}[{index}]"
        raise InvalidInput(
            f"{why}; vary two parameters that do not overlap",
            field=second.label,
            rule="must not overlap with the other parameter",
            value=first.label,
        )


def parse_values(label: str, written: str) -> FloatArray:
    """The numbers a person wrote; errors begin with the label.

    Examples
    --------
    >>> parse_values("weights[0,1]", "-0.9:0.9:7").tolist()
    [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    """
    values = _parse_range(label, written.split(":")) if ":" in written else _parse_list(label, written)
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        again = distinct[counts > 1][0]
        raise _values_error(
            label, "values must differ", written, f", got {again:g} more than once in {_shorten(written)}"
        )
    return values


def _check_values(label: str, given: ArrayLike) -> FloatArray:
    """Values given as numbers: one or more, all different."""
    values = np.atleast_1d(checked_numbers(label, given, lambda numbers: ~np.isnan(numbers), "numbers"))
    if not values.size or np.unique(values).size < values.size:
        raise _values_error(label, "values must be one or more, and differ", str(given), f", got {short_repr(given)}")
    return values


def _parse_list(label: str, written: str) -> FloatArray:
    return np.array([_parse_number(label, part) for part in written.split(",")]) + 0.0


def _parse_range(label: str, parts: list[str]) -> FloatArray:
    written = ":".join(parts)
    if len(parts) not in {3, 4} or (len(parts) == 4 and parts[3].strip() != "log"):
        raise _values_error(label, f"values cannot be {_shorten(written)}", written, f"; {FORMS}")
    start, stop, count = _parse_number(label, parts[0]), _parse_number(label, parts[1]), _parse_count(label, parts[2])
    if not (np.isfinite(start) and np.isfinite(stop)):
        given = f", got {_shorten(written)}; list the values instead"
        raise _values_error(label, "a range needs finite ends", written, given)
    if start == stop or count == 1:
        given = f", got {_shorten(written)}; a single value is written alone, {label}={start:g}"
        raise _values_error(label, "a range needs two different ends and a count of at least 2", written, given)
    if len(parts) == 3:
        return _spread_evenly(start, stop, count)
    if start <= 0 or stop <= 0:
        given = f", got {_shorten(written)}; leave out :log or raise them"
        raise _values_error(label, "a logarithmic range needs positive ends", written, given)
    return np.geomspace(start, stop, count)


def _spread_evenly(start: float, stop: float, count: int) -> FloatArray:
    """Evenly spaced, without the rounding that would make 0 a -1e-16, which is harm where there is none."""
    part = np.linspace(0.0, 1.0, count)
    values = start * (1.0 - part) + stop * part
    decimals = SPACING_DIGITS - 1 - int(np.floor(np.log10(max(abs(start), abs(stop)))))
    rounded = np.round(values, decimals) if abs(decimals) < 300 else values
    rounded[[0, -1]] = start, stop
    return rounded + 0.0


def _parse_count(label: str, written: str) -> int:
    digits = written.strip()
    if not digits.isdecimal() or len(digits) > len(str(MAX_VALUES)) or not 1 <= int(digits) <= MAX_VALUES:
        rule = f"the count must be a whole number from 1 to {MAX_VALUES:,}"
        raise _values_error(label, rule, written, f", got {_shorten(written)}")
    return int(digits)


def _parse_number(label: str, written: str) -> float:
    try:
        number = float(written)
    except ValueError as error:
        raise _values_error(label, f"{_shorten(written.strip())} is not a number", written, f"; {FORMS}") from error
    if np.isnan(number):
        raise _values_error(label, "values must be numbers", written, f", got {_shorten(written.strip())}")
    return number


def _values_error(label: str, rule: str, written: str, given: str) -> InvalidInput:
    return InvalidInput(f"{label}: {rule}{given}", field=label, rule=rule, value=written)


def _shorten(written: str) -> str:
    return repr(written if len(written) <= 60 else written[:57] + "...")

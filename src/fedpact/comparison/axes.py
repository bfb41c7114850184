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
| `home[i]`               | data that its owner uses anyway, where the federation has such data |
| `joining_costs[i]`      | what taking part costs a member once: in units of payoff, or sums such as `50000 EUR` |
| `budgets[i]`            | the most a member can pay, likewise                                 |
| `shared_caps[i]`        | what a member's lots under a shared cap come to at most: the member's name, or the number |
| `beta[i]`, `beta`       | a parameter of the payoff family, also `payoff.beta`                |

Where agents have several lots of data or tasks, rows are tasks and columns lots; costs and caps are per lot, values and
the payoff's parameters per task. They are given as reports write them ("City: X-rays"), by number, or all of an agent's
by its name.

Agents are given by name or by number; where a name is a number too, the name counts. In a pair, names that hold commas
go by number. Values are `start:stop:count`, evenly spaced; `start:stop:count:log`, evenly in their logarithms; or a
list, `0.1,0.2,0.5`. They may fall, and must differ from one another. Two axes may not set the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.federation import Federation
from fedpact.federation.arrays import FederationArrays
from fedpact.scenario import Money
from fedpact.scenario.members_words import SUMS, parse_sum
from fedpact.utils.arrays import FloatArray, checked_numbers, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.tables import typed_number

EXAMPLE = 'write for example "weights[0,1]=-3:3:121" or "costs=0.001,0.01,0.1"'
EVERYBODY = "*"
MAX_NAMES_IN_ERROR = 6
MAX_VALUES = 1_000_000
FORMS = 'write "start:stop:count", "start:stop:count:log" or a list such as "0.1,0.2,0.5"'
SPACING_DIGITS = 15  # of the larger end, in evenly spaced values


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """One parameter and the values it takes."""

    label: str  # the parameter as it was written, such as "weights[0,1]"
    # what of the federation's arrays varies: "weights", "linear", "quadratic", "caps", "values", "joining_costs",
    # "budgets", "shared_limits" or a payoff's parameter; or "home", which is not among them
    field: str
    indices: tuple[np.ndarray, ...]  # where: the rows and the columns of the weights, or the agents
    points: FloatArray  # the values


def parse_axis(written: str | tuple[str, ArrayLike], federation: Federation, *, money: Money | None = None) -> Axis:
    """The axis a person wrote, or a parameter and its values, checked against the federation.

    With `money`, joining costs and budgets may be written as sums of it.

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
        label = str(written[0])
        numbers = checked_numbers(label, written[1], lambda each: ~np.isnan(each), "numbers")
        values = _check_distinct(label, np.atleast_1d(numbers), written[1])
    else:
        label, equals, texts = (
            part.strip() for part in str(written).rpartition("=")
        )  # values hold neither = nor brackets
        if not equals or not label or not texts or ("[" in label and not label.endswith("]")):
            given = f", got {short_repr(written)}; {EXAMPLE}"
            raise InvalidInput(field="vary", rule="must be NAME=VALUES", value=written, given=given)
        values = parse_values(label, texts, money if label.partition("[")[0].strip() in SUMS else None)
    name, bracket, inside = label.partition("[")
    index = inside.removesuffix("]") if bracket else None
    field = _field(name.strip(), federation)
    if field == "weights":
        indices = _pairs(label, index, federation)
    else:
        indices = (_side(federation, field).find(label, EVERYBODY if index is None else index),)
    if not indices[0].size:
        given = ": it is about the weights between members, and there is only one"
        raise InvalidInput(field=label, rule="varies nothing", value=written, given=given)
    axis = Axis(label=label, field=field, indices=indices, points=read_only_copy(values))
    check_axes(federation, [axis])
    return axis


def check_axes(federation: Federation, axes: Sequence[Axis]) -> None:
    """Axes must not set the same number, and the federations at the corners of the grid must exist.

    What federations may be is a matter of signs, of being finite and of how far numbers lie apart. So the others exist
    if those do at the ends of every axis and at its value nearest to zero.
    """
    if len(axes) == 2 and axes[0].field == axes[1].field:
        _check_overlap(axes[0], axes[1])
    for corner in product(*(_extremes(axis.points) for axis in axes)):
        try:
            points = [np.array([value]) for value in corner]
            for axis, value in zip(axes, points, strict=True):
                if axis.field == "home" and federation.home is not None:
                    federation.replace(home=_put(federation.home, axis, value)[0])
            federation.with_arrays(arrays_at(federation, axes, points).at(0))
        except InvalidInput as error:
            where = " and ".join(f"{axis.label} = {value:g}" for axis, value in zip(axes, corner, strict=True))
            raise error.within(f"there is no federation with {where}") from error


def _extremes(points: FloatArray) -> FloatArray:
    nearest = np.abs(points[points != 0]).min(initial=np.inf)
    return np.unique([points.min(), points.max(), *points[np.abs(points) == nearest]])


def arrays_at(federation: Federation, axes: Sequence[Axis], points: Sequence[FloatArray]) -> FederationArrays:
    """The federations at given values of the axes: `points[a][k]` is the value of axis a in federation k."""
    arrays = federation.given_arrays.repeated(points[0].size)
    parameters = dict(arrays.payoff.parameters)
    varied: dict[str, Any] = {}
    for axis, values in zip(axes, points, strict=True):
        if axis.field in parameters:
            own = np.broadcast_to(parameters[axis.field], arrays.values.shape)
        else:
            own = getattr(federation if axis.field == "home" else arrays, axis.field)
        varied[axis.field] = _put(varied.get(axis.field, own), axis, values)
    parameters = {name: varied.pop(name, numbers) for name, numbers in parameters.items()}
    home = varied.pop("home", federation.home)
    arrays = replace(arrays, **varied, payoff=arrays.payoff.unchecked(**parameters))
    return arrays if home is None else arrays.counted_from_home(home)


def _put(numbers: FloatArray, axis: Axis, values: FloatArray) -> FloatArray:
    """Numbers (..., of a federation) once for each value of an axis, with the value at its indices."""
    shape = numbers.shape if numbers.ndim > len(axis.indices) else (values.size, *numbers.shape)
    made = np.array(np.broadcast_to(numbers, shape))
    everywhere: Any = (slice(None), *axis.indices)
    made[everywhere] = values[:, None]
    return made


def _field(name: str, federation: Federation) -> str:
    parameters = federation.payoff.parameters
    known = {"weights": "weights", "costs": "linear", "costs.linear": "linear", "costs.quadratic": "quadratic"}
    known |= {name: name for name in ("caps", "values", "joining_costs", "budgets")}
    known |= {"home": "home"} if federation.home is not None else {}
    known |= {"shared_caps": "shared_limits"} if federation.shared_caps else {}
    known |= {prefix + parameter: parameter for parameter in parameters for prefix in ("", "payoff.")}
    if name == "home" and name not in known:
        given = ': the federation has none; say how much there is, home = "all" or amounts, to vary it'
        raise InvalidInput(field="home", rule="needs data at home", value=name, given=given)
    if name not in known:
        offered = [each for each in known if each != "costs.linear" and not each.startswith("payoff.")]
        raise InvalidInput(field="vary", rule=f"must name one of {', '.join(offered)}", value=name)
    return known[name]


@dataclass(frozen=True, kw_only=True)
class _Side:
    """What an index may name: members, tasks, lots or shared caps. `indices` go by number, owner and label."""

    kind: str
    labels: Sequence[str]
    indices: Mapping[str, NDArray[np.intp]]

    def find(self, label: str, given: str) -> NDArray[np.intp]:
        """The indices of what is named, or an error that begins with the label."""
        if (found := self.indices.get(given.strip())) is not None:
            return found
        size, kind = len(self.labels), self.kind
        names = ", ".join(self.labels[:MAX_NAMES_IN_ERROR]) + ", ..." * (size > MAX_NAMES_IN_ERROR)
        why = f"{label}: there is no {kind} {given.strip()!r}; {kind}s are numbered 0 to {size - 1}, or called by name"
        raise InvalidInput(
            f"{why}: {names}", field=label, rule=f"must name {kind}s of the federation", value=given.strip()
        )


def _side(federation: Federation, field: str) -> _Side:
    """What the index of a field names; of the weights, their columns."""
    labels: Sequence[str] = federation.lot_labels
    owners = federation.lot_owners
    kind = "lot" if federation.has_lots else "member"
    if field == "shared_limits":
        shared = federation.shared_caps
        labels, kind = [" + ".join(labels[lot] for lot in each.lots) for each in shared], "shared cap"
        owners = owners[[each.lots[0] for each in shared]]
    elif field in SUMS:
        labels, owners, kind = federation.names, np.arange(federation.n_agents), "member"
    elif field not in {"weights", "linear", "quadratic", "caps", "home"}:
        labels, owners = federation.task_labels, federation.task_owners
        kind = "task" if federation.has_lots else "member"
    everything = np.arange(len(labels))
    indices = {str(index): everything[index : index + 1] for index in everything}
    owned = {name: np.flatnonzero(owners == agent) for agent, name in enumerate(federation.names)}
    indices |= {name: those for name, those in owned.items() if those.size}
    indices |= {label: everything[index : index + 1] for index, label in enumerate(labels)}
    return _Side(kind=kind, labels=labels, indices=indices | {EVERYBODY: everything})


def _pairs(label: str, index: str | None, federation: Federation) -> tuple[NDArray[np.intp], ...]:
    """The rows and columns of the weights meant; with everybody on either side, those of different agents."""
    rows, columns = _side(federation, "values"), _side(federation, "weights")
    row, comma, column = (EVERYBODY, ",", EVERYBODY) if index is None else index.partition(",")
    if not comma:
        given = ", the one that receives and the one that gives, as in weights[0,1]"
        raise InvalidInput(field=label, rule="needs two members", value=index, given=given)
    chosen = np.zeros((federation.n_tasks, federation.n_lots), dtype=bool)
    chosen[np.ix_(rows.find(label, row), columns.find(label, column))] = True
    if EVERYBODY in {row.strip(), column.strip()}:
        chosen &= federation.task_owners[:, None] != federation.lot_owners
    return np.nonzero(chosen)


def _check_overlap(first: Axis, second: Axis) -> None:
    one, other = (set(zip(*(each.tolist() for each in axis.indices), strict=True)) for axis in (first, second))
    if one & other:
        index, parameter = ",".join(map(str, min(one & other))), first.label.partition("[")[0]
        given = f" {first.label}: both set {parameter}[{index}]"
        raise InvalidInput(field=second.label, rule="must not overlap with", value=first.label, given=given)


def parse_values(label: str, written: str, money: Money | None = None) -> FloatArray:
    """The numbers a person wrote; errors begin with the label. Sums of `money` become units of payoff.

    Examples
    --------
    >>> parse_values("weights[0,1]", "-0.9:0.9:7").tolist()
    [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    """
    parts = written.split(":")[:2] if ":" in written else written.split(",")
    if money is not None and 0 < sum(parse_sum(label, part) is not None for part in parts) < len(parts):
        given = f', got {short_repr(written)}; write all of them as "50000 {money.currency}"'
        raise _values_error(label, "values must all be sums of money if one is", written, given)
    if ":" in written:
        values = _parse_range(label, written, money)
    else:
        values = np.array([_parse_number(label, part, money) for part in written.split(",")]) + 0.0
    return _check_distinct(label, values, written)


def _check_distinct(label: str, values: FloatArray, given: Any) -> FloatArray:
    distinct, counts = np.unique(values, return_counts=True)
    if not values.size:
        raise _values_error(label, "values must be one or more", given, f", got {short_repr(given)}")
    if distinct.size < values.size:
        again = f", got {distinct[counts > 1][0]:g} more than once in {short_repr(given)}"
        raise _values_error(label, "values must differ", given, again)
    return values


def _parse_range(label: str, written: str, money: Money | None) -> FloatArray:
    parts, shown = [part.strip() for part in written.split(":")], short_repr(written)
    if len(parts) not in {3, 4} or parts[3:] not in ([], ["log"]):
        raise _values_error(label, f"values cannot be {shown}", written, f"; {FORMS}")
    start, stop = (_parse_number(label, part, money) for part in parts[:2])
    if not parts[2].isdecimal() or len(parts[2]) > len(str(MAX_VALUES)) or not 1 <= int(parts[2]) <= MAX_VALUES:
        rule = f"the count must be a whole number from 1 to {MAX_VALUES:,}"
        raise _values_error(label, rule, written, f", got {short_repr(parts[2])}")
    count = int(parts[2])
    if not (np.isfinite(start) and np.isfinite(stop)):
        given = f", got {shown}; list the values instead"
        raise _values_error(label, "a range needs finite ends", written, given)
    if start == stop or count == 1:
        given = f", got {shown}; a single value is written alone, {label}={start:g}"
        raise _values_error(label, "a range needs two different ends and a count of at least 2", written, given)
    if len(parts) == 3:
        values = np.linspace(start, stop, count)
        # Rounding would make 0 a -1e-16, which is harm where there is none.
        digits = SPACING_DIGITS - 1 - int(np.floor(np.log10(max(abs(start), abs(stop)))))
        values[1:-1] = np.round(values[1:-1], digits)
        return values + 0.0
    if start <= 0 or stop <= 0:
        given = f", got {shown}; leave out :log or raise them"
        raise _values_error(label, "a logarithmic range needs positive ends", written, given)
    return np.geomspace(start, stop, count)


def _parse_number(label: str, written: str, money: Money | None = None) -> float:
    stated = None if money is None else parse_sum(label, written)
    if stated is not None and money is not None:
        if stated[1] != money.currency:
            raise _values_error(label, f"sums must be in {money.currency}", written, f", got {written.strip()!r}")
        return stated[0] / money.per_payoff
    try:
        number = typed_number(written)
    except InvalidInput as error:
        raise error.within(label) from error
    except ValueError as error:
        why = f"{short_repr(written.strip())} is not a number"
        sums = f', or sums such as "50000 {money.currency}"' if money is not None else ""
        raise _values_error(label, why, written, f"; {FORMS}{sums}") from error
    if np.isnan(number):
        raise _values_error(label, "values must be numbers", written, f", got {written.strip()!r}")
    return number


def _values_error(label: str, rule: str, written: Any, given: str) -> InvalidInput:
    return InvalidInput(f"{label}: {rule}{given}", field=label, rule=rule, value=written)

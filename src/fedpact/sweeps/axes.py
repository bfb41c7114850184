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
| `beta[i]`, `beta`       | a parameter of the payoff family, also `payoff.beta`                |

Agents are given by number or by name. Values are `start:stop:count`, evenly spaced; `start:stop:count:log`, evenly in
their logarithms; or a list, `0.1,0.2,0.5`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.arrays import FloatArray, frozen
from fedpact.batch import Batch
from fedpact.errors import InvalidInput
from fedpact.federation import Federation

__all__ = ["Axis", "batch_at", "parse_axis"]

WRITTEN = re.compile(r"\s*(?P<name>[A-Za-z_.]+)\s*(\[(?P<index>[^\]]*)\])?\s*=\s*(?P<points>.+?)\s*")
EXAMPLE = 'write for example "weights[0,1]=-3:3:121" or "costs=0.001,0.01,0.1"'
EVERYBODY = "*"
MOST_POINTS = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Axis:
    """One parameter and the values it takes.

    Attributes
    ----------
    label
        The parameter as it was written, such as "weights[0,1]".
    field
        What of the federation varies: "weights", "costs", "quadratic", "caps", "values" or a payoff's parameter.
    places
        Where: the rows and the columns of the weights, or the agents.
    points
        The values.
    """

    label: str
    field: str
    places: tuple[np.ndarray, ...]
    points: FloatArray


def parse_axis(written: str, federation: Federation) -> Axis:
    """The axis a person wrote, checked against the federation.

    Examples
    --------
    >>> from fedpact import Federation, PowerLaw
    >>> pair = Federation([[1.0, 0.5], [0.2, 1.0]], costs=0.01, payoff=PowerLaw(0.1), names=["North", "South"])
    >>> parse_axis("weights[North,1]=0:1:5", pair).points.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    match = WRITTEN.fullmatch(written)
    if match is None:
        raise InvalidInput(f"what to vary must be NAME=VALUES, got {written!r}; {EXAMPLE}")
    name, index = match["name"], match["index"]
    field = _field(name, federation)
    label = name if index is None else f"{name}[{index.strip()}]"
    places = _pairs(label, index, federation) if field == "weights" else _agents(label, index, federation)
    axis = Axis(label=label, field=field, places=places, points=_points(label, match["points"]))
    _check_extremes(axis, federation)
    return axis


def batch_at(federation: Federation, axes: Sequence[Axis], points: Sequence[FloatArray]) -> Batch:
    """The federations at given values of the axes: `points[a][k]` is the value of axis a in federation k."""
    size, n_agents = points[0].size, federation.n_agents
    arrays: dict[str, FloatArray] = {}
    starts = _starts(federation)
    for axis, values in zip(axes, points, strict=True):
        if axis.field not in arrays:
            shape = (size, n_agents, n_agents) if axis.field == "weights" else (size, n_agents)
            arrays[axis.field] = np.array(np.broadcast_to(starts[axis.field], shape))
        everywhere: Any = (slice(None), *axis.places)
        arrays[axis.field][everywhere] = values[:, None]
    given: dict[str, Any] = {
        name: arrays.pop(name, None) for name in ("weights", "costs", "quadratic", "caps", "values")
    }
    return Batch.varied(federation, **given, parameters=arrays)


def _starts(federation: Federation) -> Mapping[str, FloatArray]:
    """The federation's own numbers, by field."""
    costs = federation.costs
    own = {"costs": costs.linear, "quadratic": costs.quadratic, "caps": federation.caps, "values": federation.values}
    return {"weights": federation.dense_weights(), **own, **federation.payoff.parameters}


def _field(name: str, federation: Federation) -> str:
    parameters = federation.payoff.parameters
    known = {"weights": "weights", "costs": "costs", "costs.linear": "costs", "costs.quadratic": "quadratic"}
    known |= {"caps": "caps", "values": "values"}
    known |= {prefix + parameter: parameter for parameter in parameters for prefix in ("", "payoff.")}
    if name not in known:
        offered = ["weights", "costs", "costs.quadratic", "caps", "values", *parameters]
        raise InvalidInput(f"there is no parameter {name!r} to vary; there are {', '.join(offered)}")
    return known[name]


def _pairs(label: str, index: str | None, federation: Federation) -> tuple[np.ndarray, ...]:
    n_agents = federation.n_agents
    others = ~np.eye(n_agents, dtype=bool)
    if index is None:
        return np.nonzero(others)
    parts = index.split(",")
    if len(parts) != 2:
        raise InvalidInput(f"{label} needs two agents, the one that receives and the one that gives: weights[0,1]")
    row, column = (_agent(label, part, federation) for part in parts)
    if row is not None and column is not None:
        return np.array([row]), np.array([column])
    chosen = others.copy()
    if row is not None:
        chosen[np.arange(n_agents) != row] = False
    if column is not None:
        chosen[:, np.arange(n_agents) != column] = False
    return np.nonzero(chosen)


def _agents(label: str, index: str | None, federation: Federation) -> tuple[np.ndarray, ...]:
    agent = None if index is None else _agent(label, index, federation)
    return (np.arange(federation.n_agents) if agent is None else np.array([agent]),)


def _agent(label: str, given: str, federation: Federation) -> int | None:
    """The number of an agent; None for everybody."""
    given = given.strip()
    if given == EVERYBODY:
        return None
    if given in federation.agent_names:
        return federation.agent_names.index(given)
    if given.isdecimal() and int(given) < federation.n_agents:
        return int(given)
    raise InvalidInput(
        f"{label}: there is no agent {given!r}; agents are numbered 0 to {federation.n_agents - 1}, "
        f"or called by name: {', '.join(federation.agent_names[:6])}{', ...' if federation.n_agents > 6 else ''}"
    )


def _points(label: str, written: str) -> FloatArray:
    parts = written.split(":")
    if len(parts) == 1:
        return frozen(np.array([_number(label, part) for part in written.split(",")]))
    if len(parts) not in {3, 4} or (len(parts) == 4 and parts[3].strip() != "log"):
        raise InvalidInput(f"{label}: values must be start:stop:count, start:stop:count:log or a list, got {written!r}")
    start, stop = _number(label, parts[0]), _number(label, parts[1])
    if not parts[2].strip().isdecimal() or not 1 <= int(parts[2]) <= MOST_POINTS:
        raise InvalidInput(f"{label}: the count must be a whole number from 1 to {MOST_POINTS}, got {parts[2]!r}")
    if not (np.isfinite(start) and np.isfinite(stop)):
        raise InvalidInput(f"{label}: a range needs finite ends, got {written!r}; list the values instead")
    if len(parts) == 3:
        return frozen(np.linspace(start, stop, int(parts[2])))
    if start <= 0 or stop <= 0:
        raise InvalidInput(f"{label}: a logarithmic range needs positive ends, got {written!r}")
    return frozen(np.geomspace(start, stop, int(parts[2])))


def _number(label: str, written: str) -> float:
    try:
        number = float(written)
    except ValueError as error:
        raise InvalidInput(f"{label}: {written.strip()!r} is not a number; {EXAMPLE}") from error
    if np.isnan(number):
        raise InvalidInput(f"{label}: values must be numbers, got {written.strip()!r}")
    return number


def _check_extremes(axis: Axis, federation: Federation) -> None:
    """The federations at the ends of the range must exist; rules of federations are about signs, so all others do."""
    for value in (axis.points.min(), axis.points.max()):
        try:
            batch_at(federation, [axis], [np.array([value])])[0]
        except InvalidInput as error:
            raise InvalidInput(f"{axis.label} cannot be {value:g}: {error}") from error

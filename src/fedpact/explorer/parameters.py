"""Numbers that a page can vary: one of the federation, or the same one of all members at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.comparison import Axis
from fedpact.explorer.draft import typed_text
from fedpact.explorer.validation import typed_number
from fedpact.federation import Federation
from fedpact.utils.arrays import FloatArray, read_only_copy
from fedpact.utils.errors import InvalidInput, short_repr

PARAMETER_KINDS: Mapping[str, str] = {
    "weights": "Weight",
    "costs": "Cost",
    "quadratic": "Rising cost",
    "caps": "Cap",
    "values": "Value",
    "home": "Data at home",
    "joining_costs": "Joining cost",
}
FROM_NOTHING = ("caps", "quadratic", "home", "joining_costs")  # ranges that begin at 0
RANGE_END = 3.0  # a range goes from nothing, or nearly, to this many times what there is now
RANGE_START = 0.1
MIN_WEIGHT_SPAN = 1.0  # weights vary this much to both sides at least
STEP_DIGITS = 3  # of the distance between points


@dataclass(frozen=True)
class Parameter:
    """A kind of number and whose it is.

    Attributes
    ----------
    kind
        A key of `PARAMETER_KINDS`, or a parameter of the payoff family.
    who
        The receiver and the giver of a weight, or the one member; None for everybody.
    """

    kind: str
    who: tuple[int | None, ...] = (None,)

    @classmethod
    def of_record(cls, record: Any, federation: Federation) -> Parameter:
        """The parameter a page names, checked against the federation."""
        if not isinstance(record, Mapping):
            raise InvalidInput(f"a parameter must be an object with a kind, got {short_repr(record)}")
        known, kind, count = kinds_of(federation), record.get("kind"), federation.n_agents
        if kind not in known:
            raise InvalidInput(f"there is no parameter {short_repr(kind)} to vary; there are {', '.join(known)}")
        keys = ("receiver", "giver") if kind == "weights" else ("agent",)
        who = tuple(record.get(key) for key in keys)
        for key, given in zip(keys, who, strict=True):
            if given is not None and (isinstance(given, bool) or given not in range(count)):
                rule = f"must be a member from 0 to {count - 1}, or nobody in particular"
                raise InvalidInput(f"{key} {rule}, got {short_repr(given)}")
        return cls(str(kind), who)

    def words(self, federation: Federation) -> str:
        """The parameter as people read it."""
        names = [None if agent is None else federation.names[agent] for agent in self.who]
        if self.kind == "weights":
            giver = "others’" if names[1] is None else f"{names[1]}’s"
            return f"usefulness of {giver} data to {names[0] or 'everybody else'}"
        return f"{PARAMETER_KINDS.get(self.kind, self.kind).lower()} of {names[0] or 'everybody'}"

    def indices(self, federation: Federation) -> tuple[np.ndarray, ...]:
        """Where in the federation: rows and columns of the weights, or agents."""
        everybody = np.arange(federation.n_agents)
        chosen = np.ix_(*(everybody if agent is None else everybody[[agent]] for agent in self.who))
        rows = [part.ravel() for part in np.broadcast_arrays(*chosen)]
        if None not in self.who or self.kind != "weights":
            return tuple(rows)
        return tuple(part[rows[0] != rows[1]] for part in rows)  # weights between members

    def axis(self, federation: Federation, points: FloatArray) -> Axis:
        """The parameter over some values, for a sweep."""
        label = {"quadratic": "costs.quadratic"}.get(self.kind, self.kind)
        if self.who != (None,):
            label += f"[{','.join('*' if agent is None else federation.names[agent] for agent in self.who)}]"
        field = "linear" if self.kind == "costs" else self.kind
        return Axis(label=label, field=field, indices=self.indices(federation), points=read_only_copy(points))

    def fields(self, federation: Federation, *, own_curves: bool) -> list[str]:
        """The fields of the page that hold it."""
        label = self.kind if self.kind in PARAMETER_KINDS else f"payoff.{self.kind}"
        if label != self.kind and not own_curves and self.who == (None,):
            return [label]
        return [f"{label}[{','.join(map(str, index))}]" for index in zip(*self.indices(federation), strict=True)]

    def now(self, federation: Federation) -> float:
        """Its value; the mean where it is several numbers."""
        costs, parameters = federation.costs, federation.payoff.parameters
        if self.kind in parameters:
            numbers = np.broadcast_to(parameters[self.kind], federation.n_agents)
        else:
            part = {"costs": costs.linear, "quadratic": costs.quadratic}.get(self.kind)
            numbers = np.asarray(getattr(federation, self.kind) if part is None else part)
        return float(np.mean(numbers[self.indices(federation)]))

    def usual_range(self, federation: Federation) -> tuple[float, float]:
        """A range worth looking at around its value."""
        now = self.now(federation)
        if self.kind == "weights" and (None in self.who or len(set(self.who)) == 2):
            around = max(MIN_WEIGHT_SPAN, abs(now))
            return _short(now - around), _short(now + around)
        if not np.isfinite(now) or now == 0:
            return 0.0, 100.0 if self.kind in ("caps", "home") else 0.001
        return (0.0 if self.kind in FROM_NOTHING else _short(RANGE_START * now)), _short(RANGE_END * now)


def kinds_of(federation: Federation) -> Sequence[str]:
    """What of a federation can be varied."""
    absent = {"home"} if federation.home is None else set()
    absent |= {"weights", "joining_costs"} if federation.n_agents == 1 else set()
    return [kind for kind in (*PARAMETER_KINDS, *federation.payoff.parameters) if kind not in absent]


def typed_range(record: Mapping[str, Any]) -> tuple[float, float]:
    """The two ends of a range as they were typed; an error begins with the end's name."""
    ends = []
    for end in ("low", "high"):
        try:
            ends.append(typed_number(str(record.get(end, ""))))
        except InvalidInput as error:
            raise InvalidInput(f"{end} {error}") from error
    if not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise InvalidInput(f"high must be above {ends[0]:g}, where the range begins, and finite, got {ends[1]:g}")
    return ends[0], ends[1]


def points_between(low: float, high: float, count: int) -> FloatArray:
    """`count` values from low to high, with no more digits than tell them apart."""
    points = np.linspace(low, high, count)
    step = (high - low) / max(count - 1, 1)
    inner = np.round(points, int(np.clip(STEP_DIGITS - 1 - np.floor(np.log10(step)), 0, 300)))
    inner[[0, -1]] = low, high
    return inner if (np.diff(inner) > 0).all() else points


def _short(number: float) -> float:
    """A number of few digits, as an end of a range."""
    return float(typed_text(float(f"{number:.3g}")))

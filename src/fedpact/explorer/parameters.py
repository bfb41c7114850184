"""What can be varied: one number of the federation, or the same number of all members at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedpact.comparison import Axis
from fedpact.explorer.draft import LOT_COLUMNS, MEMBER_COLUMNS, typed_text
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
# Axes of sweeps call the quadratic cost by another name than its field on the page.
LABELS = {"quadratic": "costs.quadratic"}
WIDE = 3.0  # a range goes from nothing, or nearly, to this many times what there is now
NEARLY = 0.1
AROUND = 1.0  # weights vary this much to both sides at least
PLACES = ("receiver", "giver", "agent")
STEP_DIGITS = 3  # of the distance between points


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A kind of number and whose it is.

    Attributes
    ----------
    kind
        A key of `PARAMETER_KINDS`, or a parameter of the payoff family.
    receiver, giver
        Of a weight; None for everybody.
    agent
        Of anything else; None for everybody.
    """

    kind: str
    receiver: int | None = None
    giver: int | None = None
    agent: int | None = None

    @classmethod
    def of_record(cls, record: Any, federation: Federation) -> Parameter:
        """The parameter a page names, checked against the federation."""
        if not isinstance(record, Mapping):
            raise InvalidInput(f"a parameter must be an object with a kind, got {short_repr(record)}")
        known = kinds_of(federation)
        kind = record.get("kind")
        if kind not in known:
            raise InvalidInput(f"there is no parameter {short_repr(kind)} to vary; there are {', '.join(known)}")
        keys = ("receiver", "giver") if kind == "weights" else ("agent",)
        places = {key: _place(key, record.get(key), len(_names(federation, str(kind), key))) for key in keys}
        return cls(kind=str(kind), **places)

    def words(self, federation: Federation) -> str:
        """The parameter as people read it."""
        if self.kind == "weights":
            lots, tasks = (_names(federation, self.kind, key) for key in ("giver", "receiver"))
            giver = "others’" if self.giver is None else f"{lots[self.giver]}’s"
            receiver = "everybody else" if self.receiver is None else tasks[self.receiver]
            if federation.has_lots and self.giver is not None:
                return f"usefulness of {lots[self.giver]} to {receiver}"
            return f"usefulness of {giver} data to {receiver}"
        whose = "everybody" if self.agent is None else _names(federation, self.kind, "agent")[self.agent]
        return f"{PARAMETER_KINDS.get(self.kind, self.kind).lower()} of {whose}"

    def indices(self, federation: Federation) -> tuple[np.ndarray, ...]:
        """Where in the federation: rows and columns of the weights, or agents (lots, tasks)."""
        if self.kind != "weights":
            everybody = np.arange(len(_names(federation, self.kind, "agent")))
            return (everybody if self.agent is None else np.array([self.agent]),)
        if self.receiver is not None and self.giver is not None:
            return np.array([self.receiver]), np.array([self.giver])
        chosen = federation.task_owners[:, None] != federation.lot_owners[None, :]
        if self.receiver is not None:
            chosen &= (np.arange(federation.n_tasks) == self.receiver)[:, None]
        if self.giver is not None:
            chosen &= (np.arange(federation.n_lots) == self.giver)[None, :]
        if not chosen.any():
            raise InvalidInput("there are no weights between members to vary: there is only one member")
        return np.nonzero(chosen)

    def axis(self, federation: Federation, points: FloatArray) -> Axis:
        """The parameter over some values, for a sweep."""
        label = LABELS.get(self.kind, self.kind)
        who = {key: {None: "*"} | dict(enumerate(_names(federation, self.kind, key))) for key in PLACES}
        if self.kind == "weights":
            label += f"[{who['receiver'][self.receiver]},{who['giver'][self.giver]}]"
        elif self.agent is not None:
            label += f"[{who['agent'][self.agent]}]"
        field = "linear" if self.kind == "costs" else self.kind
        return Axis(label=label, field=field, indices=self.indices(federation), points=read_only_copy(points))

    def fields(self, federation: Federation, *, own_curves: bool) -> list[str]:
        """The fields of the page that hold it."""
        if self.kind not in PARAMETER_KINDS:
            if not own_curves and self.agent is None:
                return [f"payoff.{self.kind}"]
            return [f"payoff.{self.kind}[{agent}]" for agent in self.indices(federation)[0]]
        return [f"{self.kind}[{','.join(map(str, place))}]" for place in zip(*self.indices(federation), strict=True)]

    def now(self, federation: Federation) -> float:
        """Its value; the mean where it is several numbers."""
        costs = federation.costs
        arrays = {
            "weights": federation.weights,
            "costs": costs.linear,
            "quadratic": costs.quadratic,
            "caps": federation.caps,
            "values": federation.values,
            "home": federation.home,
            "joining_costs": federation.joining_costs,
        } | {
            label: np.broadcast_to(numbers, federation.n_tasks)
            for label, numbers in federation.payoff.parameters.items()
        }
        return float(np.mean(np.asarray(arrays[self.kind])[self.indices(federation)]))

    def usual_range(self, federation: Federation) -> tuple[float, float]:
        """A range worth looking at around its value."""
        now = self.now(federation)
        if self.kind == "weights":
            single = self.receiver is not None and self.giver is not None
            own = single and federation.task_owners[self.receiver] == federation.lot_owners[self.giver]
            around = max(AROUND, abs(now))
            return (_short(NEARLY * now), _short(WIDE * now)) if own else (_short(now - around), _short(now + around))
        if not np.isfinite(now) or now == 0:
            return 0.0, 100.0 if self.kind in ("caps", "home") else 0.001
        from_nothing = self.kind in ("caps", "quadratic", "home", "joining_costs")
        return (0.0 if from_nothing else _short(NEARLY * now)), _short(WIDE * now)


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


def _names(federation: Federation, kind: str, key: str) -> Sequence[str]:
    """Whose a number of this kind can be: lots', tasks' or, where everybody has one of each, members'."""
    if kind in MEMBER_COLUMNS:
        return federation.names
    of_lots = key == "giver" or (key == "agent" and kind in LOT_COLUMNS)
    return federation.lot_labels if of_lots else federation.task_labels


def _place(key: str, given: Any, count: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < count:
        raise InvalidInput(
            f"{key} must be a member from 0 to {count - 1}, or nobody in particular, got {short_repr(given)}"
        )
    return given


def _short(number: float) -> float:
    """A number of few digits, as an end of a range."""
    return float(typed_text(float(f"{number:.3g}")))

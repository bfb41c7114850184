"""What a pilot measured, as the scenario of its deal carries it: whom sharing helps, what the deal brings, how sure.

A deal on paper is as good as the curves behind it. A measured one was trained, and its intervals hold the error of the
curves as well: whoever reads the scenario is shown these.

Intervals are of 90 %: each end leaves out 5 %. What follows from them is said in the same words wherever a deal was
trained, in a pilot or in a run:

* **federate**: all together gain beyond doubt (the interval of the total is above zero), and nobody loses beyond doubt;
* **do not federate**: all together lose beyond doubt, or somebody does, or there is nothing to gain;
* **not enough evidence**: anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpact.scenario.fields import numbers, table, text
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput

Numbers = tuple[float, ...]
FEDERATE, DO_NOT, NOT_ENOUGH = "federate", "do not federate", "not enough evidence"
NORMAL_QUANTILE = 1.6449  # of 95 %: intervals of 90 %


def gain_intervals(gains: Any, errors: Any) -> FloatArray:
    """(..., 2): 90 % intervals of gains with these standard errors; each end leaves out 5 %."""
    return np.stack([gains - NORMAL_QUANTILE * errors, gains + NORMAL_QUANTILE * errors], axis=-1)


def verdict_of(total: FloatArray, *, has_losers: bool) -> str:
    """What follows from the interval of what all gain together, and from whether somebody loses beyond doubt."""
    if has_losers or total[1] < 0.0:
        return DO_NOT
    return FEDERATE if total[0] > 0.0 else NOT_ENOUGH


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredGains:
    """Gains of the members of a deal, (n,) each."""

    names: Sequence[str]
    promised: FloatArray  # by the curves
    measured: FloatArray  # by the trained models, with their standard errors
    errors: FloatArray
    slack: ArrayLike = 0.0  # losses no larger come of rounding

    @property
    def intervals(self) -> FloatArray:
        """(n, 2): of each member's gain."""
        return gain_intervals(self.measured, self.errors)

    @property
    def total(self) -> float:
        """What all gain together, as measured."""
        return float(self.measured.sum())

    @property
    def total_error(self) -> float:
        """Its standard error: members are tested on different records."""
        return float(np.sqrt((self.errors**2).sum()))

    @property
    def total_interval(self) -> FloatArray:
        """(2,): of what all gain together."""
        return gain_intervals(self.total, self.total_error)

    @property
    def losers(self) -> tuple[str, ...]:
        """Members that lose beyond doubt."""
        return self._chosen(self.intervals[:, 1] < -np.asarray(self.slack))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Members whose interval holds zero: more records to test with might say otherwise."""
        low, high = self.intervals.T
        return self._chosen((low < 0.0) & (high > 0.0))

    @property
    def verdict(self) -> str:
        """What follows."""
        return verdict_of(self.total_interval, has_losers=bool(self.losers))

    def _chosen(self, members: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(name for name, chosen in zip(self.names, members, strict=True) if chosen)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A pilot's findings; one number per member unless said otherwise."""

    # verdict, advice: "federate", "do not federate" or "not enough evidence", and the reason in words
    verdict: str
    advice: str
    # arrangement, score: What the deal is for, "own choice" or "one model", and how models are judged, in words
    arrangement: str
    score: str
    # guess, alone, one_model, own_choice: Scores of the constant answer, and of the arrangements with everything shared
    guess: Numbers
    alone: Numbers
    one_model: Numbers
    own_choice: Numbers
    # points, point_errors: What the arrangement brings over alone, in hundredths of the score, and its standard errors
    points: Numbers
    point_errors: Numbers
    worth: Numbers  # what a point is worth, in units of payoff
    shared: Numbers  # per lot, the records that the deal asks for; all zero where there is no deal
    # payments, promised, gains, gain_errors: Of the deal, in units of payoff: what each receives, gains by the curves
    # and as measured, and the standard errors of the latter
    payments: Numbers
    promised: Numbers
    gains: Numbers
    gain_errors: Numbers

    @property
    def has_deal(self) -> bool:
        """Whether anybody shares anything."""
        return any(self.shared)

    @classmethod
    def parse(cls, field: str, given: Any) -> Measured:
        """From the table of a scenario file."""
        keys = [each.name for each in fields(cls)]
        given = table(field, given, keys, required=keys)
        texts: dict[str, Any] = {key: text(f"{field}.{key}", given[key]) for key in keys[:4]}
        if texts["verdict"] not in (FEDERATE, DO_NOT, NOT_ENOUGH):
            rule = f"must be one of {', '.join((FEDERATE, DO_NOT, NOT_ENOUGH))}"
            raise InvalidInput(field=f"{field}.verdict", rule=rule, value=texts["verdict"])
        lists: dict[str, Any] = {}
        for key in keys[4:]:
            found = numbers(f"{field}.{key}", given[key])
            if not isinstance(found, list):
                raise InvalidInput(field=f"{field}.{key}", rule="must be a list of numbers", value=found)
            lists[key] = tuple(found)
        return cls(**(texts | lists))

    def check(self, n_members: int, n_lots: int) -> None:
        """Refuse lists of another length than there are members, or lots."""
        for key, given in asdict(self).items():
            wanted = n_lots if key == "shared" else n_members
            if isinstance(given, tuple) and len(given) != wanted:
                counts = f": {wanted} wanted, {len(given)} given"
                raise InvalidInput(field=f"measured.{key}", rule="must have one number each", value=given, given=counts)

"""Promised beside measured, and what follows: federate, do not federate, or not enough evidence.

The deal that the curves recommend is trained on fresh splits, beside everybody alone. A member's measured gain is

    worth of its score under the deal - worth of its score alone - what it shares costs it + its payment,

with an interval of 90 %: each end leaves out 5 %. Intervals are of records like these: other patients, other splits.

* **federate**: all together gain beyond doubt (the interval of the total is above zero), and nobody loses beyond doubt;
* **do not federate**: all together lose beyond doubt, or somebody does, or there is nothing to gain;
* **not enough evidence**: anything else. What would change it is said beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedpact.scenario.measured import DO_NOT, FEDERATE, NORMAL_QUANTILE, NOT_ENOUGH
from fedpact.utils.arrays import FloatArray
from fedpact.utils.words import MAX_NAMES, join_names

__all__ = ["DO_NOT", "FEDERATE", "NORMAL_QUANTILE", "NOT_ENOUGH", "Confirmation", "amount_text"]
NEGLIGIBLE = 1e-3  # of the largest gain: a loss below it comes of whole records
MOST_TIMES_MORE = 20.0  # as many records as there are, beyond which more of them are no advice


@dataclass(frozen=True, kw_only=True, eq=False)
class Confirmation:
    """A deal, trained; arrays are (n,) unless said otherwise."""

    agents: Sequence[str]  # The members
    mechanism: str  # Whose deal it is, in words
    shared: FloatArray  # (lots,): records that are shared under it
    payments: FloatArray  # What each receives
    promised: FloatArray  # Gains by the curves
    # Gains by the trained models, and their standard errors
    measured: FloatArray
    errors: FloatArray
    costs: FloatArray  # What sharing costs each
    currency: str  # Of all amounts

    @property
    def intervals(self) -> FloatArray:
        """(n, 2): of each member's gain."""
        return np.stack(
            [self.measured - NORMAL_QUANTILE * self.errors, self.measured + NORMAL_QUANTILE * self.errors], 1
        )

    @property
    def total(self) -> float:
        """What all gain together, as measured."""
        return float(self.measured.sum())

    @property
    def total_error(self) -> float:
        """Its standard error: members' records are different ones."""
        return float(np.sqrt((self.errors**2).sum()))

    @property
    def total_interval(self) -> tuple[float, float]:
        """Of what all gain together."""
        return self.total - NORMAL_QUANTILE * self.total_error, self.total + NORMAL_QUANTILE * self.total_error

    @property
    def losers(self) -> list[str]:
        """Members that lose beyond doubt."""
        lost = self.intervals[:, 1] < -NEGLIGIBLE * np.abs(np.concatenate([self.promised, self.measured])).max(
            initial=1.0
        )
        return [name for name, loses in zip(self.agents, lost, strict=True) if loses]

    @property
    def verdict(self) -> str:
        """What follows from what was measured."""
        low, high = self.total_interval
        if low > 0.0 and not self.losers:
            return FEDERATE
        return DO_NOT if high < 0.0 or self.losers else NOT_ENOUGH

    @property
    def reason(self) -> str:
        """Why, in a sentence or two."""
        low, high = self.total_interval
        found = (
            f"The deal of the {self.mechanism} mechanism, trained on fresh splits, brings all members together "
            f"{self._text(self.total)} (90 % interval {self._text(low)} to {self._text(high)}); the curves promised "
            f"{self._text(float(self.promised.sum()))}."
        )
        if self.losers:
            found += f" {join_names(self.losers, most=MAX_NAMES)} would be worse off than alone."
        elif self.verdict == NOT_ENOUGH:
            found += " That is no more than chance may bring."
        return found

    def _text(self, number: float) -> str:
        return amount_text(number, self.currency)

    def remedies(self) -> list[str]:
        """What would change the verdict, by these numbers."""
        found = []
        gross, spent = self.total + float(self.costs.sum()), float(self.costs.sum())
        records = float(self.shared.sum())
        if self.verdict != FEDERATE and not self.losers and spent > 0.0 and gross > NORMAL_QUANTILE * self.total_error:
            price = (gross - NORMAL_QUANTILE * self.total_error) / records
            found.append(f"at a cost of sharing below {price:.3g} {self.currency} a record it pays beyond doubt")
        if self.verdict == NOT_ENOUGH and self.total > 0.0:
            times = (NORMAL_QUANTILE * self.total_error / self.total) ** 2
            if times <= MOST_TIMES_MORE:
                found.append(f"{times:.1f} times as many records to test with would tell, if the gain stays what it is")
        if self.losers:
            found.append(f"{join_names(self.losers, most=MAX_NAMES)} would have to pay less, or stay out")
        return found


def amount_text(number: float, currency: str) -> str:
    """An amount in a sentence."""
    return f"{number:+,.0f} {currency}" if abs(number) >= 10.0 else f"{number:+.3g} {currency}" if number else "nothing"

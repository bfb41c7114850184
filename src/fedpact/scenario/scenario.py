"""What a scenario file says: a federation, words about it, what payoff is worth in money, how sure the numbers are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from numpy.typing import ArrayLike

from fedpact.federation import Federation
from fedpact.federation.lots import owned_by
from fedpact.scenario.measured import Measured
from fedpact.scenario.members_words import DataUnit
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.errors import InvalidInput, short_repr

WORDS = ("title", "description", "unit", "not_recommended")
COMMON, PERSONAL = MODELS = ("common", "personal")
MIN_WHOLE = 100.0  # money from which on cents are left out of sentences


@dataclass(frozen=True)
class Money:
    """The exchange rate between payoff and money.

    Parameters
    ----------
    currency
        What the money is called, such as "EUR".
    per_payoff
        Money per unit of payoff, positive.
    """

    currency: str
    per_payoff: float

    def __post_init__(self) -> None:
        if not isinstance(self.currency, str) or not self.currency.strip():
            rule = 'must be a non-empty text such as "EUR"'
            raise InvalidInput(field="money.currency", rule=rule, value=self.currency)
        rate = self.per_payoff
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < rate < math.inf:
            rule = "must be a positive number"
            raise InvalidInput(field="money.per_payoff", rule=rule, value=rate, given=f", got {short_repr(rate)}")
        object.__setattr__(self, "per_payoff", float(rate))

    def text(self, payoff: float) -> str:
        """An amount of payoff in money, for a sentence: whole units of it, or three digits where it is small."""
        amount = payoff * self.per_payoff
        return (
            f"{self.currency} {amount:,.0f}"
            if abs(amount) >= MIN_WHOLE or not amount
            else f"{self.currency} {amount:.3g}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenario:
    """A federation with the words and the exchange rate that go with it.

    Two scenarios are equal when every number agrees bit for bit and the costs are of the same kind.

    Parameters
    ----------
    federation
        The agents.
    title, description
        For people; empty if not given.
    money
        Needed only to settle payments in a currency.
    uncertainty
        How sure the weights, the values and the payoff's parameter are; None if nothing is known about that.
    unit
        What contributions are counted in, such as "thousand records"; empty if the file does not say.
    not_recommended
        Why no deal of these members is to be recommended, where one was trained and measured to lose; else empty.
    models
        "common": one model for all; "personal": a model for each member, which leaves out data that harms it, so that
        the federation's negative weights are cut to zero.
    measured
        What a pilot measured of these members and their deal; None if no pilot made the scenario.
    """

    federation: Federation
    title: str = ""
    description: str = ""
    money: Money | None = None
    uncertainty: Uncertainty | None = None
    unit: str = ""
    not_recommended: str = ""
    models: str = COMMON
    measured: Measured | None = None

    def __post_init__(self) -> None:
        kinds: Mapping[str, tuple[Any, str]] = dict.fromkeys(WORDS, (str, "must be a text")) | {
            "federation": (Federation, "must be a Federation"),
            "money": (Money | None, 'must be Money("EUR", 1000.0) or the like, or None'),
            "uncertainty": (Uncertainty | None, "must be an Uncertainty or None"),
            "measured": (Measured | None, "must be Measured or None"),
        }
        for field, (kind, rule) in kinds.items():
            if not isinstance(given := getattr(self, field), kind):
                raise InvalidInput(field=field, rule=rule, value=given)
        if self.models not in MODELS:
            raise InvalidInput(field="models", rule=f"must be one of {', '.join(MODELS)}", value=self.models)
        if self.models == PERSONAL and self.federation.has_harm:
            object.__setattr__(self, "federation", self.federation.with_personal_models())
        if self.unit:
            DataUnit.parse(self.unit)
        if self.uncertainty is not None:
            self.uncertainty.check(self.federation)
        if self.measured is not None:
            self.measured.check(self.federation.n_agents, self.federation.n_lots)

    def take(self, agents: ArrayLike) -> Scenario:
        """The scenario of some of the agents: their indices in the order wanted, or one true or false per agent."""
        chosen, uncertainty = self.federation.member_indices(agents), self.uncertainty
        if uncertainty is not None:
            owners = self.federation.task_owners, self.federation.lot_owners
            uncertainty = uncertainty.take(*(owned_by(each, chosen)[0] for each in owners))
        return replace(self, federation=self.federation.take(chosen), uncertainty=uncertainty, measured=None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        same_costs = type(self.federation.costs) is type(other.federation.costs)
        return same_costs and all(getattr(self, each.name) == getattr(other, each.name) for each in fields(self))

    __hash__ = None  # type: ignore[assignment]

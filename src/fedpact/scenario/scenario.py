"""What a scenario file says: a federation, words about it, what payoff is worth in money, how sure the numbers are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from fedpact.federation import Federation
from fedpact.scenario.uncertainty import Uncertainty
from fedpact.utils.errors import InvalidInput

__all__ = ["Money", "Scenario"]


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
            raise InvalidInput(f'money.currency must be a non-empty text such as "EUR", got {self.currency!r:.80}')
        rate = self.per_payoff
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < rate < math.inf:
            raise InvalidInput(f"money.per_payoff must be a positive number, got {rate!r:.80}")
        object.__setattr__(self, "per_payoff", float(rate))


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
    """

    federation: Federation
    title: str = ""
    description: str = ""
    money: Money | None = None
    uncertainty: Uncertainty | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.federation, Federation):
            raise InvalidInput(f"federation must be a Federation, got {self.federation!r:.80}")
        for label, given in (("title", self.title), ("description", self.description)):
            if not isinstance(given, str):
                raise InvalidInput(f"{label} must be a text, got {given!r:.80}")
        if not isinstance(self.money, Money | None):
            raise InvalidInput(f'money must be Money("EUR", 1000.0) or the like, or None, got {self.money!r:.80}')
        if not isinstance(self.uncertainty, Uncertainty | None):
            raise InvalidInput(f"uncertainty must be an Uncertainty or None, got {self.uncertainty!r:.80}")
        if self.uncertainty is not None:
            self.uncertainty.check(self.federation)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return (
            self.federation == other.federation
            and type(self.federation.costs) is type(other.federation.costs)
            and (self.title, self.description, self.money) == (other.title, other.description, other.money)
            and self.uncertainty == other.uncertainty
        )

    __hash__ = None  # type: ignore[assignment]

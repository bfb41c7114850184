"""What a pilot cannot measure: what records cost, and what accuracy is worth, in money or in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpact.fitting.pilots.records import PilotData
from fedpact.scenario import Money
from fedpact.scenario.members_words import DataUnit, Price, is_price, one_currency
from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.tables import typed_number

Stated = str | float | Mapping[str, str | float]
RECORD = DataUnit(1.0, "record")
POINTS = "points"


@dataclass(frozen=True, kw_only=True, eq=False)
class PilotTerms:
    """Costs per record of each member (lot) and worth of an accuracy of 1 to each member; costs of None are to be set.

    `words` say what was assumed.
    """

    costs: FloatArray | None
    worth: FloatArray
    money: Money | None
    words: tuple[str, ...] = ()

    def completed(self, worth: float, caps: FloatArray) -> PilotTerms:
        """With costs, if none were said, such that sharing everything costs a tenth of what all can gain by it."""
        if self.costs is not None:
            return self
        least = 0.01 * float(self.worth.mean())  # a point
        rate = float(f"{0.1 * max(worth, least) / caps.sum():.1g}")
        unit = "" if self.money is None else f" {self.money.currency}"
        words = f"costs are a placeholder ({rate:g}{unit} a record): say what sharing a record costs"
        return replace(self, costs=np.full(len(caps), rate), words=(*self.words, words))


def pilot_terms(data: PilotData, cost: Stated | None, value: Stated | None) -> PilotTerms:
    """Terms as they are stated for all, or by member (and lot, MEMBER.LOT); money for costs and values, or for none."""
    lots = data.lot_labels
    prices = {"cost": _stated("cost", cost, lots), "value": _stated("value", value, data.names)}
    kinds = {label: {isinstance(entry, Price) for entry in found} for label, found in prices.items() if found}
    for label, found in kinds.items():
        if len(found) > 1:
            raise InvalidInput(f"{label} must be money for all members, or a plain number for all")
    if kinds.get("cost") == {True} and kinds.get("value") != {True}:
        raise InvalidInput('cost is in money: say what accuracy is worth too, such as value "20 EUR/point"')
    if kinds.get("value") == {True} and kinds.get("cost") == {False}:
        raise InvalidInput('value is in money: say the cost in money too, such as cost "0.02 EUR/record"')
    in_money = [entry for found in prices.values() for entry in found or () if isinstance(entry, Price)]
    money = Money(one_currency([price.currency for price in in_money], "cost and value"), 1.0) if in_money else None
    costs, worth = None, np.full(len(data.names), 100.0)
    if prices["value"] is None:  # amounts are points of the score
        money = Money(POINTS, 1.0)
    if prices["cost"] is not None:
        each = (entry.per_unit(RECORD, "cost") if isinstance(entry, Price) else entry for entry in prices["cost"])
        costs = np.array(list(each))
    if prices["value"] is not None:
        worth = np.array(
            [entry.per_payoff("value") if isinstance(entry, Price) else entry for entry in prices["value"]]
        )
    if not np.isfinite(worth).all():
        raise InvalidInput("value must be below 1.8e308 for a score of 1; say it in larger units")
    return PilotTerms(costs=costs, worth=worth, money=money)


def _stated(label: str, given: Stated | None, names: Sequence[str]) -> list[Price | float] | None:
    """One entry per name, the more specific winning; None if nothing was said."""
    if given is None:
        return None
    entries = dict(given) if isinstance(given, Mapping) else {"": given}
    found: list[Any] = [None] * len(names)
    for name, entry in sorted(entries.items(), key=lambda pair: (pair[0] != "", pair[0] in names)):
        amount = _amount(label, entry)
        chosen = [
            place for place, known in enumerate(names) if not name or known == name or known.startswith(f"{name}.")
        ]
        if not chosen:
            raise InvalidInput(f"{label}: there is no member {short_repr(name)}; members are {', '.join(names)}")
        for place in chosen:
            found[place] = amount
    for name, entry in zip(names, found, strict=True):
        if entry is None:
            raise InvalidInput(f'{label} must be said for "{name}" too, or once for all')
    return found


def _amount(label: str, entry: Any) -> Price | float:
    if isinstance(entry, str) and is_price(entry):
        return Price.parse(entry, label)
    try:
        number = typed_number(entry) if isinstance(entry, str) else float(entry)
    except InvalidInput as error:
        raise error.within(label) from error
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 < number < float("inf"):
        example = "0.02 EUR/record" if label == "cost" else "20 EUR/point"
        raise InvalidInput(f'{label} must be a positive number, or money such as "{example}", got {short_repr(entry)}')
    return number

"""What a pilot cannot measure: what records cost, and what accuracy is worth, in money or in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedpact.fitting.pilots.records import CLASSIFICATION, PilotData
from fedpact.scenario import Money
from fedpact.scenario.members_words import CORRECT, DataUnit, Price, is_price, one_currency
from fedpact.utils.arrays import FloatArray
from fedpact.utils.cells import typed_number
from fedpact.utils.errors import InvalidInput, short_repr

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


def pilot_terms(
    data: PilotData, cost: Stated | None, value: Stated | None, predictions: float | Mapping[str, float] | None
) -> PilotTerms:
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
    money = Money(one_currency(in_money, "cost and value"), 1.0) if in_money else None
    if prices["value"] is None:
        money = Money(POINTS, 1.0)
    answers, words = _answers(data, prices["value"], predictions)
    costs = None
    if prices["cost"] is not None:
        each = (entry.per_unit(RECORD, "cost") if isinstance(entry, Price) else entry for entry in prices["cost"])
        costs = np.array(list(each))
    worth = np.full(len(data.names), 100.0)  # without a value, amounts are points of the score
    if prices["value"] is not None:
        worth = np.array([_worth(entry, count) for entry, count in zip(prices["value"], answers, strict=True)])
    return PilotTerms(costs=costs, worth=worth, money=money, words=words)


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
    if label != "predictions" and isinstance(entry, str) and is_price(entry):
        return Price.parse(entry, label)
    try:
        number = typed_number(entry) if isinstance(entry, str) else float(entry)
    except InvalidInput as error:
        raise error.within(label) from error
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 < number < float("inf"):
        example = {"cost": ', or money such as "0.02 EUR/record"', "value": ', or money such as "20 EUR/point"'}
        raise InvalidInput(f"{label} must be a positive number{example.get(label, '')}, got {short_repr(entry)}")
    return number


def _worth(entry: Price | float, answers: float) -> float:
    worth = entry.per_payoff(answers, "value") if isinstance(entry, Price) else entry
    if worth == float("inf"):
        raise InvalidInput(f"value must be below 1.8e308 for an accuracy of 1, got {entry}; say it in larger units")
    return worth


def _answers(
    data: PilotData, values: Sequence[Price | float] | None, predictions: float | Mapping[str, float] | None
) -> tuple[FloatArray, tuple[str, ...]]:
    """How many answers each member needs of its model, where a value is per correct answer."""
    held = np.array([float(len(own)) for own in data.records])
    if not any(isinstance(entry, Price) and entry.unit.noun == CORRECT for entry in values or ()):
        if predictions is not None:
            raise InvalidInput('predictions count answers: they need a value per correct one, such as "2 EUR/correct"')
        return held, ()
    if data.task != CLASSIFICATION:
        raise InvalidInput('a regression has no correct answers: say the value per point, such as "20 EUR/point"')
    if predictions is None:
        return held, ("a member needs as many answers of its model as it holds records; say predictions otherwise",)
    stated = _stated("predictions", predictions, data.names) or []
    return np.array([float(entry) for entry in stated]), ()  # type: ignore[arg-type]

"""A scenario in the members' words: costs in money per unit of data, values in money per accuracy point.

    unit = "thousand records"
    costs = ["20 EUR/thousand records", "0.03 EUR/record"]
    values = "500 EUR/point"

They become numbers before the file is read on: costs per unit of data and values per payoff of 1, both in units of
payoff. Where a table `money` gives the rate, these are of that size; otherwise a unit of payoff is a unit of money.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedpact.federation import Federation
from fedpact.scenario.quantities import DataUnit, Price, one_currency
from fedpact.utils.errors import InvalidInput, short_repr
from fedpact.utils.words import count_text

LARGE_WEIGHT = 10.0  # times as useful as one's own data: possible, and mostly a mistake
PERCENT = 100.0


def convert_prices(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a scenario file with money as numbers in units of payoff; others as they are."""
    prices = {key: found for key in ("costs", "values") if (found := _prices(key, document.get(key)))}
    if not prices:
        return document
    currency = one_currency([price for found in prices.values() for price in found], " and ".join(prices))
    rate = _rate(document, prices, currency)
    converted = dict(document)
    if "costs" in prices:
        unit = _unit(document)
        costs = [price.per_unit(unit, "costs") / rate for price in prices["costs"]]
        converted["costs"] = costs if isinstance(document["costs"], list) else costs[0]
    if "values" in prices:
        values = [price.per_payoff() / rate for price in prices["values"]]
        converted["values"] = values if isinstance(document["values"], list) else values[0]
    return converted | {"money": document.get("money", {"currency": currency, "per_payoff": 1.0})}


def _prices(field: str, given: Any) -> list[Price]:
    labels = (
        {f"{field}[{index}]": entry for index, entry in enumerate(given)} if isinstance(given, list) else {field: given}
    )
    found = [Price.parse(entry, label) for label, entry in labels.items() if isinstance(entry, str)]
    for label, entry in labels.items():
        if found and not isinstance(entry, str):
            raise InvalidInput(f"{label} must be money like the others, got {short_repr(entry)}")
    return found


def _unit(document: Mapping[str, Any]) -> DataUnit:
    unit = document.get("unit")
    if not isinstance(unit, str) or not unit.strip():
        raise InvalidInput('costs are money per unit of data, so the file must name it: unit = "thousand records"')
    return DataUnit.parse(unit)


def _rate(document: Mapping[str, Any], prices: Mapping[str, Any], currency: str) -> float:
    """How much money a unit of payoff is worth."""
    money = document.get("money")
    if money is None:
        for key, example in {"costs": "20 EUR/thousand records", "values": "500 EUR/point"}.items():
            if key not in prices:
                (other,) = prices
                raise InvalidInput(
                    f'{other} are in money: write {key} in money too, such as "{example}", or add a table money that '
                    f"says what a unit of payoff is worth"
                )
        return 1.0
    stated, rate = (money.get(key) if isinstance(money, Mapping) else None for key in ("currency", "per_payoff"))
    if isinstance(stated, str) and stated != currency:
        raise InvalidInput(f"{' and '.join(prices)} are in {currency}, but money.currency is {stated}; use one of them")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < float("inf"):
        return float(rate)
    return 1.0  # what is wrong with the table its reader says


def weight_questions(federation: Federation) -> list[str]:
    """What to ask about weights that are possible, but mostly mistakes."""
    if federation.has_lots or federation.n_agents < 2:
        return []
    weights, names = federation.weights, federation.names
    own = weights.diagonal()
    others = weights[~np.eye(len(weights), dtype=bool)]
    if (own == PERCENT).all() or (others.max() > LARGE_WEIGHT and ((others >= 0) & (others <= PERCENT)).all()
                                  and (others == np.round(others)).all() and (own == 1.0).all()):  # fmt: skip
        return [
            f"weights look like percentages (up to {weights.max():g}): 1 means as useful as one's own data. Should "
            f"they be divided by 100?"
        ]
    times = weights / own[:, None]
    np.fill_diagonal(times, 0.0)
    large = np.argwhere(times > LARGE_WEIGHT)
    if not len(large):
        return []
    receiver, giver = max(large.tolist(), key=lambda place: times[tuple(place)])
    more = f" ({count_text(len(large) - 1, 'other')} likewise)" if len(large) > 1 else ""
    return [
        f"weights[{receiver}, {giver}]: is data of {names[giver]} really worth {times[receiver, giver]:.3g} times as "
        f"much to {names[receiver]} as its own{more}? The row receives, the column gives"
    ]

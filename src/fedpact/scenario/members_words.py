"""A scenario in the members' words: costs in money per unit of data, values in money per accuracy point.

    unit = "thousand records"
    costs = ["20 EUR/thousand records", "0.03 EUR/record"]
    values = "500 EUR/point"

They become numbers before the file is read on: costs per unit of data and values per payoff of 1, both in units of
payoff. A payoff of 1 is an accuracy 100 points above that of no data, so a value of 500 EUR a point makes 50000 EUR of
payoff. Where a table `money` gives the rate, these are of that size; otherwise a unit of payoff is a unit of money.
Joining costs and budgets are sums: "50000 EUR". Costs that rise are a table: linear = "600 EUR/thousand records", and
quadratic, the money per unit and unit, "5 EUR/thousand records/thousand records".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedpact.federation import Federation
from fedpact.utils.errors import ErrorCollector, InvalidInput, short_repr
from fedpact.utils.tables import typed_number
from fedpact.utils.words import count_text

POINTS = 100.0  # accuracy points in a payoff of 1
POINT = "point"
COUNT_WORDS = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
DIGITS = r"[0-9.,'\N{RIGHT SINGLE QUOTATION MARK} \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]*[0-9]"
PRICE = re.compile(rf"\s*({DIGITS}(?:[eE][+-]?[0-9]+)?)\s*([^\d\s/.,+-][^\d\s/]*)\s*(?:/|\bper\b|\ba\b)\s*(.+?)\s*")
SUM = re.compile(rf"\s*({DIGITS})\s*([^\d\s/.,+-][^\d\s/]*)\s*")
SUMS = ("joining_costs", "budgets")  # keys whose texts are sums of money
INFINITE = ("inf", "Infinity")
UNIT = re.compile(rf"(?:({DIGITS})\s+)?(?:({'|'.join(COUNT_WORDS)})s?\s+(?:of\s+)?)?([^\d\s].*)", re.IGNORECASE)
LARGE_WEIGHT = 10.0  # times as useful as one's own data: possible, and mostly a mistake
PERCENT = 100.0


@dataclass(frozen=True)
class DataUnit:
    """What contributions are counted in: so many of something, such as 1000 times "record".

    Examples
    --------
    >>> DataUnit.parse("thousand records"), DataUnit.parse("100 images")
    (DataUnit(count=1000.0, noun='record'), DataUnit(count=100.0, noun='image'))
    """

    count: float
    noun: str

    @classmethod
    def parse(cls, text: str, field: str = "unit") -> DataUnit:
        """The unit that a text names."""
        found = UNIT.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(
                f'{field} must be a text such as "records" or "thousand records", got {short_repr(text)}'
            )
        number, word, noun = found.groups()
        count = _number(field, number) if number else 1.0
        return cls(count * COUNT_WORDS[word.lower()] if word else count, _singular(noun))


@dataclass(frozen=True)
class Price:
    """So much money per unit of something.

    Examples
    --------
    >>> cost = Price.parse("0.02 EUR/record", "costs")
    >>> cost.per_unit(DataUnit.parse("thousand records"), "costs"), cost.currency
    (20.0, 'EUR')
    >>> Price.parse("500 EUR per point", "values").per_payoff()
    50000.0
    """

    amount: float
    currency: str
    unit: DataUnit

    @classmethod
    def parse(cls, text: str, field: str) -> Price:
        """The price that a text states."""
        found = PRICE.fullmatch(text)
        if found is None and PRICE.fullmatch(text.strip().removeprefix("-").removeprefix("\N{MINUS SIGN}")):
            raise InvalidInput(f"{field} must be positive, got {short_repr(text)}: a negative amount of money")
        if found is None:
            example = "500 EUR/point" if field.startswith("value") else "0.02 EUR/record"
            raise InvalidInput(
                f'{field} must be a number without quotes, or money such as "{example}", got {short_repr(text)}'
            )
        amount, currency, unit = found.groups()
        return cls(_number(field, amount), currency, DataUnit.parse(unit, field))

    def per_unit(self, unit: DataUnit, field: str) -> float:
        """Money per unit of data."""
        if self.unit.noun.casefold() != unit.noun.casefold():
            raise InvalidInput(
                f"{field} is money per {self.unit.noun:.40}, but data is counted in {unit.noun:.40}s; "
                f"use one word for both"
            )
        return self.amount * unit.count / self.unit.count

    def per_payoff(self, field: str = "values") -> float:
        """Money per payoff of 1, of 100 accuracy points."""
        if self.unit.noun != POINT:
            raise InvalidInput(f"{field} must be money per {POINT} (of accuracy), got per {self.unit.noun:.40}")
        return self.amount * POINTS / self.unit.count


def is_price(text: str) -> bool:
    """Whether a text states money per something, not just a number."""
    return PRICE.fullmatch(text) is not None


def one_currency(currencies: list[str], field: str) -> str:
    """The currency that all prices are in."""
    found = list(dict.fromkeys(currencies))
    if len(found) > 1:
        raise InvalidInput(f"{field} must be in one currency, got {' and '.join(found)}")
    return found[0]


def _number(field: str, text: str, *, positive: bool = True) -> float:
    try:
        number = typed_number(text)
    except InvalidInput as error:
        raise error.within(field) from error
    except ValueError as error:
        raise InvalidInput(f"{field} must start with a number, got {short_repr(text)}") from error
    if number == float("inf"):
        raise InvalidInput(f"{field} must be below 1.8e308, got {short_repr(text)}; say it in larger units")
    if positive and not number > 0.0:
        raise InvalidInput(f"{field} must be positive, got {short_repr(text)}")
    return number


def _singular(noun: str) -> str:
    words = " ".join(noun.split())
    if words.casefold().removesuffix("s") in {"accuracy point", "percentage point", "point"}:
        return POINT
    return words[:-1] if len(words) > 2 and words.endswith("s") and not words.endswith("ss") else words


def convert_prices(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a scenario file with money as numbers in units of payoff; others as they are."""
    costs = document.get("costs")
    keys: dict[str, Any] = {key: document.get(key) for key in ("costs", "values", *SUMS)}
    if isinstance(costs, Mapping):
        keys |= {"costs": None} | {f"costs.{part}": given for part, given in costs.items()}
    errors = ErrorCollector()
    stated = {key: found for key, given in keys.items() if (found := _amounts(key, given, document, errors))}
    errors.raise_errors()
    if not stated:
        return document
    currency = one_currency([each for found in stated.values() for _, each in found if each], " and ".join(stated))
    rate = _rate(document, stated, currency)
    numbers = {key: [amount / rate for amount, _ in found] for key, found in stated.items()}
    plain: dict[str, Any] = {key: found if isinstance(keys[key], list) else found[0] for key, found in numbers.items()}
    if isinstance(costs, Mapping):
        plain["costs"] = {part: plain.pop(f"costs.{part}", given) for part, given in costs.items()}
    return {**document, **plain, "money": document.get("money", {"currency": currency, "per_payoff": 1.0})}


def _amounts(key: str, given: Any, document: Mapping[str, Any], errors: ErrorCollector) -> list[tuple[float, str]]:
    """The money that a key states and its currency, entry by entry; empty where it states numbers."""
    entries = given if isinstance(given, list) else [given]
    labels = [f"{key}[{index}]" for index in range(len(entries))] if isinstance(given, list) else [key]
    texts = [entry for entry in entries if isinstance(entry, str) and not (key in SUMS and entry in INFINITE)]
    if not texts or ("." in key and not any(map(is_price, texts))):
        return []
    read = partial(_sum, key) if key in SUMS else partial(_price, key, document)
    found = [errors.attempt(read, label, entry) for label, entry in zip(labels, entries, strict=True)]
    return [each for each in found if each is not None]


def _price(key: str, document: Mapping[str, Any], label: str, entry: Any) -> tuple[float, str]:
    """Money per unit of data, per unit and unit of quadratic costs, or per payoff of 1."""
    if not isinstance(entry, str):
        raise InvalidInput(f"{label} must be money like the others, got {short_repr(entry)}")
    if key == "values":
        price = Price.parse(entry, label)
        return price.per_payoff(), price.currency
    first, _, second = entry.rpartition("/")
    if key == "costs.quadratic" and not is_price(first):
        rule = 'must be money per unit and unit, such as "5 EUR/thousand records/thousand records"'
        raise InvalidInput(f"{label} {rule}, got {short_repr(entry)}")
    price = Price.parse(first if key == "costs.quadratic" else entry, label)
    stated = document.get("unit")
    if not isinstance(stated, str) or not stated.strip():
        raise InvalidInput('costs are money per unit of data, so the file must name it: unit = "thousand records"')
    unit = DataUnit.parse(stated)
    times = unit.count / DataUnit.parse(second, label).count if key == "costs.quadratic" else 1.0
    return price.per_unit(unit, key) * times, price.currency


def _sum(key: str, label: str, entry: Any) -> tuple[float, str]:
    """A sum of money; "inf" is no limit, and 0 nothing, in any currency."""
    stated = parse_sum(label, entry) if isinstance(entry, str) else None
    if stated is not None:
        return stated
    if entry in INFINITE or (isinstance(entry, int | float) and entry in (0, float("inf"))):
        return float(entry), ""
    raise InvalidInput(f'{label} must be a sum of money such as "50000 EUR", got {short_repr(entry)}')


def parse_sum(label: str, text: str) -> tuple[float, str] | None:
    """The sum of money that a text states, and its currency; None where it states none.

    Examples
    --------
    >>> parse_sum("budgets", "50000 EUR"), parse_sum("budgets", "EUR 50000")
    ((50000.0, 'EUR'), None)
    """
    stated = SUM.fullmatch(text)
    return None if stated is None else (_number(label, stated[1], positive=False), stated[2])


def _rate(document: Mapping[str, Any], stated: Mapping[str, Any], currency: str) -> float:
    """How much money a unit of payoff is worth; what is wrong with a table `money` its reader says."""
    money, said = document.get("money"), " and ".join(dict.fromkeys(key.partition(".")[0] for key in stated))
    if money is None:
        lacking = [key for key in ("costs", "values") if key not in said]
        if lacking:
            examples = {"costs": "20 EUR/thousand records", "values": "500 EUR/point"}
            such = f', such as "{examples[lacking[0]]}"' if len(lacking) == 1 else ""
            raise InvalidInput(
                f"{said} are in money: write {' and '.join(lacking)} in money too{such}, or add a table money that "
                "says what a unit of payoff is worth"
            )
        return 1.0
    named, rate = (money.get(key) if isinstance(money, Mapping) else None for key in ("currency", "per_payoff"))
    if isinstance(named, str) and named != currency:
        raise InvalidInput(f"{said} are in {currency}, but money.currency is {named}; use one of them")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < float("inf"):
        return float(rate)
    return 1.0


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
    for member in np.flatnonzero((own == PERCENT) & ((weights >= 0) & (weights <= PERCENT)).all(axis=1)):
        return [f"the weights of {names[member]} look like percentages: should they be divided by 100?"]
    times = weights / np.where(own > 0, own, np.inf)[:, None]
    np.fill_diagonal(times, 0.0)
    large = np.argwhere(times > LARGE_WEIGHT)
    if not len(large):
        return []
    receiver, giver = max(large.tolist(), key=lambda index: times[tuple(index)])
    more = f" ({count_text(len(large) - 1, 'other')} likewise)" if len(large) > 1 else ""
    return [
        f"weights[{receiver}, {giver}]: is data of {names[giver]} really worth {times[receiver, giver]:.3g} times as "
        f"much to {names[receiver]} as its own{more}? The row receives, the column gives"
    ]

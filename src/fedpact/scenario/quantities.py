"""Amounts as members say them: money per record, per thousand records, per accuracy point. All conversions are here.

A federation counts contributions in one unit of data and payoffs in one unit of value. A payoff of 1 is an accuracy 100
points above that of no data, so a value of 500 EUR a point makes 50,000 EUR of payoff.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedpact.utils.cells import typed_number
from fedpact.utils.errors import InvalidInput, short_repr

POINTS = 100.0  # accuracy points in a payoff of 1
POINT, CORRECT = "point", "correct"
COUNT_WORDS = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
DIGITS = r"[0-9.,'\N{RIGHT SINGLE QUOTATION MARK} \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]*[0-9]"
PRICE = re.compile(rf"\s*({DIGITS}(?:[eE][+-]?[0-9]+)?)\s*([^\d\s/.,+-][^\d\s/]*)\s*(?:/|\bper\b|\ba\b)\s*(.+?)\s*")
UNIT = re.compile(rf"(?:({DIGITS})\s+)?(?:({'|'.join(COUNT_WORDS)})s?\s+(?:of\s+)?)?([^\d\s].*)", re.IGNORECASE)


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
                f"{field} is money per {self.unit.noun}, but data is counted in {unit.noun}s; use one word for both"
            )
        return self.amount * unit.count / self.unit.count

    def per_payoff(self, answers: float | None = None, field: str = "values") -> float:
        """Money per payoff of 1: of 100 accuracy points, or of so many answers that are all correct."""
        if self.unit.noun == POINT:
            return self.amount * POINTS / self.unit.count
        if self.unit.noun == CORRECT and answers is not None:
            return self.amount * answers / self.unit.count
        known = f"{POINT} (of accuracy)" + (f" or {CORRECT} (answer)" if answers is not None else "")
        raise InvalidInput(f"{field} must be money per {known}, got per {self.unit.noun}")


def is_price(text: str) -> bool:
    """Whether a text states money per something, not just a number."""
    return PRICE.fullmatch(text) is not None


def one_currency(prices: list[Price], field: str) -> str:
    """The currency of all prices."""
    found = list(dict.fromkeys(price.currency for price in prices))
    if len(found) > 1:
        raise InvalidInput(f"{field} must be in one currency, got {' and '.join(found)}")
    return found[0]


def _number(field: str, text: str) -> float:
    try:
        number = typed_number(text)
    except InvalidInput as error:
        raise error.within(field) from error
    except ValueError as error:
        raise InvalidInput(f"{field} must start with a number, got {short_repr(text)}") from error
    if number == float("inf"):
        raise InvalidInput(f"{field} must be below 1.8e308, got {short_repr(text)}; say it in larger units")
    if not number > 0.0:
        raise InvalidInput(f"{field} must be positive, got {short_repr(text)}")
    return number


def _singular(noun: str) -> str:
    words = " ".join(noun.split())
    if words.casefold().startswith(f"{CORRECT} "):  # correct answer, correct prediction
        return CORRECT
    if words.casefold().removesuffix("s") in {"accuracy point", "percentage point", "point"}:
        return POINT
    return words[:-1] if len(words) > 2 and words.endswith("s") and not words.endswith("ss") else words

"""Numbers as people read them: amounts in money or in units of payoff, contributions, percentages, ratios in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.deals import Settlement
from fedpact.report.display import number_texts
from fedpact.scenario import Money
from fedpact.utils.arrays import FloatArray

__all__ = ["Unit", "as_given", "cents_text", "counted", "percent", "plain_texts", "returned"]

SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
PAYOFF = "units of payoff"
# Amounts below this part of the largest payoff are rounding: they are written 0.
NOISE = 1e-9
# Money is written in whole units from here on, and with more than two decimals below the other bound.
WHOLE_FROM = 1000.0
CENTS_FROM = 0.1
# Beyond this ratio percentages are hard to read.
MANY_TIMES = 10.0


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What amounts are shown in: money if an exchange rate was given, otherwise units of payoff.

    Attributes
    ----------
    label
        "EUR", or "units of payoff".
    per_payoff
        How many of it a unit of payoff is worth.
    noise
        Amounts up to this many units of payoff are rounding.
    """

    label: str
    per_payoff: float
    noise: float
    is_money: bool

    @classmethod
    def of(cls, money: Money | None, payoffs: ArrayLike) -> Unit:
        """The unit for a federation whose payoffs are of the size of `payoffs`."""
        noise = NOISE * _largest(np.asarray(payoffs, dtype=np.float64))
        if money is None:
            return cls(label=PAYOFF, per_payoff=1.0, noise=noise, is_money=False)
        return cls(label=money.currency, per_payoff=money.per_payoff, noise=noise, is_money=True)

    def column(self, payoffs: ArrayLike, *, signed: bool = False) -> list[str]:
        """Amounts with the same decimals, without the unit."""
        given = np.atleast_1d(np.asarray(payoffs, dtype=np.float64))
        amounts = np.where(np.abs(given) <= self.noise, 0.0, given) * self.per_payoff
        largest = _largest(amounts)
        if not self.is_money or 0 < largest < CENTS_FROM:
            return number_texts(amounts, signed=signed)
        decimals = 2 if 0 < largest < WHOLE_FROM else 0
        return [_fixed(float(amount), decimals, signed=signed) for amount in amounts]

    def given(self, payoffs: ArrayLike) -> list[str]:
        """Amounts that somebody chose, without the decimals they do not need where that is possible."""
        if self.is_money:
            return self.column(payoffs)
        return [as_given(float(payoff)) for payoff in np.atleast_1d(np.asarray(payoffs, dtype=np.float64))]

    def text(self, payoff: float, *, signed: bool = False) -> str:
        """One amount with its unit, for a sentence."""
        amount = self.column([payoff], signed=signed)[0]
        if not np.isfinite(payoff):
            return amount
        if not self.is_money:
            return f"{amount}{SPACE}units"
        sign = amount[0] if amount[0] in f"+{MINUS}" else ""
        return f"{sign}{self.label}{SPACE}{amount.removeprefix(sign)}"


def plain_texts(numbers: ArrayLike) -> list[str]:
    """A column of computed numbers that are not money, such as contributions."""
    return number_texts(np.atleast_1d(np.asarray(numbers, dtype=np.float64)))


def as_given(number: float) -> str:
    """A number somebody chose, such as a cap: without the decimals it does not need."""
    if np.isinf(number):
        return "unlimited"
    whole = abs(number) < 1e15 and (float(number).is_integer() or abs(number) >= 1e4)
    return (f"{number:,.0f}" if whole else f"{number:.4g}").replace("-", MINUS)


def cents_text(settlement: Settlement, cents: int) -> str:
    """An amount of a settlement, to the last cent, without the currency."""
    whole, part = divmod(abs(cents), 10**settlement.decimals)
    fraction = f".{part:0{settlement.decimals}d}" if settlement.decimals else ""
    return f"{MINUS if cents < 0 else ''}{whole:,}{fraction}"


def percent(part: float, *, decimals: int = 1, signed: bool = False) -> str:
    """A part of one as a percentage."""
    if not np.isfinite(part):
        return "undefined"
    return f"{_fixed(100.0 * part, decimals, signed=signed)}{SPACE}%"


def returned(ratio: float, share: float) -> str:
    """How much of its Shapley share an agent gets back, in words where a percentage would mislead.

    Examples
    --------
    >>> returned(float("inf"), 0.0)
    'share is zero'
    >>> returned(-2.0, -0.1)
    'share is below zero'
    """
    if np.isnan(ratio) or np.isnan(share):
        return "undefined"
    if np.isinf(ratio):
        return "share is zero" if ratio > 0 else "below a zero share"
    if share < 0:
        return "share is below zero"
    if ratio > MANY_TIMES:
        return f"{ratio:,.0f} times" if ratio < 1e6 else "over a million times"
    return percent(ratio, decimals=0)


def counted(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _fixed(number: float, decimals: int, *, signed: bool) -> str:
    if np.isnan(number):
        return "undefined"
    if np.isinf(number):
        return "∞" if number > 0 else f"{MINUS}∞"
    text = f"{abs(number):,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return (MINUS if number < 0 else "+" if signed else "") + text


def _largest(numbers: FloatArray) -> float:
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))

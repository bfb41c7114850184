"""Numbers as people read them: amounts in money or in units of payoff, contributions, percentages, ratios in words.

The terminal, the report, the explorer and pictures all write their numbers with these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedpact.certificates.reciprocity import shown_shares
from fedpact.deals import Outcome, Settlement
from fedpact.scenario import Money
from fedpact.scenario.members_words import DataUnit
from fedpact.utils.arrays import FloatArray

SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
UNDEFINED = "undefined"
PAYOFF_LABEL = "units of payoff"
# Amounts below this part of the largest payoff are rounding: they are written 0.
AMOUNT_NOISE = 1e-9
# Entries below this part of the largest in their column are rounding too.
COLUMN_NOISE = 1e-9
# Money is written in whole units from here on, and with more than two decimals below the other bound.
WHOLE_FROM = 1000.0
CENTS_FROM = 0.1
# Of the largest number of a column, unless more are asked for, and of every number that somebody chose.
SIGNIFICANT_DIGITS = 4
# Computed numbers from here on have exponents.
WRITTEN_OUT_BELOW = 1e12
# Beyond this ratio percentages are hard to read.
MANY_TIMES = 10.0
# Probabilities this close to 0 or 1 have a decimal.
NEARLY_SURE = 0.1


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
    data
        What contributions are counted in, such as "thousand records"; empty if nobody said.
    """

    label: str
    per_payoff: float
    noise: float
    is_money: bool
    data: str = ""

    @classmethod
    def of(cls, money: Money | None, payoffs: ArrayLike = (), *, data: str = "") -> Unit:
        """The unit for a federation whose payoffs are of the size of `payoffs` and whose data is counted in `data`."""
        noise = AMOUNT_NOISE * _largest(np.asarray(payoffs, dtype=np.float64))
        if money is None:
            return cls(label=PAYOFF_LABEL, per_payoff=1.0, noise=noise, is_money=False, data=data)
        return cls(label=money.currency, per_payoff=money.per_payoff, noise=noise, is_money=True, data=data)

    def of_data(self, head: str) -> str:
        """A head of contributions, with what they are counted in."""
        return f"{head} ({self.data})" if self.data else head

    @property
    def per_data(self) -> str:
        """What prices are in, such as "EUR per record" or "EUR per thousand records"."""
        unit = DataUnit.parse(self.data or "unit of data")
        return f"{self.label} per {unit.noun if unit.count == 1.0 else self.data}"

    def of_deal(self, *, has_prices: bool) -> str:
        """What the numbers of a deal are in, for the title of its table."""
        words = f"amounts in {self.label}" + (f", contributions in {self.data}" if self.data else "")
        return f"{words}, prices in {self.per_data}" if has_prices else words

    def of_measure(self, measure: str) -> tuple[str, float]:
        """What a metric of a sweep is shown in, and how many of it are one of its `measure`, as `unit_of` has it."""
        if measure == "payoff":
            return self.label, self.per_payoff
        if measure == "payoff per sample":
            return self.per_data, self.per_payoff
        return (self.data or "samples" if measure == "samples" else measure), 1.0

    def column(self, payoffs: ArrayLike, *, signed: bool = False) -> list[str]:
        """Amounts with the same decimals, without the unit; nothing at all is a plain 0, with no sign."""
        given = np.atleast_1d(np.asarray(payoffs, dtype=np.float64))
        amounts = np.where(np.abs(given) <= self.noise, 0.0, given) * self.per_payoff
        largest = _largest(amounts)
        if not self.is_money or 0 < largest < CENTS_FROM:
            return number_texts(amounts, signed=signed)
        decimals = 2 if 0 < largest < WHOLE_FROM else 0
        return [_fixed(float(amount), decimals, signed=signed) if amount else "0" for amount in amounts]

    def given_column(self, payoffs: ArrayLike) -> list[str]:
        """Amounts that somebody chose, without the decimals they do not need where that is possible."""
        if self.is_money:
            return self.column(payoffs)
        return [given_text(float(payoff)) for payoff in np.atleast_1d(np.asarray(payoffs, dtype=np.float64))]

    def text(self, payoff: float, *, signed: bool = False) -> str:
        """One amount with its unit, for a sentence."""
        return self.labelled(self.column([payoff], signed=signed)[0])

    def labelled(self, amount: str) -> str:
        """A text of a column with its unit."""
        if amount.endswith(("∞", UNDEFINED)):
            return amount
        if not self.is_money:
            return f"{amount}{SPACE}units"
        sign = amount[0] if amount[0] in f"+{MINUS}" else ""
        return f"{sign}{self.label}{SPACE}{amount.removeprefix(sign)}"


def number_texts(
    numbers: ArrayLike, *, signed: bool = False, rounding: float = 0.0, digits: int = SIGNIFICANT_DIGITS
) -> list[str]:
    """A column of computed numbers, such as contributions, with the same decimals: as many as the largest needs.

    Parameters
    ----------
    numbers
        The column; infinite and undefined entries become words.
    signed
        Whether to write a plus before positive numbers.
    rounding
        Numbers up to this size are written 0.
    digits
        How many significant digits the largest number has.

    Examples
    --------
    >>> number_texts([59.20472, 5.45597, 1e-14])
    ['59.20', '5.46', '0']
    >>> number_texts([0.17162, -0.0804501, np.inf, np.nan], signed=True)
    ['+0.1716', '−0.0805', '∞', 'undefined']
    """
    column = np.atleast_1d(np.asarray(numbers, dtype=np.float64))
    largest = _largest(column)
    decimals = max(0, digits - 1 - int(np.floor(np.log10(largest)))) if largest > 0 else 0
    plus = "+" if signed else ""
    form = f"{plus},.{decimals}f" if decimals <= 2 * digits else f"{plus}.{digits}g"

    def text(number: float) -> str:
        if not np.isfinite(number):
            return _without_number(number)
        if abs(number) <= max(rounding, COLUMN_NOISE * largest):
            return "0"
        vanishes = abs(number) < 0.5 * 10.0**-decimals
        return format(number, f"{plus}.2g" if vanishes else form).replace("-", MINUS)

    return [text(float(number)) for number in column]


def number_text(number: float, *, digits: int = SIGNIFICANT_DIGITS) -> str:
    """One computed number with a few significant digits; a large one is written out.

    Examples
    --------
    >>> number_text(59.20472), number_text(59204.72), number_text(0.000012)
    ('59.2', '59,205', '1.2e−05')
    """
    if not np.isfinite(number):
        return _without_number(number)
    written_out = 10.0**digits <= abs(number) < WRITTEN_OUT_BELOW
    return format(number, ",.0f" if written_out else f",.{digits}g").replace("-", MINUS)


def given_text(number: float) -> str:
    """A number somebody chose, such as a cap: without the decimals it does not need.

    Examples
    --------
    >>> given_text(120.0), given_text(0.000024), given_text(1234567.8), given_text(float("inf"))
    ('120', '0.000024', '1,234,568', 'unlimited')
    """
    if np.isinf(number):
        return "unlimited"
    size = abs(number)
    if 1e4 <= size < 1e9:
        text = f"{number:,.0f}"
    elif size == 0 or 1e-6 <= size < 1e4:
        text = np.format_float_positional(number, precision=SIGNIFICANT_DIGITS, fractional=False, trim="-")
    else:
        text = f"{number:.{SIGNIFICANT_DIGITS}g}"
    return text.replace("-", MINUS)


def cents_text(settlement: Settlement, cents: int) -> str:
    """An amount of a settlement, to the last cent, without the currency."""
    whole, part = divmod(abs(cents), 10**settlement.decimals)
    fraction = f".{part:0{settlement.decimals}d}" if settlement.decimals else ""
    return f"{MINUS if cents < 0 else ''}{whole:,}{fraction}"


def money_text(settlement: Settlement, cents: int) -> str:
    """The same with its unit, for a sentence: the currency before it, "units of payoff" after it."""
    amount = cents_text(settlement, cents)
    if settlement.currency == PAYOFF_LABEL:
        return f"{amount}{SPACE}{PAYOFF_LABEL}"
    return f"{settlement.currency}{SPACE}{amount}"


def percent(part: float, *, decimals: int = 1, signed: bool = False) -> str:
    """A part of one as a percentage."""
    if not np.isfinite(part):
        return UNDEFINED
    return f"{_fixed(100.0 * part, decimals, signed=signed)}{SPACE}%"


def probability_text(part: float, draws: int) -> str:
    """A share of the draws as a percentage; none and all of them are not called impossible and certain.

    Examples
    --------
    >>> [probability_text(part, 400).replace(SPACE, " ") for part in (0.0, 0.05, 0.42, 1.0)]
    ['below 0.25 %', '5.0 %', '42 %', 'above 99.75 %']
    """
    if part <= 0:
        return f"below {100.0 / draws:.2g}{SPACE}%"
    if part >= 1:
        return f"above {100.0 - 100.0 / draws:.4g}{SPACE}%"
    return percent(part, decimals=0 if NEARLY_SURE <= part <= 1.0 - NEARLY_SURE else 1)


def share_text(ratio: float, share: float) -> str:
    """How much of its Shapley share an agent gets back, in words where a percentage would mislead.

    Of a share that is not above zero no part is written, nor of any share where an agent gets less than nothing.

    Examples
    --------
    >>> share_text(float("inf"), 0.0)
    'share is zero'
    >>> share_text(-2.0, -0.1)
    'share is below zero'
    >>> share_text(-0.4, 0.1)
    'less than nothing'
    """
    if np.isnan(ratio) or np.isnan(share):
        return UNDEFINED
    if share < 0:
        return "share is below zero"
    if share == 0 or np.isinf(ratio):
        return "below a zero share" if ratio < 0 else "share is zero"
    if ratio < 0:
        return "less than nothing"
    if ratio > MANY_TIMES:
        return f"{ratio:,.0f} times" if ratio < 1e6 else "over a million times"
    return percent(ratio, decimals=0)


def without_rounding(outcome: Outcome, amounts: FloatArray) -> FloatArray:
    """Amounts of an outcome, with what is rounding to its certificates set to zero."""
    return np.where(np.abs(amounts) <= outcome.tolerances.sum(), 0.0, amounts)


def share_texts(outcome: Outcome) -> list[str]:
    """How much of its Shapley share each agent gets back; shares that are rounding are zero."""
    shares = shown_shares(outcome.payoffs + outcome.payments, outcome.shapley_values)
    pairs = zip(outcome.reciprocity_ratios, shares, strict=True)
    return [share_text(float(ratio), float(share)) for ratio, share in pairs]


def gain_share_texts(outcome: Outcome) -> list[str]:
    """What part of its fair gain every member has; in words where there is no gain to have a part of."""
    if np.isnan(outcome.fair_gains).any():
        return [UNDEFINED] * len(outcome.agents)
    return ["fair gain is zero" if np.isnan(share) else share_text(float(share), 1.0) for share in outcome.gain_shares]


def smallest_gain_text(outcome: Outcome, unit: Unit) -> str:
    """The smallest gain of any member, with the member's name."""
    agent = int(np.argmin(outcome.ir_gaps))
    return f"smallest gain {unit.text(float(outcome.ir_gaps[agent]), signed=True)}, of {outcome.agents[agent]}"


def lowest_gain_share_text(outcome: Outcome) -> str:
    """How much of its fair gain the worst-off member has."""
    if np.isnan(outcome.fair_gains).any():
        return UNDEFINED
    lowest = outcome.lowest_gain_share
    if outcome.would_leave.any():  # those without a fair gain count too
        return share_text(-1.0, 1.0)
    return "nobody has one" if np.isnan(lowest) else share_text(lowest, 1.0)


def lowest_share_text(outcome: Outcome) -> str:
    """How much of its Shapley share the worst-off member gets back, of those with a share above zero."""
    if np.isnan(outcome.shapley_values).any():
        return UNDEFINED
    lowest = outcome.lowest_fair_part
    return "nobody has a share" if np.isnan(lowest) else share_text(lowest, 1.0)


def _fixed(number: float, decimals: int, *, signed: bool) -> str:
    if not np.isfinite(number):
        return _without_number(number)
    text = f"{abs(number):,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return (MINUS if number < 0 else "+" if signed else "") + text


def _without_number(number: float) -> str:
    return UNDEFINED if np.isnan(number) else "∞" if number > 0 else f"{MINUS}∞"


def _largest(numbers: FloatArray) -> float:
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))

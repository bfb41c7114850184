"""How numbers become judgements and words: tolerances, symbols, and what is said of a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, isnan

from fedpact.paper.results import Judgement

MINUS = "\N{MINUS SIGN}"
SYMBOLS = {"externality": "M^E", "shapley": "M^Shap"}
# Where the paper leaves the caps open: its training experiment gives everybody 400 images.
CAP = 400.0
SAME_AMOUNT = 1e-6  # relative; the solvers are good to about 1e-9
ZERO_AMOUNT = 1e-9  # contributions, payments and gains below are zero
ZERO_NUMBER = 1e-12  # numbers below are rounding


def judge(holds: bool, *, partly: bool = False) -> Judgement:
    """Confirmed where a statement holds as made, conditional where only part of it does.

    Examples
    --------
    >>> str(judge(False, partly=True))
    'confirmed with a condition'
    """
    if holds:
        return Judgement.CONFIRMED
    return Judgement.CONDITIONAL if partly else Judgement.NOT_CONFIRMED


def number(amount: float, form: str = ".3g") -> str:
    """One number; rounding errors are zero, and zero has no sign.

    Examples
    --------
    >>> number(-0.0749), number(-4e-17), number(1.5, ".3f")
    ('−0.0749', '0', '1.500')
    """
    if not isfinite(amount):
        return "undefined" if isnan(amount) else "∞" if amount > 0 else f"{MINUS}∞"
    text = f"{amount if abs(amount) > ZERO_NUMBER else 0.0:{form}}"
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def numbers(amounts: Iterable[float], form: str = ".3g") -> str:
    """Several numbers in brackets, such as a profile of contributions."""
    return f"({', '.join(number(amount, form) for amount in amounts)})"


def span(amounts: Sequence[float], form: str = ".3g") -> str:
    """The range of some numbers: "1.59 to 1.81"."""
    if not amounts:
        return "nothing"
    return f"{number(min(amounts), form)} to {number(max(amounts), form)}"


def within(amount: float) -> str:
    """How near two numbers are: their distance, unless that is rounding.

    Examples
    --------
    >>> within(7.4e-10), within(3e-17)
    ('7e−10', 'less than 1e−12')
    """
    return (
        number(amount, ".0e") if not abs(amount) <= ZERO_NUMBER else f"less than {ZERO_NUMBER:.0e}".replace("-", MINUS)
    )

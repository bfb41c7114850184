"""The questions of `fedpact new --ask`: one at a time, each with an answer to start from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer

from fedpact.scenario.quantities import DataUnit, Price
from fedpact.scenario.template import ScenarioAnswers
from fedpact.utils.cells import NumberFormat
from fedpact.utils.errors import InvalidInput

MAX_ASKED = 8  # members whose every pair is asked about
UNLIKELY_WEIGHT = 10.0


def ask_for_scenario(names: str | None) -> ScenarioAnswers:
    """What a person answers on the terminal."""
    if not sys.stdin.isatty():
        raise InvalidInput("--ask needs a terminal to ask on; without it a file to fill in is written")
    try:
        return _ask(names)
    except typer.Abort as stop:  # so Typer says that a question was interrupted, or that there is no more input
        raise KeyboardInterrupt from stop


def _ask(names: str | None) -> ScenarioAnswers:
    title = typer.prompt("What is the federation called?", default="My federation")
    members = _answer("Who takes part? Names with commas", names or "North,City,South", _names)
    unit = _answer("In what is data counted?", "thousand records", _unit)
    currency = _answer("In which currency?", "EUR", _currency)
    one = DataUnit.parse(unit)
    each = f"{'' if one.count == 1 else f'{one.count:g} '}{one.noun}{'' if one.count == 1 else 's'}"
    caps, costs, values = [], [], []
    for name in members:
        caps.append(_answer(f"{name}: how much data can it give, in {unit}?", "100", _positive))
        cost = _answer(f"{name}: what does it cost to give one unit ({unit}), in {currency}?", "300", _positive)
        costs.append(f"{cost:.10g} {currency}/{each}")
        value = _answer(f"{name}: what is one more point of accuracy worth, in {currency}?", "1000", _positive)
        values.append(f"{value:.10g} {currency}/point")
    weights = [[_weight(receiver, giver) for giver in members] for receiver in members]
    return ScenarioAnswers(
        names=members, unit=unit, weights=weights, costs=costs, caps=caps, values=values, title=title
    )


def _weight(receiver: str, giver: str) -> float:
    if receiver == giver:
        return 1.0
    question = f"How useful is {giver}'s data to {receiver}? 1: as its own, 0.5: half as much, 0: not at all"
    while True:
        weight = _answer(question, "0.5", _number)
        likely = weight <= UNLIKELY_WEIGHT
        if likely or typer.confirm(f"{weight:g} times as useful as its own data? Not {weight:g} %?", default=False):
            return weight


def _answer(question: str, default: str, read: Callable[[str], Any]) -> Any:
    """Ask until the answer can be read."""
    while True:
        try:
            return read(str(typer.prompt(question, default=default)))
        except InvalidInput as error:
            typer.echo(f"  {error}")


def _names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    if len(found) < 2 or len(set(found)) < len(found) or len(found) > MAX_ASKED:
        raise InvalidInput(f"two to {MAX_ASKED} different names, please; of more, fill in a weights file")
    return found


def _unit(text: str) -> str:
    DataUnit.parse(text)
    return text.strip()


def _currency(text: str) -> str:
    return Price.parse(f"1 {text.strip()}/record", "the currency").currency


def _number(text: str) -> float:
    try:
        return NumberFormat.of([text]).number(text)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"a number, please, not {text!r:.40}") from error


def _positive(text: str) -> float:
    number = _number(text)
    if not 0.0 < number < float("inf"):
        raise InvalidInput(f"a number above zero, please, not {text!r:.40}")
    return number

"""`fedpact new`: a commented scenario file to start from, or one made by questions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.scenario import EXAMPLES, example, load_scenario, save_scenario, schema, template
from fedpact.scenario.members_words import DataUnit
from fedpact.scenario.template import ScenarioAnswers, scenario_text
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text
from fedpact.utils.tables import decimal_text, typed_number

MAX_ASKED = 8  # members whose every pair is asked about
CURRENCY = re.compile(r"[^\W\d_]{1,12}|[$€£¥]")
UNLIKELY_WEIGHT = 10.0


class _Back(Exception):
    """The person wants to answer the question before again."""


class _Interview:
    """Questions on the terminal; whoever types "back" is asked the one before again, its answers so far kept."""

    def __init__(self) -> None:
        self._answers: list[Any] = []
        self._asked = 0

    def run(self, questions: Callable[[_Interview], ScenarioAnswers]) -> ScenarioAnswers:
        """What comes of all questions, gone through anew after every step back."""
        typer.echo('Press Enter for what is in brackets; type "back" to answer the question before again.')
        while True:
            self._asked = 0
            try:
                return questions(self)
            except _Back:
                self._answers = self._answers[:-1]

    def ask(self, question: str, default: str, read: Callable[[str], Any] = str) -> Any:
        """One answer that can be read; the one that was given before a step back, if there is one."""
        while self._asked == len(self._answers):
            text = str(typer.prompt(question, default=default, show_default=bool(default)))
            if text.strip().lower() == "back":
                raise _Back
            try:
                self._answers.append(read(text))
            except InvalidInput as error:
                typer.echo(f"  {error}")
        self._asked += 1
        return self._answers[self._asked - 1]


def ask_for_scenario(names: str | None) -> ScenarioAnswers:
    """What a person answers on the terminal."""
    if not sys.stdin.isatty():
        raise InvalidInput("--ask needs a terminal to ask on; without it a file to fill in is written")
    try:
        return _Interview().run(lambda interview: _ask(interview, names))
    except typer.Abort as stop:  # so Typer says that a question was interrupted, or that there is no more input
        raise KeyboardInterrupt from stop


def _ask(interview: _Interview, names: str | None) -> ScenarioAnswers:
    ask = interview.ask
    title = ask("What is the federation called?", "")
    description = ask("What does it train, and where do the numbers come from?", "")
    members = ask("Who takes part? Names with commas", names or "North,City,South", _names)
    unit = ask("In what is data counted?", "thousand records", _unit)
    currency = ask("In which currency?", "EUR", _currency)
    one = DataUnit.parse(unit)
    each = f"{'' if one.count == 1 else f'{one.count:g} '}{one.noun}{'' if one.count == 1 else 's'}"
    caps, costs, values = [], [], []

    def amount(text: str) -> float:
        return _not_negative(text.strip().removesuffix(currency))

    def price(text: str) -> float:
        return _positive(text.strip().removesuffix(currency))

    for name in members:
        caps.append(ask(f"{name}: how much data can it give, in {unit}?", "100", _positive))
        cost = ask(f"{name}: what does it cost to share one unit ({unit}), in {currency}?", "30", price)
        costs.append(f"{decimal_text(cost)} {currency}/{each}")
        value = ask(f"{name}: what is one more point of accuracy worth, in {currency}?", "1000", price)
        values.append(f"{decimal_text(value)} {currency}/point")
    home = ask("Do members use all of their own data anyway, at no further cost? yes or no", "yes", _yes_or_no)
    joining = ask(
        f"What does taking part cost each member once, in {currency}?",
        "0",
        lambda text: _not_negative(text.strip().removesuffix(currency)),
    )
    useful = "How useful is {}'s data to {}? 1: as its own, 0.5: half, 0: not at all, below 0: it harms"
    weights = [
        [1.0 if receiver == giver else ask(useful.format(giver, receiver), "0.5", _weight) for giver in members]
        for receiver in members
    ]
    return ScenarioAnswers(
        names=members,
        unit=unit,
        weights=weights,
        costs=costs,
        caps=caps,
        values=values,
        title=title,
        description=description,
        home=home,
        joining_costs=f"{decimal_text(joining)} {currency}" if joining else "",
    )


def _weight(text: str) -> float:
    weight = _number(text.removesuffix("!"))
    if weight > UNLIKELY_WEIGHT and not text.endswith("!"):
        raise InvalidInput(
            f"{weight:g} times as useful as its own data? For {weight:g} % answer {weight / 100:g}; if it is meant so, "
            f"answer {weight:g}!"
        )
    return weight


def _yes_or_no(text: str) -> bool:
    if text.strip().lower() not in {"y", "yes", "n", "no"}:
        raise InvalidInput(f"yes or no, please, not {text!r:.40}")
    return text.strip().lower().startswith("y")


def _names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    if len(found) < 2 or len(set(found)) < len(found) or len(found) > MAX_ASKED:
        raise InvalidInput(f"two to {MAX_ASKED} different names, please; of more, fill in a weights file")
    return found


def _unit(text: str) -> str:
    DataUnit.parse(text)
    return text.strip()


def _currency(text: str) -> str:
    if CURRENCY.fullmatch(text.strip()) is None:
        raise InvalidInput(f"letters such as EUR or CHF, please, not {text!r:.40}")
    return text.strip()


def _number(text: str) -> float:
    try:
        return typed_number(text)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"a number, please, not {text!r:.40}") from error


def _not_negative(text: str) -> float:
    if "%" in text or not 0.0 <= (number := _number(text)) < float("inf"):
        raise InvalidInput(f"an amount of at least zero, please, not {text!r:.40}")
    return number


def _positive(text: str) -> float:
    if (number := _not_negative(text)) == 0.0:
        raise InvalidInput(f"a number above zero, please, not {text!r:.40}")
    return number


__all__ = ["new"]


def new(
    path: Annotated[Path, Argument(help="The file to write.")] = Path("scenario.toml"),
    agents: Annotated[int, Option("--agents", "-n", help="How many members.", min=1, max=1000)] = 3,
    names: Annotated[str | None, Option("--names", help="Their names, with commas between them.")] = None,
    lots: Annotated[str | None, Option("--lots", help="Several kinds of data per member: names, with commas.")] = None,
    tasks: Annotated[str | None, Option("--tasks", help="Several tests per member: names, with commas.")] = None,
    source: Annotated[str | None, Option("--from", help=f"Copy a built-in one: {', '.join(EXAMPLES)}.")] = None,
    ask: Annotated[bool, Option("--ask", help="Ask for everything, on a terminal.")] = False,
    force: inputs.Force = False,
    as_json: inputs.AsJson = False,
    print_schema: Annotated[bool, Option("--schema", help="Print the JSON Schema of scenarios.")] = False,
) -> None:
    """Write a commented scenario file to fill in."""
    if print_schema:
        typer.echo(json.dumps(schema(), indent=2))
        return
    inputs.check_output(path, force=force)
    if ask and source is not None:
        raise InvalidInput("--ask and --from exclude each other: give one of them")
    if (lots is not None or tasks is not None) and (ask or source is not None):
        raise InvalidInput("--lots and --tasks are for a new file: leave out --ask and --from")
    if source is not None:
        save_scenario(example(source), path)
    else:
        if path.suffix.lower() != ".toml":
            raise InvalidInput(f"a new scenario is commented TOML, so its name must end in .toml, got {str(path)!r}")
        chosen = _listed("--names", names) or agents
        kinds = {"lots": _listed("--lots", lots), "tasks": _listed("--tasks", tasks)}
        replace_text(path, scenario_text(ask_for_scenario(names)) if ask else template(chosen, **kinds))
    if as_json:
        screen.print_json({"path": str(path), "agents": list(load_scenario(path).federation.names)})
    elif ask:
        curve = f"The curve, how fast quality rises with data, is assumed: change it in {path} if you know it."
        typer.echo(f"{path} written. {curve} Now run: fedpact compare {path}")
    else:
        typer.echo(f"{path} written; now edit it and run: fedpact compare {path}")


def _listed(option: str, given: str | None) -> list[str]:
    """Names with commas between them; none where the option is not given."""
    found = [] if given is None else [name.strip() for name in given.split(",")]
    if "" in found:
        raise InvalidInput(f"{option} must be names with commas between them, none of them blank, got {given!r:.60}")
    for name in found:
        if found.count(name) > 1:
            raise InvalidInput(f"{option} must name each once, got {name!r:.60} twice")
    return found

"""`fedpact new`: a commented scenario file to start from, or one made by questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedpact.cli.common import AsJson, Force, check_output, print_json
from fedpact.scenario import load_scenario, save_scenario, schema, template
from fedpact.scenario.examples import EXAMPLES, example
from fedpact.scenario.members_words import DataUnit, Price
from fedpact.scenario.template import ScenarioAnswers, scenario_text
from fedpact.utils.cells import decimal_text, typed_number
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text

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
    description = typer.prompt("What does it train, and where do the numbers come from?", default="Not said yet")
    members = _answer("Who takes part? Names with commas", names or "North,City,South", _names)
    unit = _answer("In what is data counted?", "thousand records", _unit)
    currency = _answer("In which currency?", "EUR", _currency)
    one = DataUnit.parse(unit)
    each = f"{'' if one.count == 1 else f'{one.count:g} '}{one.noun}{'' if one.count == 1 else 's'}"
    caps, costs, values = [], [], []
    for name in members:
        caps.append(_answer(f"{name}: how much data can it give, in {unit}?", "100", _positive))
        cost = _answer(f"{name}: what does it cost to share one unit ({unit}), in {currency}?", "30", _positive)
        costs.append(f"{decimal_text(cost)} {currency}/{each}")
        value = _answer(f"{name}: what is one more point of accuracy worth, in {currency}?", "1000", _positive)
        values.append(f"{decimal_text(value)} {currency}/point")
    home = typer.confirm("Do members use all of their own data anyway, at no further cost?", default=True)
    joining = _answer(f"What does taking part cost each member once, in {currency}?", "0", _not_negative)
    weights = [[_weight(receiver, giver) for giver in members] for receiver in members]
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


def _weight(receiver: str, giver: str) -> float:
    if receiver == giver:
        return 1.0
    question = f"How useful is {giver}'s data to {receiver}? 1: as its own, 0.5: half, 0: not at all, below 0: it harms"
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
        return typed_number(text)
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"a number, please, not {text!r:.40}") from error


def _not_negative(text: str) -> float:
    number = _number(text)
    if not 0.0 <= number < float("inf"):
        raise InvalidInput(f"a number of at least zero, please, not {text!r:.40}")
    return number


def _positive(text: str) -> float:
    number = _number(text)
    if not 0.0 < number < float("inf"):
        raise InvalidInput(f"a number above zero, please, not {text!r:.40}")
    return number


__all__ = ["new"]


def new(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("scenario.toml"),
    agents: Annotated[int, typer.Option("--agents", "-n", help="How many members.", min=1, max=1000)] = 3,
    names: Annotated[str | None, typer.Option("--names", help="Their names, with commas between them.")] = None,
    lots: Annotated[
        str | None,
        typer.Option("--lots", help="Several kinds of data per member: their names, with commas between them."),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", help="Several tests per member: their names, with commas between them.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help=f"Copy a built-in federation: {', '.join(EXAMPLES)}.", metavar="NAME"),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for everything, on a terminal.")] = False,
    force: Force = False,
    as_json: AsJson = False,
    print_schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of scenarios and exit.")
    ] = False,
) -> None:
    """Write a commented scenario file to fill in."""
    if print_schema:
        typer.echo(json.dumps(schema(), indent=2))
        return
    check_output(path, force=force)
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
        print_json({"path": str(path), "agents": list(load_scenario(path).federation.names)})
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

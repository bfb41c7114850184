"""`fedpact new`: a commented scenario file to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedpact.cli.common import AsJson, Force, check_output, print_json
from fedpact.cli.new_questions import ask_for_scenario
from fedpact.scenario import load_scenario, save_scenario, schema, template
from fedpact.scenario.examples import EXAMPLES, example
from fedpact.scenario.template import scenario_text
from fedpact.utils.errors import InvalidInput
from fedpact.utils.files import replace_text

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

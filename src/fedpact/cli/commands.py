"""The commands: what each is for. Its module is imported when it is run, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
import typer
from click.shell_completion import CompletionItem
from typer.core import TyperGroup

COMMANDS = {
    "From data to a federation": {
        "new": "Write a commented scenario file to fill in.",
        "pilot": "Train coalitions on members' tables; end in a deal.",
        "fit": "Estimate weights and curves from measured accuracies.",
        "lots": "Cut samples into kinds of data: good, fair, harmful.",
    },
    "The deal": {
        "compare": "Compare the mechanisms: who brings, pays, leaves, gains.",
        "solve": "Solve one mechanism, with its certificates.",
        "check": "Check a deal against what its mechanism promises.",
        "shapley": "Each member's fair share of what the data is worth.",
        "explore": "Edit a federation in the browser and watch its deal.",
    },
    "Between the members": {
        "negotiate": "Let the members negotiate; each answers for itself.",
        "agent": "The private file with which a member negotiates.",
        "flower": "Run a deal between real nodes, on Flower.",
        "train": "Train under a deal: promised beside what came of it.",
        "verify": "Estimate what share of its data each member delivered.",
        "settle": "Turn a deal's payments into transfers of money.",
    },
    "Research": {
        "sweep": "Vary one or two parameters and see what becomes of it.",
        "study": "Put mechanisms to many random federations.",
        "paper": "Compute the paper's figures and tables anew.",
    },
}


class CommandsOnDemand(TyperGroup):
    """A group that knows its commands by name and purpose, and loads the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: click.Command(name) for commands in COMMANDS.values() for name in commands}
        self._loaded: dict[str, click.Command] = {}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module, if there is such a command."""
        if cmd_name in self.commands and cmd_name not in self._loaded:
            self._loaded[cmd_name] = _load(cmd_name)
        return self._loaded.get(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Options if one has been begun, otherwise commands with their purpose, of which none is imported."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        purposes = {name: purpose for commands in COMMANDS.values() for name, purpose in commands.items()}
        return [CompletionItem(name, help=text) for name, text in purposes.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command, and import none."""
        width = max(map(len, self.commands))
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), purpose) for name, purpose in commands.items()])


def _load(name: str) -> click.Command:
    found = getattr(import_module(f"fedpact.cli.{name}"), name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return typer.main.get_command(found)

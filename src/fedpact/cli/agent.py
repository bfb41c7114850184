"""`fedpact agent`: the private file with which a member negotiates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedpact.cli import inputs, screen
from fedpact.utils.errors import error_context

agent = typer.Typer(
    name="agent", help="The private file with which a member negotiates.", no_args_is_help=True, add_completion=False
)


@agent.callback()
def _agent() -> None:
    """Keeps `check` a command of its own while it is the only one."""


@agent.command()
def check(
    path: Annotated[Path, typer.Argument(help="A private file, of `fedpact fit --member`.")],
    as_json: inputs.AsJson = False,
) -> None:
    """Say in words what a private file holds, and what the member would do alone."""
    from fedpact.negotiation.agent_file import load_agent, read_private_file  # noqa: PLC0415 - heavy
    from fedpact.report.member_file import MemberNotes, agent_record, agent_text  # noqa: PLC0415 - heavy

    found = load_agent(path)
    with error_context(str(path)):
        notes = MemberNotes.of(read_private_file(path), found)
    if as_json:
        screen.print_json(agent_record(found, notes))
        return
    screen.say_all(agent_text(found, notes).splitlines(), path=True)

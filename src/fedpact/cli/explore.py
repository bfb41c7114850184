"""`fedpact explore`: a federation in the browser, to edit while its deal moves along."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer import Option

from fedpact.cli import inputs, screen

__all__ = ["explore"]


def explore(
    scenario: inputs.ScenarioArgument = inputs.DEFAULT_EXAMPLE,
    port: Annotated[int | None, Option("--port", "-p", help="8517 or any free one.", min=1, max=65535)] = None,
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    as_json: inputs.AsJson = False,
) -> None:
    """Edit a federation in the browser and watch its deal; on this machine alone, and offline."""
    from fedpact.explorer.server import serve  # noqa: PLC0415 - only for this command

    def ready(url: str) -> None:
        if as_json:
            screen.print_json({"url": url})
        else:
            typer.echo(f"The explorer is at {url} (Ctrl+C ends it)")

    known = inputs.read_scenario(scenario)
    if serve(known, source=scenario, port=port, open_browser=browser, ready=ready):
        # A thread in compiled code hears nothing; the interpreter's end would unwind it, and abort.
        sys.stdout.flush()
        os._exit(0)

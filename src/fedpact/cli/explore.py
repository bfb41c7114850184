"""`fedpact explore`: a federation in the browser, to edit while its deal moves along."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from fedpact.cli.common import DEFAULT_EXAMPLE, AsJson, ScenarioArgument, print_json, read_scenario

__all__ = ["explore"]


def explore(
    scenario: ScenarioArgument = DEFAULT_EXAMPLE,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", help="The port; 8517 or any free one if none is named.", min=1, max=65535),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Edit a federation in the browser and watch its deal; on this machine alone, and offline."""
    from fedpact.explorer.server import serve  # noqa: PLC0415 - only for this command

    def ready(url: str) -> None:
        if as_json:
            print_json({"url": url})
        else:
            typer.echo(f"The explorer is at {url} (Ctrl+C ends it)")

    if serve(read_scenario(scenario), source=scenario, port=port, open_browser=browser, ready=ready):
        # A thread in compiled code hears nothing; the interpreter's end would unwind it, and abort.
        sys.stdout.flush()
        os._exit(0)

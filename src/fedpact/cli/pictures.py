"""Pictures of what a command found: refused before any work if they could not be written, drawn and written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import check_writable, replace_files
from fedpact.utils.words import printable

__all__ = ["can_draw", "check_picture", "write_picture"]

PICTURES = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    """Raise `InvalidInput` for a name that could not be written, `MissingExtra` for a picture nobody can draw."""
    with error_context(str(path)):
        if path.suffix.lower() not in PICTURES:
            raise InvalidInput(f"a picture's name must end in {', '.join(PICTURES)}")
        check_writable(path)
    from fedpact.report.plots import new_figure  # noqa: PLC0415 - optional dependency

    new_figure(1.0, 1.0)


def can_draw(path: Path, *, wanted: bool) -> bool:
    """Whether to draw a picture that comes with a command, said if not; one asked for by name must be possible."""
    try:
        check_picture(path)
    except MissingExtra as error:
        if wanted:
            raise
        typer.echo(f"no picture {printable(str(path))}: {error}", err=True)
        return False
    return True


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure whole, or leave what was there."""
    from fedpact.report.plots.style import figure_bytes  # noqa: PLC0415 - optional dependency

    with error_context(str(path)):
        replace_files({path: figure_bytes(figure, path.suffix[1:].lower())})

"""A result's files: its numbers as CSV, its picture as PNG and SVG, the same bytes every time."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, cast

import numpy as np

from fedpact.paper.drawing import STYLE
from fedpact.paper.result import Result
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import replace_files

__all__ = ["csv_text", "files_of", "make_folder", "pictures", "require_matplotlib", "write_files"]

RESOLUTION = 300
DIGITS = ".10g"


def require_matplotlib() -> None:
    """Fail early, and say how to install it."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error


def make_folder(folder: Path) -> None:
    """The folder for the results, made if it is not there."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder}: this is a file; name a folder for the results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: the folder cannot be made: {error.strerror or error}") from error


def files_of(result: Result) -> dict[str, bytes]:
    """Every file of a result, by name."""
    files = {f"{result.name}.csv": csv_text(result).encode()}
    if result.draw is not None:
        files |= {f"{result.name}.{kind}": picture for kind, picture in pictures(result).items()}
    return files


def write_files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files into the folder, all of them or none."""
    with error_context(str(folder)):
        replace_files({folder / name: content for name, content in contents.items()})
    return [folder / name for name in contents]


def csv_text(result: Result) -> str:
    """The columns as CSV, numbers with ten digits."""
    lengths = {name: len(column) for name, column in result.columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"the columns of {result.name} must have the same length, got {lengths}")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(result.columns)
    for row in zip(*result.columns.values(), strict=True):
        writer.writerow(map(_cell, row))
    return file.getvalue()


def pictures(result: Result) -> dict[str, bytes]:
    """The figure as PNG and as SVG."""
    require_matplotlib()
    import matplotlib  # noqa: PLC0415 - optional dependency
    from matplotlib.figure import Figure  # noqa: PLC0415

    assert result.draw is not None
    with matplotlib.rc_context(cast(Any, STYLE)):
        figure = Figure(figsize=result.size, dpi=RESOLUTION, layout="constrained", facecolor="white")
        result.draw(figure)
        return {kind: _saved(figure, kind, metadata) for kind, metadata in _METADATA.items()}


# Nothing that changes from day to day or from machine to machine.
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def _saved(figure: Any, kind: str, metadata: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return f"{float(value) + 0.0:{DIGITS}}"
    return str(value)

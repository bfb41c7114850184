"""`fedpact sweep`: one or two parameters of a federation varied over a range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from fedpact.cli.common import AsJson, console, counter, print_json, read_scenario, table
from fedpact.errors import InvalidInput, MissingExtra
from fedpact.files import located, replace_files
from fedpact.mechanisms import MECHANISMS
from fedpact.records import sweep_record
from fedpact.sweeps import Sweep
from fedpact.sweeps import sweep as run_sweep
from fedpact.sweeps.running import METRICS
from fedpact.sweeps.table import check_table_name, write_table

__all__ = ["sweep"]

PICTURES = (".png", ".svg", ".pdf")


def sweep(
    scenario: Annotated[str, typer.Argument(help="A .toml or .json file, or a built-in federation.")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            help='What to vary and how, once or twice: "weights[0,1]=-3:3:121", "costs[City]=0.001:0.1:30:log", '
            '"beta=0.1,0.2". Agents by number or name, * for everybody else.',
            metavar="NAME=VALUES",
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", help=f"What to look at, ir_gaps if not given: {', '.join(METRICS)}.", metavar="NAME"),
    ] = None,
    mechanisms: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism", "-m", help=f"Externality and Shapley if not given: {', '.join(MECHANISMS)}.", metavar="NAME"
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The numbers, as .csv or .parquet.", metavar="FILE")
    ] = Path("sweep.csv"),
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="The picture, as .png, .svg or .pdf; beside the numbers if not given.", metavar="FILE"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Vary one or two parameters of a federation and see what becomes of its outcomes.

    Interrupted and started again in the same way, a sweep goes on where it was.
    """
    federation = read_scenario(scenario).federation
    check_table_name(output)
    picture = plot or output.with_suffix(".png")
    _check_picture_name(picture)
    partial = output.absolute().parent / f".{output.name}.partial"
    with counter("points") as count:
        found = run_sweep(
            federation,
            vary,
            metrics=metrics or ["ir_gaps"],
            mechanisms=mechanisms or ["externality", "shapley"],
            progress=count,
            checkpoint=partial,
        )
    write_table(output, found.columns())
    drawn = _draw(found, picture, wanted=plot is not None)
    _remove(partial)
    if as_json:
        print_json(sweep_record(found))
        return
    _show(found)
    console.print(
        f"\nNumbers written to {escape(str(output))}" + (f", picture to {escape(str(picture))}" if drawn else "")
    )


def _check_picture_name(path: Path) -> None:
    with located(str(path)):
        if path.suffix.lower() not in PICTURES:
            raise InvalidInput(f"a picture's name must end in {', '.join(PICTURES)}")
        if not path.absolute().parent.is_dir():
            raise InvalidInput("there is no such folder; make it first")


def _draw(found: Sweep, path: Path, *, wanted: bool) -> bool:
    """Draw the picture; where matplotlib is missing only a picture that was asked for is an error."""
    from io import BytesIO  # noqa: PLC0415 - here only

    try:
        figure = found.plot()
    except MissingExtra:
        if wanted:
            raise
        return False
    content = BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower(), dpi=200)
    with located(str(path)):
        replace_files({path: content.getvalue()})
    return True


def _remove(partial: Path) -> None:
    import shutil  # noqa: PLC0415 - here only

    shutil.rmtree(partial, ignore_errors=True)


def _show(found: Sweep) -> None:
    grid = " x ".join(f"{axis.points.size} values of {axis.label}" for axis in found.axes)
    console.print(f"[bold]Sweep[/bold]: {escape(grid)}\n")
    made = table("Over all points", "mechanism", "metric", "agent", "lowest", "mean", "highest", "below zero")
    for mechanism, metrics in found.metrics.items():
        for metric, values in metrics.items():
            columns = found.agents if found.is_per_agent(metric) else ["all"]
            flat = values.reshape(-1, len(columns))
            for place, name in enumerate(columns[:12]):
                numbers = flat[:, place][np.isfinite(flat[:, place])]
                cells = (
                    [f"{part:.4g}" for part in (numbers.min(), numbers.mean(), numbers.max())]
                    if numbers.size
                    else ["-"] * 3
                )
                below = f"{(numbers < 0).mean():.1%}" if numbers.size else "-"
                made.add_row(MECHANISMS[mechanism].title, metric, escape(str(name)), *cells, below)
    console.print(made)
    for mechanism, solved in found.solved.items():
        missing = int((~solved).sum())
        if missing:
            console.print(f"{MECHANISMS[mechanism].title}: no equilibrium at {missing} of {solved.size} points")
        bound = float(found.on_boundary[mechanism].any(axis=-1).mean())
        console.print(
            f"{MECHANISMS[mechanism].title}: somebody contributes nothing or its cap at {bound:.1%} of the points"
        )

"""`fedpact sweep`: one or two parameters of a federation varied over a range."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.certificates.claims import Claim
from fedpact.cli.common import (
    MECHANISM_NAMES,
    AsJson,
    NumbersOutput,
    PictureOutput,
    choose_mechanism,
    console,
    escape,
    print_json,
    read_scenario,
    resumable,
    table,
    terminal_text,
)
from fedpact.cli.pictures import can_draw, write_picture
from fedpact.comparison import Sweep
from fedpact.comparison import sweep as run_sweep
from fedpact.comparison.sweeps import MARGINS, METRICS, unit_of
from fedpact.report.numbers import Unit, number_text, percent
from fedpact.report.records import sweep_record
from fedpact.report.words import metric_name
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import remove_pieces
from fedpact.utils.tables import check_table_name, write_table

OF_NO_SHARE = (
    "Ratios below zero count in the column of that name only: of a share below zero no part is got back, and who loses "
    "by the deal has no part of it."
)
MOST_ROWS = 12


def sweep(
    scenario: Annotated[str, typer.Argument(help="A .toml or .json file, or a built-in federation.")],
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            help='What to vary and how, once or twice: "weights[0,1]=-3:3:121", "costs[City]=0.001:0.1:30:log", '
            '"beta=0.1,0.2". Members by number or name, * for everybody else.',
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
            "--mechanism", "-m", help=f"Externality and Shapley if not given: {MECHANISM_NAMES}.", metavar="NAME"
        ),
    ] = None,
    output: NumbersOutput = Path("sweep.csv"),
    plot: PictureOutput = None,
    as_json: AsJson = False,
) -> None:
    """Vary one or two parameters of a federation and see what becomes of its outcomes.

    Interrupted and started again in the same way, a sweep goes on where it was.
    """
    read = read_scenario(scenario)
    check_table_name(output)
    picture = plot or output.with_suffix(".png")
    draws = can_draw(picture, wanted=plot is not None)
    partial = output.absolute().parent / f".{output.name}.partial"
    rules = [choose_mechanism(name) for name in mechanisms or ["externality", "shapley"]]
    with resumable("points") as report:
        found = run_sweep(
            read, vary, metrics=metrics or ["ir_gaps"], mechanisms=rules, progress=report, checkpoint=partial
        )
    write_table(output, found.columns())
    if draws:
        write_picture(found.plot(money=read.money, data=read.unit), picture)
    remove_pieces(partial)
    files = [str(output), *([str(picture)] if draws else [])]
    if as_json:
        print_json(sweep_record(found) | {"files": files})
        return
    _show(found, Unit.of(read.money, data=read.unit))
    console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _show(found: Sweep, unit: Unit) -> None:
    grid = " x ".join(f"{axis.points.size} values of {axis.label}" for axis in found.axes)
    console.print(f"[bold]Sweep[/bold]: {escape(grid)}\n")
    for metric in next(iter(found.metrics.values())):
        _show_metric(found, metric, unit)
    if unit.is_money and any(unit_of(metric) == "payoff" for metric in next(iter(found.metrics.values()))):
        worth = f"{escape(unit.label)} {unit.per_payoff:,.10g}"
        console.print(f"The file counts in units of payoff, each worth {worth}.")
    _show_flags(found)


def _show_metric(found: Sweep, metric: str, unit: Unit) -> None:
    """A table over all points; a column for points without a number only where there are some."""
    claim = MARGINS.get(metric)
    measure, scale = unit.of_measure(unit_of(metric))
    numbers = {
        mechanism: scale * _known_numbers(metrics[metric], claim) for mechanism, metrics in found.metrics.items()
    }
    lacks = any(np.isnan(each).any() for each in numbers.values())
    last, lacking = ("below zero", "undefined") if claim is None else ("holds", "not known")
    columns = ["mechanism", "member", "lowest", "at", "mean", "highest", "at", last, *([lacking] if lacks else [])]
    made = table(escape(f"{metric_name(metric)} ({measure}) over all points"), *columns)
    agents = list(found.labels(metric)) if found.is_per_agent(metric) else ["all"]
    for mechanism, known in numbers.items():
        flat = known.reshape(-1, len(agents))
        for place, name in enumerate(agents[:MOST_ROWS]):
            cells = _summary(found, flat[:, place], of_shares=unit_of(metric) == "ratio")
            if claim is not None:  # margins of rounding are below zero too
                held = found.holds[mechanism][claim].ravel()[~np.isnan(flat[:, place])]
                cells[5] = terminal_text(percent(held.mean())) if held.size else "-"
            made.add_row(found.title(mechanism), escape(name), *cells[: len(columns) - 2])
    console.print(made)
    if len(agents) > MOST_ROWS:
        console.print(f"... and {len(agents) - MOST_ROWS} more members; the file holds all")
    if unit_of(metric) == "ratio" and any((each < 0).any() for each in numbers.values()):
        console.print(OF_NO_SHARE)
    console.print()


def _known_numbers(numbers: FloatArray, claim: Claim | None) -> FloatArray:
    """A metric; of margins those that were not looked at, minus infinity, count as undefined."""
    return numbers if claim is None else np.where(np.isneginf(numbers), np.nan, numbers)


def _summary(found: Sweep, numbers: FloatArray, *, of_shares: bool = False) -> list[str]:
    """Lowest, mean and highest with where these are, and how many are below zero, of those that are defined.

    Last, how many are not. Parts of shares that are below zero are counted, and no more: they are no parts of anything.
    """
    known = numbers[~np.isnan(numbers)]
    undefined = f"{numbers.size - known.size} of {numbers.size}"
    if not known.size:
        return [*["-"] * 6, undefined]
    shown, cells = np.where((numbers >= 0) | (not of_shares), numbers, np.nan), ["-"] * 5
    if np.isfinite(shown).any() or np.isinf(shown).any():
        low, high = int(np.nanargmin(shown)), int(np.nanargmax(shown))
        with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
            lowest, mean, highest = (
                terminal_text(number_text(float(part) + 0.0)) for part in (shown[low], np.nanmean(shown), shown[high])
            )
        same = lowest == highest
        cells = [lowest, "all" if same else _place(found, low), mean, highest, "all" if same else _place(found, high)]
    return [*cells, terminal_text(percent((known < 0).mean())), undefined]


def _place(found: Sweep, point: int) -> str:
    """The values of the parameters at a point of the grid."""
    values = zip(found.axes, np.unravel_index(point, found.shape), strict=True)
    return ", ".join(f"{axis.points[index]:,.6g}" for axis, index in values)


def _show_flags(found: Sweep) -> None:
    for mechanism, solved in found.solved.items():
        title, without = found.title(mechanism), found.no_deal[mechanism]
        missing, broken = int((~solved & ~without).sum()), int(without.sum())
        if broken:
            console.print(f"{title}: at {broken} of {solved.size} points no deal keeps what it promises")
        if missing:
            console.print(f"{title}: no equilibrium at {missing} of {solved.size} points")
        if solved.any():
            bound = float(found.on_boundary[mechanism][solved].any(axis=-1).mean())
            those = "the points" if solved.all() else "the others"
            console.print(
                f"{title}: somebody contributes nothing or its cap at {terminal_text(percent(bound))} of {those}"
            )

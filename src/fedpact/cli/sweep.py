"""`fedpact sweep`: one or two parameters of a federation varied over a range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from fedpact.certificates.claims import Claim
from fedpact.cli import inputs, screen
from fedpact.comparison import Sweep, compare
from fedpact.comparison import sweep as run_sweep
from fedpact.comparison.axes import Axis
from fedpact.comparison.sweeps import MARGINS, METRICS, unit_of
from fedpact.mechanisms import DEFAULT_MECHANISMS, compared_mechanisms
from fedpact.report.numbers import Unit, number_text, percent
from fedpact.report.records import sweep_record
from fedpact.report.words import metric_name
from fedpact.scenario import Scenario
from fedpact.utils.arrays import FloatArray
from fedpact.utils.checkpoint import remove_pieces
from fedpact.utils.tables import write_table
from fedpact.utils.words import printable

OF_NO_SHARE = (
    "Ratios below zero count in the column of that name only: of a share below zero no part is got back, and who loses "
    "by the deal has no part of it."
)
MAX_ROWS = 12
FAR = 20.0  # times as large or as small as it stands: mostly another unit
USUAL = Path("sweep.csv")  # made anew each time, as nobody has named it


def sweep(
    scenario: Annotated[str, Argument(help="A .toml or .json file, or a built-in federation.")],
    vary: Annotated[
        list[str],
        Option(
            "--vary",
            help='What to vary and how, once or twice: "weights[0,1]=-3:3:121", "costs[City]=0.001:0.1:30:log", '
            '"beta=0.1,0.2". Members by number or name, * for everybody else.',
            metavar="NAME=VALUES",
        ),
    ],
    metrics: Annotated[list[str] | None, Option("--metric", help=f"What to look at: {', '.join(METRICS)}.")] = None,
    mechanisms: Annotated[
        list[str] | None,
        Option(
            "--mechanism",
            "-m",
            help=f"One of {inputs.MECHANISM_NAMES}. By default externality, shapley and what `fedpact compare` "
            "recommends.",
        ),
    ] = None,
    output: inputs.Numbers = USUAL,
    force: inputs.Force = False,
    plot: inputs.Picture = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Vary one or two numbers of a federation and see how its deals change.

    If you interrupt a sweep, the same command goes on where it stopped.
    """
    read = inputs.read_scenario(scenario)
    inputs.check_output(output, force=force or output == USUAL, suffixes=(".csv",))
    picture = inputs.picture_beside(output, plot, force=force or (plot is None and output == USUAL))
    partial = output.absolute().parent / f".{output.name}.partial"
    rules = [inputs.choose_mechanism(name) for name in mechanisms or _usual_mechanisms(read)]
    with screen.counter("points") as report:
        found = run_sweep(
            read, vary, metrics=metrics or ["ir_gaps"], mechanisms=rules, progress=report, checkpoint=partial
        )
    for axis in found.axes:
        _ask_about_units(axis, read)
    write_table(output, found.columns())
    inputs.write_picture(found, picture, money=read.money, data=read.unit)
    remove_pieces(partial)
    files = [str(path) for path in (output, picture) if path is not None]
    if as_json:
        screen.print_json(sweep_record(found) | {"files": files})
        return
    _show(found, Unit.of(read.money, data=read.unit))
    screen.say_written(files)


def _ask_about_units(axis: Axis, scenario: Scenario) -> None:
    """Ask about values that are all far from what the scenario says, where they are in other units than its file's."""
    if axis.field not in ("values", "linear"):
        return
    now = getattr(scenario.federation.given_arrays, axis.field)[axis.indices]
    if axis.points.max() * FAR < now.min() or 0 < now.max() * FAR < axis.points.min():
        is_now = f"{now.min():.6g}" if now.min() == now.max() else f"{now.min():.6g} to {now.max():.6g}"
        units = "a value counts per payoff of 1, a hundred points; a cost per unit of data"
        typer.echo(f"question: {printable(axis.label)} is {is_now} as it stands. Is it meant so? ({units})", err=True)


def _usual_mechanisms(scenario: Scenario) -> list[str]:
    """Externality and Shapley, and what is recommended for the scenario as it stands where that is another."""
    usual = ["externality", "shapley"]
    if len(compared_mechanisms(scenario.federation)) > len(DEFAULT_MECHANISMS):  # others can be recommended
        found = compare(replace(scenario, uncertainty=None))
        if found.outcomes and found.recommendation is not None:
            usual.append(found.recommendation.mechanism)
    return list(dict.fromkeys(usual))


def _show(found: Sweep, unit: Unit) -> None:
    grid = " x ".join(f"{axis.points.size} values of {axis.label}" for axis in found.axes)
    screen.say(("Sweep", "bold"), f": {grid}")
    screen.say()
    metrics = list(next(iter(found.metrics.values())))
    for metric in metrics:
        _show_metric(found, metric, unit)
    if unit.is_money and any(unit_of(metric) == "payoff" for metric in metrics):
        worth = f"units of payoff, each worth {unit.label} {unit.per_payoff:,.10g}"
        screen.say(f"Amounts in the file are in {unit.label if unit.per_payoff == 1.0 else worth}.")
    _show_flags(found)


def _show_metric(found: Sweep, metric: str, unit: Unit) -> None:
    """A table over all points; a column for points without a number only where there are some."""
    claim, (measure, scale) = MARGINS.get(metric), unit.of_measure(unit_of(metric))
    numbers = {
        mechanism: scale * _known_numbers(metrics[metric], claim) for mechanism, metrics in found.metrics.items()
    }
    last, lacking = ("below zero", "undefined") if claim is None else ("holds", "not known")
    heads = ["mechanism", "member", "lowest", "lowest at", "mean", "highest", "highest at", last]
    heads += [lacking] if any(np.isnan(each).any() for each in numbers.values()) else []
    agents = list(found.labels(metric)) if found.is_per_agent(metric) else ["all"]
    rows = []
    for mechanism, known in numbers.items():
        flat = known.reshape(-1, len(agents))
        for index, name in enumerate(agents[:MAX_ROWS]):
            cells = _summary(found, flat[:, index], of_shares=unit_of(metric) == "ratio")
            if claim is not None:  # margins of rounding are below zero too
                held = found.holds[mechanism][claim].ravel()[~np.isnan(flat[:, index])]
                cells[5] = percent(held.mean()) if held.size else "-"
            rows.append([found.title(mechanism), name, *cells[: len(heads) - 2]])
    screen.print_rows(f"{metric_name(metric)} ({measure}) over all points", heads, rows, words=("member",))
    if len(agents) > MAX_ROWS:
        screen.say(f"... and {len(agents) - MAX_ROWS} more members; the file holds all")
    if unit_of(metric) == "ratio" and any((each < 0).any() for each in numbers.values()):
        screen.say(OF_NO_SHARE)
    screen.say()


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
    if not np.isnan(shown).all():
        low, high = int(np.nanargmin(shown)), int(np.nanargmax(shown))
        with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
            ends = (shown[low], np.nanmean(shown), shown[high])
            lowest, mean, highest = (number_text(float(part) + 0.0) for part in ends)
        at_low, at_high = ("all", "all") if lowest == highest else (_place(found, low), _place(found, high))
        cells = [lowest, at_low, mean, highest, at_high]
    return [*cells, percent((known < 0).mean()), undefined]


def _place(found: Sweep, point: int) -> str:
    """The values of the parameters at a point of the grid."""
    values = zip(found.axes, np.unravel_index(point, found.shape), strict=True)
    return ", ".join(f"{axis.points[index]:,.6g}" for axis, index in values)


def _show_flags(found: Sweep) -> None:
    for mechanism, solved in found.solved.items():
        title, without = found.title(mechanism), found.no_deal[mechanism]
        missing, broken = int((~solved & ~without).sum()), int(without.sum())
        if broken:
            screen.say(f"{title}: at {broken} of {solved.size} points no deal keeps what it promises")
        if missing:
            screen.say(f"{title}: no equilibrium at {missing} of {solved.size} points")
        if solved.any():
            bound = percent(float(found.on_boundary[mechanism][solved].any(axis=-1).mean()))
            those = "the points" if solved.all() else "the others"
            screen.say(f"{title}: somebody shares nothing or all it has at {bound} of {those}")

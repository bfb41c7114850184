"""`fedpact fit`: from a log of runs to a federation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from fedpact.cli.common import AsJson, Force, check_output, console, escape, print_json, progress, table
from fedpact.cli.fit_terms import FitTerms, fit_terms, staying_members
from fedpact.cli.pictures import check_picture, write_picture
from fedpact.fitting import Fit, Observations, Suggestion, suggest
from fedpact.fitting import fit as fit_observations
from fedpact.fitting.logs import runs_text
from fedpact.fitting.parameters import CURVE_FAMILIES, CURVE_PARTS
from fedpact.report.member_file import (
    agent_record,
    agent_text,
    member_agent,
    member_intervals,
    member_notes,
    save_member,
)
from fedpact.report.numbers import given_text
from fedpact.report.records import fit_record
from fedpact.scenario import save_scenario
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable
from fedpact.utils.words import count_text, printable

MAX_GROUPS_LISTED = 6
MAX_TASKS_ABREAST = 3
MAX_AGENTS_SHOWN = 12
INTERVAL_LEVEL = 0.9
PROGRESS_STEPS = 40


def fit(
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="One or more logs: a .csv file with one row per run, a ledger, a folder of `fedpact train` or its "
            "rounds.csv.",
            metavar="LOG...",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a scenario with its uncertainty, .toml or .json.", metavar="FILE"),
    ] = None,
    family: Annotated[
        str,
        typer.Option(
            "--family", help=f"The curve: {', '.join(CURVE_FAMILIES)}; auto for the one that predicts unseen runs best."
        ),
    ] = "power-law",
    signs: Annotated[
        str, typer.Option("--signs", help="Signs of the weights: positive, or any if data may harm.")
    ] = "positive",
    shared: Annotated[
        str,
        typer.Option(
            "--shared", help="What all members' curves have in common, with commas: beta,floor,ceiling; or none."
        ),
    ] = ",".join(CURVE_PARTS),
    floor: Annotated[
        float | None, typer.Option("--floor", help="Accuracy without data, if known (guessing).", min=0.0)
    ] = None,
    ceiling: Annotated[
        float | None, typer.Option("--ceiling", help="Accuracy with all data, if known.", max=1.0)
    ] = None,
    prior: Annotated[
        float,
        typer.Option("--prior", help="Pseudo-observations saying that everybody's data is alike; 0 for none.", min=0.0),
    ] = 1.0,
    suggestions: Annotated[
        int | None, typer.Option("--suggest", help="Suggest the next K runs to train.", metavar="K", min=1)
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost", help="Cost of a sample: a number for all, NAME=NUMBER or NAME.LOT=NUMBER; may be repeated."
        ),
    ] = None,
    cap: Annotated[
        list[str] | None,
        typer.Option("--cap", help="The most a member can contribute, like --cost; its largest so far if not given."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="Take costs, caps, values and money from this scenario.", metavar="SCENARIO"),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value", help="What reaching the ceiling is worth, like --cost; ceiling minus floor if not given."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help="Leave this member out of the scenario; may be repeated.", metavar="NAME"),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(
            "--member", help="From this member's accuracies alone: -o writes its private file, .json.", metavar="NAME"
        ),
    ] = None,
    lots: Annotated[
        bool | None,
        typer.Option(
            "--lots/--no-lots",
            help="Whether columns NAME.LOT and NAME.TASK are lots and tasks of members, or names with a dot.",
            show_default="as the columns suggest",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Measured against fitted, as .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same suggestions.", min=0)] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate weights and accuracy curves from measured accuracies, with intervals.

    A .csv file has columns contributions.NAME, accuracy.NAME and, if known, test_size.NAME for every agent; with
    several lots of data or tests, contributions.NAME.LOT and accuracy.NAME.TASK. Several logs are taken together; an
    agent that a log does not know gave nothing in it.
    """
    if plot is not None:
        check_picture(plot)
    if output is not None:
        check_output(output, force=force, suffixes=(".toml", ".json") if member is None else (".json",))
    observations = Observations.from_files(logs, member=member, lots=lots)
    staying = staying_members(observations.names, without or [])
    if member is not None:
        _check_member_options(logs, without, suggestions)
        staying = np.array([name == member for name in observations.names])
    terms = fit_terms(observations, {"--cost": cost, "--cap": cap, "--value": value}, like, staying)
    with progress(PROGRESS_STEPS) as begin:
        found = fit_observations(
            observations,
            family=family,
            signs=signs,
            shared=_shared(shared),
            floor=floor,
            ceiling=ceiling,
            prior=prior,
            progress=lambda what: begin(f"fitting: {what}"),
        )
        terms = terms.completed(found)
        wanted: Sequence[Suggestion] = ()
        if suggestions is not None:
            wanted = suggest(
                found,
                suggestions,
                costs=terms.costs,
                caps=terms.caps,
                worth=terms.worth(found),
                rng=seed,
                progress=begin,
            )
        if plot is not None:
            begin("drawing")
            write_picture(found.plot(), plot)
    if member is not None:
        _finish_member(found, terms, member, output, as_json=as_json)
        return
    if output is not None:
        _save(found, terms, output, logs, staying)
    files = [str(path) for path in (output, plot) if path is not None]
    if as_json:
        print_json(fit_record(found, wanted, level=INTERVAL_LEVEL) | {"files": files})
        return
    _show(found, dots_unsaid=lots is None)
    if wanted:
        _show_suggestions(found, wanted)
    if output is not None and terms.placeholder:
        console.print(
            f"\nCosts are a placeholder ({terms.costs[0]:.4g} a sample): say --cost, or edit {escape(str(output))}."
        )
    if files:
        console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _check_member_options(logs: Sequence[Path], without: list[str] | None, suggestions: int | None) -> None:
    """Refuse what a member cannot ask for itself."""
    if without:
        raise InvalidInput("--without leaves members out of a scenario; with --member there is none")
    if suggestions is not None:
        raise InvalidInput(
            "--suggest chooses runs by everybody's accuracies, and --member looks at one member's alone; whoever has "
            f"all accuracies asks `fedpact fit {' '.join(map(str, logs))} --suggest {suggestions}`"
        )


def _shared(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    return () if words == ("none",) else words


def _finish_member(found: Fit, terms: FitTerms, member: str, output: Path | None, *, as_json: bool) -> None:
    """Show what a member prepares, and write its private file."""
    agent = member_agent(found, member, costs=terms.costs, caps=terms.caps, worth=terms.worth(found))
    files = [] if output is None else [str(output)]
    placeholder = float(terms.costs[0]) if terms.placeholder else None
    notes = member_notes(found, agent, level=INTERVAL_LEVEL, unit=terms.unit, placeholder_cost=placeholder)
    if output is not None:
        save_member(agent, notes, output)
    if as_json:
        intervals = jsonable(member_intervals(found, agent, INTERVAL_LEVEL))
        doubts = {"level": INTERVAL_LEVEL, "intervals": intervals, "warnings": found.warnings}
        doubts |= {"notes": found.notes, "indistinguishable": found.indistinguishable}
        print_json(agent_record(agent, notes) | doubts | {"files": files})
        return
    for line in agent_text(agent, notes).splitlines():
        console.print(escape(line), soft_wrap=True)
    _show_doubts(found)
    if files:
        console.print(f"Written: {escape(files[0])}", soft_wrap=True)


def _save(found: Fit, terms: FitTerms, path: Path, logs: Sequence[Path], staying: NDArray[np.bool_]) -> None:
    seen = found.observations
    words = f"Fitted to {seen.n_measured} accuracies of {seen.n_runs} runs ({', '.join(log.name for log in logs)})."
    if terms.placeholder:
        words += " The costs are placeholders: they are not in the data."
    words += "".join(f" Warning: {warning}." for warning in found.warnings)
    scenario = found.scenario(
        costs=terms.costs,
        caps=terms.caps,
        worth=terms.worth(found),
        title=logs[-1].stem,
        description=words,
        money=terms.money,
        unit=terms.unit,
    )
    save_scenario(scenario.take(staying), path)


def _show(found: Fit, *, dots_unsaid: bool) -> None:
    seen = found.observations
    console.print(
        f"[bold]Fit[/bold]: {seen.n_agents} members, "
        + (f"{seen.n_lots} lots, {seen.n_tasks} tasks, " if seen.has_lots else "")
        + f"{seen.n_measured} accuracies of {count_text(seen.n_runs, 'run')}; "
        f"intervals hold {100 * INTERVAL_LEVEL:.0f} %\n"
    )
    if dots_unsaid and not seen.has_lots and any("." in name.replace(". ", "") for name in seen.names):
        console.print("Names with a dot are taken for names of members; --lots reads them as NAME.LOT and NAME.TASK.\n")
    _show_curves(found)
    console.print()
    _show_weights(found)
    console.print()
    if found.signs == "positive":
        console.print("That no data harms is assumed, not measured; --signs any lets the runs decide.")
    quality, judged = found.quality, found.lack_of_fit
    console.print(
        f"rms {quality.rms:.4f}, R² {quality.r_squared:.4f}, chi² per degree of freedom "
        f"{quality.chi_square_per_degree:.2f}, noise of training {found.training_noise:.4f}, misfit "
        f"{judged.misfit:.4f}"
    )
    if judged.error >= 0:
        console.print(
            f"Error on runs left out: curves {judged.error:.4f}, nearest run {judged.nearest_run:.4f}, log-linear "
            f"{judged.log_linear:.4f}"
        )
    _show_families(found)
    _show_doubts(found)


def _show_weights(found: Fit) -> None:
    """A row per lot (member): there are mostly more of them than tasks."""
    seen, intervals = found.observations, found.intervals(INTERVAL_LEVEL)["weights"]
    if max(seen.n_lots, seen.n_tasks) > 2 * MAX_AGENTS_SHOWN:
        what = (
            f"of {seen.n_lots} lots for {seen.n_tasks} tasks" if seen.has_lots else f"between {seen.n_agents} members"
        )
        console.print(f"Weights {what}: --json or -o prints all.")
        return
    for first in range(0, seen.n_tasks, MAX_TASKS_ABREAST):
        shown = range(first, min(first + MAX_TASKS_ABREAST, seen.n_tasks))
        title = "Weights: how useful the row's data is to the column" + "'s task" * seen.has_lots
        made = table(title, "", *(escape(seen.task_labels[task]) for task in shown))
        for lot, label in enumerate(seen.lot_labels):
            ends = [(found.weights[task, lot], *intervals[task, lot]) for task in shown]
            made.add_row(escape(label), *(f"{weight:.3g} ({low:.2g} to {high:.2g})" for weight, low, high in ends))
        console.print(made)


def _show_families(found: Fit) -> None:
    """How far off each family is on runs left out, if they were compared."""
    if found.families is None:
        return
    errors = sorted(found.families.errors.items(), key=lambda entry: entry[1])
    listed = ", ".join(f"{family} {error:.4f}" for family, error in errors)
    console.print(f"Family {found.family}, chosen by its error on unseen runs: {listed}")


def _show_curves(found: Fit) -> None:
    intervals = found.intervals(INTERVAL_LEVEL)
    curves = [("beta", np.atleast_1d(found.beta), np.atleast_2d(intervals["beta"]))] if found.beta is not None else []
    curves += [("floor", found.floors, intervals["floors"]), ("ceiling", found.ceilings, intervals["ceilings"])]
    alike = all(len(set(numbers.tolist())) == 1 for _, numbers, _ in curves)
    made = table("Accuracy = floor + (ceiling - floor) g(weighted data)", "member", *(label for label, _, _ in curves))
    for agent, name in list(enumerate(["all"] if alike else found.observations.task_labels))[: 2 * MAX_AGENTS_SHOWN]:
        cells = []
        for _, numbers, ends in curves:
            place = min(agent, len(numbers) - 1)
            cells.append(f"{numbers[place]:.3f} ({ends[place][0]:.3f} to {ends[place][1]:.3f})")
        made.add_row(escape(name), *cells)
    console.print(made)


def _show_doubts(found: Fit) -> None:
    for warning in found.warnings:
        console.print(f"[red]Warning[/red]: {escape(warning)}.")
    for note in found.notes:
        console.print(f"Note: {escape(note)}.")
    groups = found.indistinguishable
    if groups:
        console.print("The data cannot tell apart, or says nothing of (the prior decides):")
        for group in groups[:MAX_GROUPS_LISTED]:
            console.print(f"  {escape(group)}")
        if len(groups) > MAX_GROUPS_LISTED:
            console.print(f"  ... and {len(groups) - MAX_GROUPS_LISTED} more; --json prints all")
    for stray in found.outliers[:MAX_GROUPS_LISTED]:
        where = f"{escape(stray.source)}, row" if stray.source else "Row"
        console.print(
            f"{where} {stray.row}: the accuracy of {escape(stray.agent)}, {stray.accuracy:.3f}, is far from the "
            f"expected {stray.expected:.3f}"
        )
    if len(found.outliers) > MAX_GROUPS_LISTED:
        console.print(f"... and {len(found.outliers) - MAX_GROUPS_LISTED} more accuracies far from what is expected")


def _show_suggestions(found: Fit, wanted: Sequence[Suggestion]) -> None:
    seen = found.observations
    made = table("Train next", "run", "contributions", "settles", "why")
    made.columns[1].justify = made.columns[3].justify = "left"
    for number, each in enumerate(wanted, start=1):
        given = [
            f"{escape(name)} {given_text(float(amount))}"
            for name, amount in zip(seen.lot_labels, each.contributions, strict=True)
            if amount > 0
        ]
        made.add_row(str(number), ", ".join(given), f"{100 * each.settles:.0f} %", escape(each.reason))
    console.print()
    console.print(made)
    sizes = seen.known_test_sizes()
    typical = None if sizes is None else np.median(sizes, axis=0).tolist()
    contributions = np.array([each.contributions for each in wanted])
    text = runs_text(seen.lot_columns, contributions, test_sizes=typical, tasks=seen.task_columns)
    console.print("\nTo fill in and add to the file:")
    typer.echo(printable(text, keep="\n"), nl=False)

"""`fedpact pilot`: from members' tables to a deal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.cli.common import (
    AsJson,
    ClusterOption,
    console,
    escape,
    print_json,
    progress,
    table,
    terminal_text,
    working_on,
)
from fedpact.fitting.pilots import BUILT_IN_PILOTS, PilotStudy
from fedpact.fitting.pilots import pilot as run_pilot
from fedpact.fitting.pilots.confirmation import DealConfirmation
from fedpact.fitting.pilots.estimators import REGRESSION_MAP
from fedpact.fitting.pilots.folder import pilot_record
from fedpact.fitting.pilots.records import REGRESSION, TEST_SHARE
from fedpact.fitting.pilots.search import AUTO_SIGNS, MAX_MODELS, PilotState, Tell
from fedpact.report.numbers import Unit
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

MAX_OPEN_LISTED = 4
OPTION = re.compile(  # where errors name an argument: first of all, in brackets, or beside another one
    r"(^|\(|than )(target|member|models?|task|ignore|lots|cost|value|predictions|test_share|seed)(?=[:,]? (?!\"))"
)
PER_MEMBER = "for all, or NAME=...; may be repeated"
ENDINGS = {
    "settled": "Every payment is known to a tenth of what is paid and gained, as far as the curves hold.",
    "budget": "All models are trained that may be. --models allows more; where tests are small, larger ones "
    "(--test-share, or more records) tell more.",
    "no run helps": "No further model would settle much; longer tests would (--test-share, or more records).",
}


def pilot(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder with a table per member (.csv, .parquet, .npz), a single table with --member, or a built-in "
            f"pilot: {', '.join(BUILT_IN_PILOTS)}.",
            metavar="DATA",
        ),
    ],
    target: Annotated[str | None, typer.Option("--target", help="The column to predict.", metavar="COLUMN")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A folder for models, log, scenario, report and learning curves.", metavar="FOLDER"
        ),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option("--member", help="In a single table, the column that says whose a record is.", metavar="COLUMN"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help='A scikit-learn estimator, such as "sklearn.linear_model:LogisticRegression(C=0.1)"; a linear one if '
            "not given.",
            metavar="MODEL",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="classification or regression; the target decides if not given.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave this column out; may be repeated.", metavar="COLUMN")
    ] = None,
    lots: Annotated[
        str | None,
        typer.Option("--lots", help="Kinds of data: a column that names them, or auto.", metavar="COLUMN"),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option("--cost", help=f'What a record costs, such as "0.02 EUR/record", {PER_MEMBER}.', metavar="COST"),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            help=f'What accuracy is worth, such as "20 EUR/point" or "2 EUR/correct", {PER_MEMBER}.',
            metavar="VALUE",
        ),
    ] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", help=f"Answers a member needs of its model, {PER_MEMBER}.", metavar="NUMBER"),
    ] = None,
    signs: Annotated[
        str,
        typer.Option(
            "--signs",
            help="Signs of the weights: positive, any if data may harm, or auto: any where together is measured to be "
            "worse than alone.",
        ),
    ] = AUTO_SIGNS,
    models: Annotated[
        int, typer.Option("--models", help="How many models may be trained, beside those of the deal.", min=2)
    ] = MAX_MODELS,
    test_share: Annotated[
        float, typer.Option("--test-share", help="The share of each member's records to test with.")
    ] = TEST_SHARE,
    seed: Annotated[int, typer.Option("--seed", help="Of splits and training.", min=0)] = 0,
    cluster: ClusterOption = None,
    as_json: AsJson = False,
) -> None:
    """Train models of coalitions on members' tables until the deal is settled; write log, scenario and report.

    All tables are read in one place: for public or synthetic data, or a place that all members trust. Interrupted and
    started again with the same folder, it goes on where it was; no model is trained twice.
    """
    with _naming_options(), working_on(cluster), _watching() as tell:
        found = run_pilot(
            data,
            target,
            member=member,
            model=model,
            task=task,
            ignore=ignore or [],
            lots=lots,
            cost=_by_member("--cost", cost),
            value=_by_member("--value", value),
            predictions=_by_member("--predictions", predictions),  # type: ignore[arg-type]
            signs=signs,
            models=models,
            test_share=test_share,
            seed=seed,
            output=output,
            progress=tell,
        )
    files = [] if output is None else sorted(str(path) for path in output.iterdir() if not path.name.startswith("."))
    if as_json:
        print_json(pilot_record(found) | {"files": files})
        return
    _show(found)
    if files:
        console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)
        if found.confirmation is not None and found.confirmation.is_recommended:
            console.print(f"Next: fedpact compare {escape(str(output))}/scenario.toml", soft_wrap=True)


def _by_member(option: str, given: list[str] | None) -> Mapping[str, str] | None:
    """What was said for all, under the empty name, and for members by theirs."""
    if not given:
        return None
    stated: dict[str, str] = {}
    for entry in given:
        name, _, text = entry.rpartition("=")
        if name.strip() in stated:
            raise InvalidInput(f"{option} says two things of {name.strip() or 'everybody'}; keep one of them")
        stated[name.strip()] = text.strip()
    return stated


@contextmanager
def _naming_options() -> Iterator[None]:
    """Errors name what was given as it is written here: `--test-share`, not `test_share`."""
    try:
        yield
    except InvalidInput as error:
        words = OPTION.sub(lambda found: f"{found[1]}--{found[2].replace('_', '-')}", str(error))
        raise InvalidInput(words) from error


@contextmanager
def _watching() -> Iterator[Tell]:
    """A progress bar with what is known so far, and a line after every fit, on standard error of a terminal."""
    with progress(MAX_MODELS) as begin:

        def tell(state: PilotState) -> None:
            begin(f"{state.doing}{_known(state)}")

        yield tell


def _known(state: PilotState) -> str:
    if state.doubts is None:
        return ""
    unsure = state.doubts.unsure
    who = f"; open: {count_text(len(unsure), 'member')}'s staying" if unsure else ""
    return f"{who}, payments to {100 * state.doubts.widest_payment:.0f} %"


def _show(found: PilotStudy) -> None:
    data = found.data
    console.print(
        f"[bold]{escape(found.title)}[/bold]: {len(data.names)} members, {len(found.runs)} models of coalitions "
        f"({escape(found.model.label)})"
    )
    if data.task == REGRESSION:
        console.print(f"Regression: {REGRESSION_MAP}.")
    console.print(f"[bold]{escape(found.advice)}[/bold]\n")
    _show_members(found)
    console.print()
    if found.confirmation is not None:
        _show_gains(found, found.confirmation)
        console.print()
    for warning in found.warnings:
        console.print(f"[red]Warning[/red]: {escape(warning)}.")
    console.print(ENDINGS[found.ended])
    for mechanism, name, leaves in found.doubts.unsure[:MAX_OPEN_LISTED]:
        console.print(f"  open: whether {escape(name)} would leave under {escape(mechanism)} ({100 * leaves:.0f} %)")
    if found.ended != "settled":
        known = f"payments may be off by {100 * found.doubts.widest_payment:.0f} % of what is paid and gained"
        fewest = min(len(own) for own in data.test)
        console.print(f"  {known}; the smallest test has {count_text(fewest, 'record')}, the same for every model")
    for note in (*data.notes, *found.terms.words, *found.fit.notes):
        console.print(f"Note: {escape(note)}.")


def _show_gains(found: PilotStudy, confirmed: DealConfirmation) -> None:
    """The deal, trained: what the curves promise beside what was measured."""
    data, deal = found.data, confirmed.deal
    unit = Unit.of(found.terms.money, found.terms.worth)
    promised, measured, error = confirmed.totals
    columns = [
        unit.column([*confirmed.promised, promised], signed=True),
        unit.column([*confirmed.measured, measured], signed=True),
        unit.column([*confirmed.errors, error]),
    ]
    heads = ("member", "alone", "in the deal", "promised", "measured", "error")
    made = table(f"The deal, trained: records, and gains against alone in {unit.label}", *heads)
    owners = np.array(data.lot_owners)
    for place, name in enumerate([*data.names, "all"]):
        own = owners == name if place < len(data.names) else np.ones(len(owners), dtype=bool)
        given = [np.sum(deal.alone_runs, axis=0)[own].sum(), np.array(deal.deal_run)[own].sum()]
        cells = [terminal_text(column[place]) for column in columns]
        made.add_row(escape(name), *(f"{int(count):,}" for count in given), *cells)
    console.print(made)
    assumed = next(filter(None, found.doubts.assumptions), "")
    if assumed:
        console.print(f"Who would leave: {assumed}.")


def _show_members(found: PilotStudy) -> None:
    data = found.data
    made = table("", "member", "trains on", "tested on", "alone", "together")
    for place, name in enumerate(data.names):
        scores = [f"{score:.3f}" for score in found.alone_and_together[:, place]]
        made.add_row(escape(name), f"{len(data.train[place]):,}", f"{len(data.test[place]):,}", *scores)
    console.print(made)

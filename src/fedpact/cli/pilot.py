"""`fedpact pilot`: from members' tables to a deal that was measured to pay, or is not recommended."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedpact.cli.common import (
    AsJson,
    console,
    escape,
    print_json,
    print_measured,
    progress,
)
from fedpact.cli.per_agent import entries_by_name
from fedpact.fitting.pilots import BUILT_IN_PILOTS, PilotStudy
from fedpact.fitting.pilots import pilot as run_pilot
from fedpact.fitting.pilots.study import PROFILES, Progress, amount_text
from fedpact.report.numbers import Unit
from fedpact.report.records import pilot_record
from fedpact.scenario.measured import FEDERATE
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

OPTIONS = "target|member|models?|task|score|ignore|lots|groups|cost|value|floor|family|arrangement|splits|seed"
OPTION = re.compile(rf"(^|\(|than )({OPTIONS})(?=[:,]? (?!\"))")  # where errors name an argument
PER_MEMBER = "for all, or NAME=...; may be repeated"


def pilot(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder with a table per member (.csv), a single table with --member, or a built-in "
            f"pilot: {', '.join(BUILT_IN_PILOTS)}.",
            metavar="DATA",
        ),
    ],
    target: Annotated[str | None, typer.Option("--target", help="The column to predict.", metavar="COLUMN")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A folder for scenario, report, record and measured gains.", metavar="FOLDER"
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
    score: Annotated[
        str | None,
        typer.Option(
            "--score",
            help="accuracy, balanced_accuracy, roc_auc, average_precision, f1, neg_log_loss, r2, "
            "neg_mean_absolute_error, or another score of scikit-learn.",
            metavar="SCORE",
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            "--cost", help=f'What sharing a record costs, such as "0.02 EUR/record", {PER_MEMBER}.', metavar="COST"
        ),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            help=f'What the score is worth, such as "20 EUR/point", {PER_MEMBER}.',
            metavar="VALUE",
        ),
    ] = None,
    arrangement: Annotated[
        str | None,
        typer.Option("--arrangement", help='"own choice" or "one model"; what is measured to be better if not given.'),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="classification or regression; the target decides if not given.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave this column out; may be repeated.", metavar="COLUMN")
    ] = None,
    lots: Annotated[
        str | None, typer.Option("--lots", help="A column that names kinds of data.", metavar="COLUMN")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="A column of what belongs together, such as a patient.", metavar="COLUMN"),
    ] = None,
    floor: Annotated[
        float | None, typer.Option("--floor", help="What guessing scores; measured by the constant answer otherwise.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="Of curves: power-law or exponential; what predicts better otherwise."),
    ] = None,
    models: Annotated[
        int, typer.Option("--models", help="How many profiles of sharing are measured.", min=2)
    ] = PROFILES,
    splits: Annotated[
        int | None,
        typer.Option("--splits", help="How often records are split anew; what a minute allows if not given.", min=2),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of splits and training.", min=0)] = 0,
    source: Annotated[
        Path | None, typer.Option("--from", help="A folder with the files of the pilot heart.", metavar="FOLDER")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure whether members gain by sharing data, make the deal, and train it before it is recommended.

    Everybody alone, one model for all, and own choice (each member uses its own data and what helps it of others') are
    compared on every record. All tables are read in one place: for public or synthetic data, or a place that all
    members trust. Interrupted and started again with the same folder, it goes on where it was.
    """
    with _naming_options(), _watching() as tell:
        found = run_pilot(
            data,
            target,
            member=member,
            model=model,
            task=task,
            score=score,
            ignore=ignore or [],
            lots=lots,
            groups=groups,
            cost=entries_by_name("--cost", cost) if cost else None,
            value=entries_by_name("--value", value) if value else None,
            floor=floor,
            family=family,
            arrangement=arrangement,
            models=models,
            splits=splits,
            seed=seed,
            output=output,
            source=source,
            progress=tell,
        )
    files = [] if output is None else sorted(str(path) for path in output.iterdir() if not path.name.startswith("."))
    if as_json:
        print_json(pilot_record(found) | {"files": files})
        return
    _show(found)
    if files:
        console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)
        if found.verdict == FEDERATE:
            console.print(f"Next: fedpact compare {escape(str(output))}/scenario.toml", soft_wrap=True)


@contextmanager
def _naming_options() -> Iterator[None]:
    """Errors name what was given as it is written here: `--splits`, not `splits`."""
    try:
        yield
    except InvalidInput as error:
        words = OPTION.sub(lambda found: f"{found[1]}--{found[2]}", str(error))
        raise InvalidInput(words) from error


@contextmanager
def _watching() -> Iterator[Progress]:
    """What is being done, on standard error of a terminal."""
    with progress(1) as begin:

        def tell(doing: str, done: int, total: int) -> None:
            begin(f"{doing}, {done} of {total}" if total else doing)

        yield tell


def _show(found: PilotStudy) -> None:
    data = found.data
    console.print(
        f"[bold]{escape(found.title)}[/bold]: {len(data.names)} members, {escape(found.model.label)}, "
        f"{escape(found.score.words)}, {count_text(found.splits, 'split')}"
    )
    console.print(f"[bold]{escape(found.advice)}[/bold]\n")
    print_measured(found.measured, found.federation, Unit.of(found.terms.money, found.terms.worth))
    alone = [
        f"{name} {amount_text(amount, found.currency)}"
        for name, amount in zip(data.names, found.brings, strict=True)
        if not math.isnan(amount)  # not measured where a member has several lots
    ]
    if alone:
        console.print(f"\nWhat the others gain where one alone shares everything: {escape(', '.join(alone))}.")
    if found.confirmation is None:
        console.print("There is no deal: nobody is asked to share anything.")
    for remedy in found.remedies:
        console.print(f"What would change it: {escape(remedy)}.")
    for warning in found.warnings:
        console.print(f"[red]Warning[/red]: {escape(warning)}.")
    for note in (*data.notes, *found.terms.words):
        console.print(f"Note: {escape(note)}.")

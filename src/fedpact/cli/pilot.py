"""`fedpact pilot`: from members' tables to a deal that was measured to pay, or is not recommended."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.cli.app import INTERRUPTED
from fedpact.cli.per_agent import Each, entries_by_name
from fedpact.fitting.pilots import BUILT_IN_PILOTS, PilotStudy
from fedpact.fitting.pilots import pilot as run_pilot
from fedpact.fitting.pilots.arrangements import OWN_CHOICE
from fedpact.fitting.pilots.study import PROFILES, amount_text
from fedpact.report.numbers import Unit
from fedpact.report.records import pilot_record
from fedpact.scenario.measured import FEDERATE
from fedpact.utils.errors import InvalidInput
from fedpact.utils.words import count_text

OPTIONS = "target|member|models?|score|ignore|lots|groups|cost|value|floor|family|arrangement|splits|seed"
OPTION = re.compile(rf"(^|\(|than )({OPTIONS})(?=[:,]? (?!\"))")  # where errors name an argument
Column = str | None


def pilot(
    data: Annotated[
        str,
        Argument(
            help="A folder with a table per member (.csv), a single table with --member, or a built-in "
            f"pilot: {', '.join(BUILT_IN_PILOTS)}.",
            metavar="DATA",
        ),
    ],
    target: Annotated[Column, Option("--target", help="The column to predict.")] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="The folder for scenario, report and record.")] = None,
    member: Annotated[Column, Option("--member", help="In a single table, the column that names the member.")] = None,
    model: Annotated[
        str | None,
        Option(
            "--model",
            help='A scikit-learn estimator, such as "sklearn.linear_model:LogisticRegression(C=0.1)"; a linear one if '
            "not given.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        Option(
            "--score",
            help="accuracy, balanced_accuracy, roc_auc, average_precision, f1, neg_log_loss, r2, "
            "neg_mean_absolute_error, or another score of scikit-learn.",
        ),
    ] = None,
    cost: Annotated[Each, Option("--cost", help='What sharing costs: "0.02 EUR/record", or NAME=...')] = None,
    value: Annotated[Each, Option("--value", help='What it is worth: "20 EUR/point", or NAME=...')] = None,
    arrangement: Annotated[
        str | None, Option("--arrangement", help='"own choice" or "one model"; by default the better.')
    ] = None,
    ignore: Annotated[Each, Option("--ignore", help="Leave this out; may repeat.")] = None,
    lots: Annotated[Column, Option("--lots", help="The column that names kinds of data.")] = None,
    groups: Annotated[
        Column, Option("--groups", help="The column of what belongs together, such as a patient.")
    ] = None,
    floor: Annotated[float | None, Option("--floor", help="What guessing scores; measured otherwise.")] = None,
    family: Annotated[str | None, Option("--family", help="power-law or exponential; by default the better.")] = None,
    models: Annotated[int, Option("--models", help="How many profiles are measured.", min=2)] = PROFILES,
    splits: Annotated[
        int | None, Option("--splits", help="How often to split; by default what a minute allows.", min=2)
    ] = None,
    seed: Annotated[
        int, Option("--seed", help="With the same --splits, the same seed gives the same numbers.", min=0)
    ] = 0,
    source: Annotated[Path | None, Option("--from", help="A folder with the files of the pilot heart.")] = None,
    force: Annotated[bool, Option("--force", "-f", help="Replace another pilot in the folder.")] = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Measure whether members gain by sharing data, make the deal, and train it before it is recommended.

    Everybody alone, one model for all, and own choice (each member uses its own data and what helps it of others') are
    compared on every record. All tables are read in one place: for public or synthetic data, or a place that all
    members trust. If you interrupt it, the same command with the same folder goes on where it stopped.
    """
    with screen.progress(1) as begin:

        def tell(doing: str, done: int, total: int) -> None:
            begin(f"{doing}, {done} of {total}" if total else doing)

        try:
            found = run_pilot(
                data,
                target,
                member=member,
                model=model,
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
                force=force,
                source=source,
                progress=tell,
            )
        except InvalidInput as error:  # what was given, as it is written here: `--splits`, not `splits`
            raise InvalidInput(OPTION.sub(lambda named: f"{named[1]}--{named[2]}", str(error))) from error
        except KeyboardInterrupt:
            kept = (
                "" if output is None else f"; what is measured is kept in {output}, the same command goes on from there"
            )
            typer.echo(f"interrupted{kept}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    files = [] if output is None else sorted(str(path) for path in output.iterdir() if not path.name.startswith("."))
    if as_json:
        screen.print_json(pilot_record(found) | {"files": files})
        return
    _show(found, timed=splits is None, chosen=arrangement is None)
    screen.say_written(files)
    if files and found.verdict == FEDERATE:
        screen.say(f"Next: fedpact compare {output}/scenario.toml", path=True)


def _show(found: PilotStudy, *, timed: bool, chosen: bool) -> None:
    """The first screen; whether splits were chosen by the time they take, and the arrangement by what was measured."""
    data = found.data
    about = f"{len(data.names)} members, {found.model.label}, {found.score.words}, {count_text(found.splits, 'split')}"
    screen.say((found.title, "bold"), f": {about}", f" (repeat with --splits {found.splits})" if timed else "")
    screen.say(f"Predicted: {data.predicted}.")
    screen.say_all(filter(None, [found.terms.words]))
    screen.say((found.advice, "bold"))
    screen.say()
    screen.say_measured(found.measured, found.federation, Unit.of(found.terms.money, found.terms.worth))
    if chosen:
        is_own = found.arrangement == OWN_CHOICE
        better = "is not measured to be better" if is_own else "is measured to be better than own choice"
        screen.say(f"{found.arrangement.capitalize()} is taken: one model {better} beyond chance.")
    alone = [
        f"{name} {amount_text(amount, found.currency)}"
        for name, amount in zip(data.names, found.brings, strict=True)
        if not math.isnan(amount)  # not measured where a member has several lots
    ]
    if alone and found.arrangement == OWN_CHOICE:  # one model of one member's records alone helps nobody
        screen.say()
        screen.say(f"What the others gain where one alone shares everything: {', '.join(alone)}.")
    if found.confirmation is None:
        screen.say("There is no deal: nobody is asked to share anything.")
    screen.say_all(found.remedies)
    for warning in found.warnings:
        screen.say(("Warning", "red"), f": {warning}.")
    screen.say_all(f"Note: {note}." for note in data.notes)

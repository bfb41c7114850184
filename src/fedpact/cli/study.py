"""`fedpact study`: mechanisms on many random federations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from fedpact.certificates import Claim
from fedpact.cli import inputs, screen
from fedpact.comparison import FieldStudy
from fedpact.comparison import study as run_study
from fedpact.comparison.studies import DEFAULT_COUNT, DEFAULT_SPLITS, STUDIED
from fedpact.mechanisms.registry import ALL
from fedpact.report.records import study_record
from fedpact.report.words import PROPERTY_HEADS
from fedpact.utils.checkpoint import remove_pieces
from fedpact.utils.tables import write_table

USUAL = Path("study.csv")  # made anew each time, as nobody has named it


def study(
    mechanisms: Annotated[
        list[str] | None, Option("--mechanism", "-m", help=f"One of {inputs.MECHANISM_NAMES}.")
    ] = None,
    count: Annotated[int, Option("--count", "-n", help="Federations of each kind.", min=1)] = DEFAULT_COUNT,
    splits: Annotated[
        int, Option("--splits", help="On how many of each to try posing as two.", min=0)
    ] = DEFAULT_SPLITS,
    seed: inputs.Seed = 0,
    output: inputs.Numbers = USUAL,
    force: inputs.Force = False,
    plot: inputs.Picture = None,
    as_json: inputs.AsJson = False,
) -> None:
    """Try mechanisms on many random federations, and count how often each property holds.

    If you interrupt a study, the same command goes on where it stopped.
    """
    inputs.check_output(output, force=force or output == USUAL, suffixes=(".csv",))
    picture = inputs.picture_beside(output, plot, force=force or (plot is None and output == USUAL))
    partial = output.absolute().parent / f".{output.name}.partial"
    rules = [inputs.choose_mechanism(name) for name in mechanisms] if mechanisms else ALL
    with screen.counter("federations") as report:
        found = run_study(None, rules, count=count, seed=seed, splits=splits, progress=report, checkpoint=partial)
    write_table(output, found.columns())
    inputs.write_picture(found, picture)
    remove_pieces(partial)
    files = [str(path) for path in (output, picture) if path is not None]
    if as_json:
        screen.print_json(study_record(found) | {"files": files})
        return
    _show(found)
    screen.say_written(files)


def _show(found: FieldStudy) -> None:
    for kind in found.kinds:
        title = f"{kind}: {found.count} federations of {found.n_agents}, per cent in which each property holds"
        heads = ("mechanism", *(PROPERTY_HEADS[claim] for claim in STUDIED), "best", "share")
        rows = []
        for name in found.mechanisms:
            shares = [found.share_holding(kind, name, claim) for claim in STUDIED]
            medians = [found.quantiles(kind, name, number)["median"] for number in ("share_of_best", "lowest_share")]
            rows.append([found.title(name), *map(_percent, [*shares, *medians])])
        screen.print_rows(title, heads, rows)
        for name in found.mechanisms:
            missing = int((~found.numbers[kind][name]["solved"].astype(bool)).sum())
            if missing:
                screen.say(f"{found.title(name)}: no outcome in {missing} of {found.count}")
        screen.say()
    judged = int((found.numbers[found.kinds[0]][next(iter(found.mechanisms))][Claim.SPLIT_PROOF] >= 0).sum())
    screen.say(
        "best: welfare, median, in per cent of the best there is. share: the smallest part of a Shapley value above "
        f"zero that a member gets back, median, in per cent. split proof: looked at in {judged} of each kind."
    )


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else "< 0" if share < 0 else f"{100.0 * share:.0f}"

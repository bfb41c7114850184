"""`fedpact study`: mechanisms on many random federations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedpact.certificates import Claim
from fedpact.cli.common import (
    MECHANISM_NAMES,
    AsJson,
    NumbersOutput,
    PictureOutput,
    choose_mechanism,
    console,
    escape,
    keep_words_whole,
    print_json,
    resumable,
    table,
)
from fedpact.cli.pictures import can_draw, write_picture
from fedpact.comparison import FEDERATION_KINDS, FieldStudy
from fedpact.comparison import study as run_study
from fedpact.comparison.studies import DEFAULT_AGENTS, DEFAULT_COUNT, DEFAULT_SPLITS, STUDIED
from fedpact.mechanisms.registry import ALL
from fedpact.report.records import study_record
from fedpact.report.words import PROPERTY_HEADS
from fedpact.utils.checkpoint import remove_pieces
from fedpact.utils.tables import check_table_name, write_table


def study(
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            "-k",
            help=f"All if not given: {', '.join(FEDERATION_KINDS)}. May be given several times.",
            metavar="NAME",
        ),
    ] = None,
    mechanisms: Annotated[
        list[str] | None,
        typer.Option("--mechanism", "-m", help=f"All if not given: {MECHANISM_NAMES}.", metavar="NAME"),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", help="Federations of each kind.", metavar="N", min=1)
    ] = DEFAULT_COUNT,
    members: Annotated[
        int, typer.Option("--members", help="Members of every federation.", metavar="N", min=1)
    ] = DEFAULT_AGENTS,
    splits: Annotated[
        int,
        typer.Option(
            "--splits", help="On how many of each kind to try who gains by posing as two.", metavar="N", min=0
        ),
    ] = DEFAULT_SPLITS,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same federations.", min=0)] = 0,
    output: NumbersOutput = Path("study.csv"),
    plot: PictureOutput = None,
    as_json: AsJson = False,
) -> None:
    """Put mechanisms to many random federations, and see how often each property holds.

    Interrupted and started again in the same way, a study goes on where it was.
    """
    check_table_name(output)
    picture = plot or output.with_suffix(".png")
    draws = can_draw(picture, wanted=plot is not None)
    partial = output.absolute().parent / f".{output.name}.partial"
    rules = [choose_mechanism(name) for name in mechanisms] if mechanisms else ALL

    with resumable("federations") as report:
        found = run_study(
            kinds,
            rules,
            count=count,
            n_agents=members,
            seed=seed,
            splits=splits,
            progress=report,
            checkpoint=partial,
        )
    write_table(output, found.columns())
    if draws:
        write_picture(found.plot(), picture)
    remove_pieces(partial)
    files = [str(output), *([str(picture)] if draws else [])]
    if as_json:
        print_json(study_record(found) | {"files": files})
        return
    _show(found)
    console.print(f"\nWritten: {escape(', '.join(files))}", soft_wrap=True)


def _show(found: FieldStudy) -> None:
    for kind in found.kinds:
        title = f"{kind}: {found.count} federations of {found.n_agents}, per cent in which each property holds"
        heads = ("mechanism", *(PROPERTY_HEADS[claim] for claim in STUDIED), "best", "share")
        made = table(title, *heads)
        for name in found.mechanisms:
            made.add_row(found.title(name), *_cells(found, kind, name))
        keep_words_whole(made, heads)
        console.print(made)
        for name in found.mechanisms:
            missing = int((~found.numbers[kind][name]["solved"].astype(bool)).sum())
            if missing:
                console.print(f"{found.title(name)}: no outcome in {missing} of {found.count}")
        console.print()
    judged = int((found.numbers[found.kinds[0]][next(iter(found.mechanisms))][Claim.SPLIT_PROOF] >= 0).sum())
    console.print(
        "best: welfare, median, in per cent of the best there is. share: the smallest part of a Shapley value above "
        f"zero that a member gets back, median, in per cent. split proof: looked at in {judged} of each kind."
    )


def _cells(found: FieldStudy, kind: str, name: str) -> Sequence[str]:
    shares = [_percent(found.share_holding(kind, name, claim)) for claim in STUDIED]
    medians = [_percent(found.quantiles(kind, name, number)["median"]) for number in ("share_of_best", "lowest_share")]
    return [*shares, *medians]


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else "< 0" if share < 0 else f"{100.0 * share:.0f}"

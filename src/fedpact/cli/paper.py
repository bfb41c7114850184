"""`fedpact paper`: the paper's figures and tables computed anew, and a page on what became of its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from fedpact.cli import inputs, screen
from fedpact.cli.app import CLAIM_FAILS
from fedpact.paper.results import ALL, ON_REQUEST, RESULTS, Judgement, PaperFinding, Result, choose_results, reproduce
from fedpact.utils.errors import InvalidInput
from fedpact.utils.jsonl import jsonable

__all__ = ["paper"]

QUICK = "fig4"
KEPT = "trained-models"  # a folder in that of the results


def paper(
    names: Annotated[
        list[str] | None, Argument(help=f"Of {', '.join(RESULTS)}, or {ALL}.", metavar="[NAME]...")
    ] = None,
    folder: Annotated[Path, Option("--output", "-o", help="Where the files go; made if it is not there.")] = Path(
        "paper-results"
    ),
    check: Annotated[bool, Option("--check", help="Exit with 1 if a judgement is not the known one.")] = False,
    quick: Annotated[bool, Option("--quick", help="A short version of fig4, with one seed.")] = False,
    as_json: inputs.AsJson = False,
) -> None:
    """Compute the paper's figures and tables anew: PNG, SVG, CSV, and a page with printed and computed side by side."""
    from fedpact.paper.drawing import require_matplotlib  # noqa: PLC0415 - only for this command
    from fedpact.paper.page import make_folder  # noqa: PLC0415

    wanted = choose_results(names or [])
    if any(name.startswith("fig") or name in ON_REQUEST for name in wanted):
        require_matplotlib()
    make_folder(folder)
    if quick and QUICK not in wanted:
        raise InvalidInput(f"--quick is for {QUICK}; name it, or leave --quick out")
    results, written = _made(wanted, folder, quick=quick)
    surprises = [found for result in results for found in result.findings if not found.as_expected]
    if as_json:
        screen.print_json(_record(results, written, surprises))
    else:
        _show(results, written, surprises)
    if check and surprises:
        raise typer.Exit(CLAIM_FAILS)


def _made(names: Sequence[str], folder: Path, *, quick: bool) -> tuple[list[Result], list[Path]]:
    """Compute and write one result after the other, then the page about all of them."""
    from fedpact.paper.page import files_of, page_html, page_markdown, write_files  # noqa: PLC0415

    results: list[Result] = []
    written: list[Path] = []
    for name in names:
        with screen.counter(f"parts of {name}", kept=name in ON_REQUEST) as count:
            results.append(reproduce(name, count, quick=quick, folder=folder / KEPT))
        written += write_files(folder, files_of(results[-1]))
    pages = {"index.md": page_markdown(results).encode(), "index.html": page_html(results).encode()}
    return results, [*written, *write_files(folder, pages)]


def _show(results: Sequence[Result], written: Sequence[Path], surprises: Sequence[PaperFinding]) -> None:
    for result in results:
        screen.say((result.title, "bold"))
        for found in result.findings:
            colour = {Judgement.CONFIRMED: "blue", Judgement.NOT_CONFIRMED: "red"}.get(found.judgement, "")
            screen.say((str(found.judgement), colour), f": {found.statement}")
            screen.say(f"  {found.evidence}")
        screen.say()
    judged = [found.judgement for result in results for found in result.findings]
    counts = ", ".join(f"{judged.count(judgement)} {judgement}" for judgement in Judgement)
    screen.say(f"Of {len(judged)} statements {counts}.")
    if surprises:
        screen.say(("Not as known before:", "red"))
        screen.say_all(f"- {found.statement} {found.judgement}; known before: {found.expected}" for found in surprises)
    else:
        screen.say("Every judgement is the one known before.")
    screen.say()
    screen.say(f"Written to {written[-1].parent}:", path=True)
    screen.say(", ".join(path.name for path in written))


def _record(results: Sequence[Result], written: Sequence[Path], surprises: Sequence[PaperFinding]) -> dict[str, Any]:
    return {
        "results": [
            {
                "name": result.name,
                "title": result.title,
                "findings": [jsonable(asdict(found) | {"as_expected": found.as_expected}) for found in result.findings],
            }
            for result in results
        ],
        "as_expected": not surprises,
        "files": [str(path) for path in written],
    }

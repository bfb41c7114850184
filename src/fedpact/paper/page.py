"""The files of a run: every result's numbers as CSV and its picture, and the page about all of them.

The page is Markdown for a repository, and the same as HTML for people.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from fedpact.paper.drawing import pictures
from fedpact.paper.results import Judgement, PaperFinding, Result, pipe_table
from fedpact.report.markup import render, style_sheet
from fedpact.utils.errors import InvalidInput, MissingExtra, error_context
from fedpact.utils.files import replace_files
from fedpact.utils.tables import csv_rows

try:
    from markdown_it import MarkdownIt
except ImportError as error:
    raise MissingExtra("What makes the paper's pages", "paper") from error

CSV_DIGITS = ".10g"
TITLE = "The paper's results, computed anew"
LEAD = (
    "Understanding Federated Learning Through the Lens of Mechanism Design: The Role of Data Heterogeneity (Alkarmi, "
    "Chen, Liu). Every model-based figure and table, and what the paper says of them, judged by the numbers."
)
JUDGEMENT_SIGNS = {Judgement.CONFIRMED: "✓", Judgement.CONDITIONAL: "◐", Judgement.NOT_CONFIRMED: "✗"}
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
INDEX = re.compile(r"(?<!\w)([^\W\d_])([\^_])(−?[^\W_]+)")  # M^E, w_k0
# Tables scroll sideways, with their numbers to the right.
TABLE_TAGS = {
    "<table>": '<div class="scroll" tabindex="0" role="group" aria-label="Table; scrolls sideways if narrow"><table>',
    "</table>": "</table></div>",
    ' style="text-align:right"': ' class="num"',
    ' style="text-align:left"': "",
    "<th": '<th scope="col"',
    '<th scope="col"ead': "<thead",
}
FINDING_HEADS = ("The paper says", "Judgement", "What the numbers say")


def make_folder(folder: Path) -> None:
    """The folder for the results, made if it is not there."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder}: this is a file; name a folder for the results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: the folder cannot be made: {error.strerror or error}") from error


def files_of(result: Result) -> dict[str, bytes]:
    """Every file of a result, by name."""
    files = {f"{result.name}.csv": csv_text(result).encode()}
    if result.draw is not None:
        files |= {f"{result.name}.{kind}": picture for kind, picture in pictures(result).items()}
    return files


def write_files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files into the folder, all of them or none."""
    with error_context(str(folder)):
        replace_files({folder / name: content for name, content in contents.items()})
    return [folder / name for name in contents]


def csv_text(result: Result) -> str:
    """The columns as CSV, numbers with ten digits."""
    lengths = {name: len(column) for name, column in result.columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"the columns of {result.name} must have the same length, got {lengths}")
    rows = zip(*result.columns.values(), strict=True)
    return csv_rows([tuple(result.columns), *(map(_csv_cell, row) for row in rows)])


def _csv_cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return f"{float(value) + 0.0:{CSV_DIGITS}}"
    return str(value)


def page_markdown(results: Sequence[Result]) -> str:
    """The page as Markdown."""
    parts = [f"# {TITLE}", LEAD, _tally_markdown(results)]
    for result in results:
        parts += [f"## {result.title}", *_picture_markdown(result)]
        parts += [result.text.strip()] if result.text else []
        parts += [_findings_markdown(result.findings)] if result.findings else []
    return "\n\n".join(parts) + "\n"


def page_html(results: Sequence[Result]) -> str:
    """The same page as HTML, in the style of the report."""
    style = style_sheet() + Markup(files("fedpact.paper").joinpath("page.css").read_text(encoding="utf-8"))
    content = to_html(page_markdown(results))
    return str(render("paper.html", package="fedpact.paper", title=TITLE, style=style, content=content))


def to_html(text: str) -> Markup:
    """Markdown as HTML; letters with an index, such as M^E and w_k0, get it raised or lowered."""
    html = MARKDOWN.render(text)
    for tag, better in TABLE_TAGS.items():
        html = html.replace(tag, better)
    return Markup(
        INDEX.sub(lambda found: f"{found[1]}<{(tag := 'sup' if found[2] == '^' else 'sub')}>{found[3]}</{tag}>", html)
    )


def _tally_markdown(results: Sequence[Result]) -> str:
    """How many statements came out how, a row per result."""
    rows = []
    for result in results:
        counts = Counter(found.judgement for found in result.findings)
        rows.append([result.title, *(str(counts[judgement]) for judgement in Judgement)])
    heads = ["", *(f"{JUDGEMENT_SIGNS[judgement]} {judgement}" for judgement in Judgement)]
    surprises = [found for result in results for found in result.findings if not found.as_expected]
    note = f"\n\n**Not as known before: {len(surprises)} of the judgements; they are marked.**" if surprises else ""
    return pipe_table(heads, rows) + note


def _picture_markdown(result: Result) -> list[str]:
    kinds = ("csv",) if result.draw is None else ("png", "svg", "csv")
    links = [f"[{name}]({name})" for name in (f"{result.name}.{kind}" for kind in kinds)]
    shown = [f"![{result.title}]({result.name}.png)"] if result.draw is not None else []
    return [*shown, f"Files: {', '.join(links)}"]


def _findings_markdown(findings: Sequence[PaperFinding]) -> str:
    rows = []
    for found in findings:
        surprise = "" if found.as_expected else f" (known before: {found.expected})"
        judged = f"{JUDGEMENT_SIGNS[found.judgement]} {found.judgement}{surprise}"
        rows.append([f"{found.statement} *({found.where})*", judged, found.evidence])
    return pipe_table(FINDING_HEADS, rows)

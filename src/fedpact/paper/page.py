"""The page about a run: every result with its picture, its text, and what became of the paper's statements.

Made twice from the same results: Markdown for a repository, HTML for people. Pictures and data lie next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from fedpact.paper.markdown import inline, pipe_table, to_html
from fedpact.paper.result import Finding, Judgement, Result
from fedpact.report.html import Html, el, join

__all__ = ["page_html", "page_markdown"]

TITLE = "The paper's results, computed anew"
LEAD = (
    "Understanding Federated Learning Through the Lens of Mechanism Design: The Role of Data Heterogeneity (Alkarmi, "
    "Chen, Liu). Every model-based figure and table, and what the paper says of them, judged by the numbers."
)
SIGNS = {Judgement.CONFIRMED: "✓", Judgement.CONDITIONAL: "◐", Judgement.NOT_CONFIRMED: "✗"}
CSS = {Judgement.CONFIRMED: "kept", Judgement.CONDITIONAL: "partly", Judgement.NOT_CONFIRMED: "refuted"}
HEADS = ("The paper says", "Judgement", "What the numbers say")

# What the report's style sheet does not have.
STYLE = """
figure { margin: 1rem 0 1.25rem; }
figure img { display: block; width: 100%; max-width: 60rem; height: auto; padding: 0.5rem; background: #ffffff;
  border: 1px solid var(--line); border-radius: 6px; }
figcaption { margin-top: 0.4rem; font-size: 0.875rem; color: var(--soft); }
.tally { width: auto; min-width: 20rem; }
.findings { width: 100%; }
.findings td { width: 40%; }
.findings td.judgement { width: 20%; min-width: 8.5rem; }
.judgement { font-weight: 600; }
.kept .judgement { color: var(--gain); }
.partly .judgement { color: var(--ink); }
.refuted .judgement { color: var(--loss); }
.findings small { color: var(--soft); }
.scroll td, .scroll th { overflow-wrap: normal; }
sup, sub { line-height: 0; }
@media (max-width: 40rem) {
  figure { overflow-x: auto; }
  figure img { min-width: 38rem; }
  .scroll > .findings, .findings tbody, .findings tr { display: block; }
  .findings thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .findings tr { padding: 0.75rem 0; border-bottom: 1px solid var(--line); }
  .findings td, .findings td.judgement { display: block; width: auto; padding: 0.15rem 0; border: 0; }
}
@media print { figure { break-inside: avoid; } }
"""


def page_markdown(results: Sequence[Result]) -> str:
    """The page as Markdown."""
    parts = [f"# {TITLE}", LEAD, _tally_markdown(results)]
    for result in results:
        parts += [f"## {result.title}", *_picture_markdown(result)]
        parts += [text for text in (result.text.strip(), *_tables_markdown(result)) if text]
        parts += [_findings_markdown(result.findings)] if result.findings else []
    return "\n\n".join(parts) + "\n"


def page_html(results: Sequence[Result]) -> str:
    """The page as HTML, in the style of the report."""
    style = files("fedpact.report").joinpath("style.css").read_text(encoding="utf-8")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="generator", content="fedpact"),
        el("title", TITLE),
        el("style", Html(style + STYLE)),
    )
    header = el("header", el("p", "fedpact paper", class_="kicker"), el("h1", TITLE), el("p", LEAD, class_="lead"))
    contents = [el("li", el("a", result.title.partition(":")[0], href=f"#{result.name}")) for result in results]
    main = el(
        "main",
        to_html(_tally_markdown(results)),
        el("nav", el("ol", contents), aria_label="Contents"),
        [_section(result) for result in results],
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', header, main), lang='en-GB')}\n"


def _tally_markdown(results: Sequence[Result]) -> str:
    """How many statements came out how, a row per result."""
    rows = []
    for result in results:
        counts = Counter(found.judgement for found in result.findings)
        rows.append([result.title, *(str(counts[judgement]) for judgement in Judgement)])
    heads = ["", *(f"{SIGNS[judgement]} {judgement}" for judgement in Judgement)]
    surprises = [found for result in results for found in result.findings if not found.as_expected]
    told = f"\n\n**Not as known before: {len(surprises)} of the judgements; they are marked.**" if surprises else ""
    return pipe_table(heads, rows) + told


def _picture_markdown(result: Result) -> list[str]:
    links = [f"[{name}]({name})" for name in _file_names(result)]
    shown = [f"![{result.title}]({result.name}.png)"] if result.draw is not None else []
    return [*shown, f"Files: {', '.join(links)}"]


def _tables_markdown(result: Result) -> list[str]:
    return [pipe_table(heads, rows) for heads, rows in result.tables]


def _findings_markdown(findings: Sequence[Finding]) -> str:
    rows = [
        [f"{found.statement} *({found.where})*", f"{_judged(found)}{_surprise(found)}", found.evidence]
        for found in findings
    ]
    return pipe_table(HEADS, rows)


def _section(result: Result) -> Html:
    heading = f"{result.name}-heading"
    return el(
        "section",
        el("h2", result.title, id=heading),
        _figure(result),
        to_html(result.text),
        [to_html(table) for table in _tables_markdown(result)],
        _findings(result.findings) if result.findings else None,
        id=result.name,
        aria_labelledby=heading,
    )


def _figure(result: Result) -> Html:
    links: list[Html | str] = []
    for name in _file_names(result):
        links += [", " if links else "Files: ", el("a", name, href=name)]
    if result.draw is None:
        return el("p", links, class_="note")
    # The width and height keep the page from jumping while the picture loads.
    width, height = (round(100 * side) for side in result.size)
    picture = el("img", src=f"{result.name}.svg", alt=result.title, width=width, height=height)
    return el("figure", picture, el("figcaption", links))


def _findings(findings: Sequence[Finding]) -> Html:
    head = el("tr", [el("th", text, scope="col") for text in HEADS])
    rows = [
        el(
            "tr",
            el("td", inline(found.statement), el("small", found.where)),
            el("td", _judged(found), el("small", _surprise(found)) if _surprise(found) else None, class_="judgement"),
            el("td", inline(found.evidence)),
            class_=CSS[found.judgement],
        )
        for found in findings
    ]
    table = el("table", el("thead", head), el("tbody", rows), class_="findings")
    return join(el("h3", "What the paper says of it"), el("div", table, class_="scroll"))


def _judged(found: Finding) -> str:
    return f"{SIGNS[found.judgement]} {found.judgement}"


def _surprise(found: Finding) -> str:
    return "" if found.as_expected else f" (known before: {found.expected})"


def _file_names(result: Result) -> list[str]:
    kinds = ("csv",) if result.draw is None else ("png", "svg", "csv")
    return [f"{result.name}.{kind}" for kind in kinds]

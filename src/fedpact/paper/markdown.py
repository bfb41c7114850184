"""The little Markdown that results are told in, as HTML: paragraphs, headings, lists, tables, emphasis, code, links.
Letters with an index, such as M^E and w_k0, get it raised or lowered.

Only what `Result.text` uses; everything else is shown as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedpact.report.html import Html, el, join, safe_text, scrolling

__all__ = ["inline", "pipe_table", "to_html"]

BREAK = re.compile(r"\n[ \t]*\n+")
NUMBER = re.compile(r"^[−+-]?[\d,.]+([eE][−+-]?\d+)?( ?%)?$|^∞$|^undefined$")
# Code first: what stands in it is not looked at again.
PIECES = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s][^*]*)\*|\[(?P<label>[^\]]+)\]\((?P<target>[^)\s]+)\)"
    r"|(?<!\w)(?P<base>[^\W\d_])(?P<mark>[\^_])(?P<index>−?[^\W_]+)"
)


def pipe_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are set to the right.

    Examples
    --------
    >>> print(pipe_table(["agent", "ratio"], [["0", "0.896"]]))
    | agent | ratio |
    |--:|--:|
    | 0 | 0.896 |
    """
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in heads]
    rule = "|".join("--:" if _numeric(column) else ":--" for column in columns)
    lines = [[_cell(text) for text in row] for row in (heads, *rows)]
    head, *body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([head, f"|{rule}|", *body])


def _numeric(column: Sequence[str]) -> bool:
    filled = [text for text in column if text]
    return bool(filled) and all(NUMBER.match(text) for text in filled)


def to_html(text: str) -> Html:
    """A text as HTML, block by block."""
    return join([_block(block.strip("\n")) for block in BREAK.split(text.strip("\n")) if block.strip()])


def inline(text: str) -> Html:
    """One line with its emphasis, code and links; the rest is escaped."""
    made: list[Html] = []
    end = 0
    for match in PIECES.finditer(text):
        made += [safe_text(text[end : match.start()]), _piece(match)]
        end = match.end()
    return join([*made, safe_text(text[end:])])


def _piece(match: re.Match[str]) -> Html:
    if match["target"]:
        return el("a", inline(match["label"]), href=match["target"])
    if match["base"]:
        return join(match["base"], el("sup" if match["mark"] == "^" else "sub", match["index"]))
    if match["code"]:
        return el("code", match["code"])
    return el("strong", inline(match["strong"])) if match["strong"] else el("em", inline(match["em"]))


def _block(block: str) -> Html:
    lines = block.splitlines()
    if lines[0].startswith("#"):
        heading = lines[0].lstrip("#").strip()
        rest = "\n".join(lines[1:])
        return join(el("h3", inline(heading)), _block(rest) if rest.strip() else None)
    if len(lines) > 1 and lines[0].lstrip().startswith("|") and re.fullmatch(r"[\s|:-]+", lines[1]):
        return _table([_cells(line) for line in lines if line.strip()])
    if re.match(r"\s*[-*] ", lines[0]):
        return el("ul", [el("li", inline(item)) for item in _items(lines)])
    return el("p", inline(" ".join(line.strip() for line in lines)))


def _items(lines: Sequence[str]) -> list[str]:
    """The entries of a list; a line without a dash goes on with the one before."""
    items: list[str] = []
    for line in lines:
        if re.match(r"\s*[-*] ", line):
            items.append(line.strip()[2:])
        else:
            items[-1] = f"{items[-1]} {line.strip()}"
    return items


def _table(rows: Sequence[Sequence[str]]) -> Html:
    heads, rule, *body = rows
    css = ["num" if mark.endswith(":") and not mark.startswith(":") else None for mark in rule]
    head = el("tr", [el("th", inline(cell), scope="col", class_=kind) for cell, kind in zip(heads, css, strict=True)])
    made = [
        el("tr", [el("td", inline(cell), class_=kind) for cell, kind in zip(row, css, strict=True)]) for row in body
    ]
    return scrolling(el("table", el("thead", head), el("tbody", made)), "Table")


def _cells(line: str) -> list[str]:
    """The cells of a row; a bar with a backslash before it belongs to its cell."""
    return [
        cell.strip().replace("\\|", "|")
        for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""What several sections are built from: the section itself, tables with a bar in every row, groups and panels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedpact.report.html import Child, Html, el

__all__ = ["BarRow", "bar_table", "folded", "group", "panel", "section"]


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """A row of a bar table: what it is about, its picture, its number, and a word on it."""

    label: Child
    picture: Html
    number: Child
    word: Child = None
    css: str = ""


def section(ident: str, heading: str, *children: Child) -> Html:
    """A numbered section; the style sheet counts."""
    return el(
        "section", el("h2", heading, id=f"{ident}-heading"), *children, id=ident, aria_labelledby=f"{ident}-heading"
    )


def bar_table(caption: Child, rows: Iterable[BarRow], *, heads: tuple[str, str], show_heads: bool = True) -> Html:
    """Rows of label, bar and number; `heads` name the labels and the numbers. The caption is for screen readers."""
    head = el(
        "tr",
        el("th", heads[0], scope="col"),
        el("td"),
        el("th", heads[1], scope="col", class_="num"),
        class_=None if show_heads else "hidden",
    )
    body = [
        el(
            "tr",
            el("th", row.label, scope="row"),
            el("td", row.picture),
            el("td", row.number, el("small", row.word) if row.word else None, class_=f"num {row.css}".strip()),
        )
        for row in rows
    ]
    columns = el("colgroup", el("col", class_="label"), el("col"), el("col", class_="number"))
    hidden = el("caption", caption, class_="hidden")
    return el("table", hidden, columns, el("thead", head), el("tbody", body), class_="bars")


def group(head: Child, *children: Child) -> Html:
    """A heading with what belongs to it: beside it on a wide page, below it on a narrow one."""
    return el("div", el("div", head, class_="group-head"), el("div", *children), class_="group")


def panel(css: str, heading: str, *children: Child) -> Html:
    """A box about one mechanism, marked with its colour."""
    return el("div", el("h3", el("span", class_=f"swatch {css}"), heading), *children, class_="panel")


def folded(summary: Child, *children: Child, is_open: bool = False) -> Html:
    """Something to open."""
    return el("details", el("summary", summary), el("div", *children, class_="folded"), open=is_open)

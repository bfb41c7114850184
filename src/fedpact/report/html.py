"""HTML from Python: elements whose text is escaped unless it is already HTML.

`el` takes children of two kinds: `Html`, which the functions here make, goes in as it is, and every other text is
escaped. So a name that came from a file can never become markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

__all__ = ["Child", "Html", "el", "join", "listed", "mention", "name", "safe_text", "scrolling", "table"]

VOID = frozenset({"br", "col", "hr", "img", "meta"})
# Characters that no HTML page may hold: control characters but for white space, and halves of surrogate pairs.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Names of more characters are cut in sentences.
LONGEST = 40


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def safe_text(text: str) -> Html:
    """`text` as HTML that shows it."""
    return Html(escape(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)))


def join(*children: Child) -> Html:
    """The children one after another; texts are escaped, None is left out."""
    return Html("".join(_flat(children)))


def el(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """An element.

    Attributes that are None or False are left out. `class_` stands for class, and other underscores for hyphens.

    Examples
    --------
    >>> el("td", "a < b", class_="num", data_row=1)
    '<td class="num" data-row="1">a &lt; b</td>'
    """
    written = "".join(_attribute(label, given) for label, given in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


def name(text: str) -> Html:
    """An agent's name: set apart from the text around it, whichever way it is written, and cut by the style sheet."""
    return el("bdi", text, class_="name", title=text)


def mention(text: str) -> Html:
    """An agent's name in a sentence, cut if it is very long."""
    return el("bdi", text) if len(text) <= LONGEST else el("bdi", f"{text[: LONGEST - 1].rstrip()}…", title=text)


def listed(names: Sequence[str], *, most: int = 6) -> Html:
    """Names in a sentence, the first few of them if they are many."""
    shown = [mention(text) for text in names[:most]]
    if len(names) > most:
        shown.append(Html(f"{len(names) - most:,} more"))
    if len(shown) < 2:
        return join(shown)
    return join(*(join(text, ", ") for text in shown[:-2]), shown[-2], " and ", shown[-1])


def table(caption: Child, heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, css: str = "") -> Html:
    """A table with a head row; the first cell of every row names it, the others are numbers.

    With "stacked" in `css`, narrow pages show every row as a list, each number beside its head.
    """
    columns = [el("th", head, scope="col", class_="num" if place else None) for place, head in enumerate(heads)]
    labels = [head if isinstance(head, str) and "stacked" in css else None for head in heads]
    body = [
        el(
            "tr",
            el("th", row[0], scope="row"),
            [el("td", cell, class_="num", data_label=label) for label, cell in zip(labels[1:], row[1:], strict=True)],
        )
        for row in rows
    ]
    made = el("table", el("caption", caption), el("thead", el("tr", columns)), el("tbody", body), class_=css or None)
    return scrolling(made, "Table")


def scrolling(made: Html, label: str) -> Html:
    """A wide table in a frame that scrolls sideways, with the keyboard too."""
    return el(
        "div", made, class_="scroll", tabindex=0, role="region", aria_label=f"{label}; scrolls sideways if narrow"
    )


def _attribute(label: str, given: Attribute) -> str:
    if given is None or given is False:
        return ""
    key = "class" if label == "class_" else label.replace("_", "-")
    return f" {key}" if given is True else f' {key}="{safe_text(str(given))}"'


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str):
            yield safe_text(child)
        else:
            yield from _flat(child)

"""Markdown that results are told in: tables of numbers, and its HTML by markdown-it-py.

Letters with an index, such as M^E and w_k0, get it raised or lowered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedpact.utils.errors import MissingExtra

try:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict
except ImportError as error:
    raise MissingExtra("What makes the paper's pages", "paper") from error
from markupsafe import Markup

NUMERIC_CELL = re.compile(r"^[−+-]?[\d,.]+([eE][−+-]?\d+)?( ?%)?$|^∞$|^undefined$")
LETTER_BEFORE = re.compile(r"(?<!\w)[^\W\d_]$")
INDEX = re.compile(r"[\^_](−?[^\W_]+)")


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
    return bool(filled) and all(NUMERIC_CELL.match(text) for text in filled)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def to_html(text: str) -> Markup:
    """A text as HTML."""
    return Markup(MARKDOWN.render(text))


def _index(state: StateInline, silent: bool) -> bool:
    """A rule of the parser: the index of a single letter."""
    found = INDEX.match(state.src, state.pos)
    if found is None or not LETTER_BEFORE.search(state.src[: state.pos]):
        return False
    if not silent:
        tag = "sup" if state.src[state.pos] == "^" else "sub"
        state.push(f"{tag}_open", tag, 1)
        state.push("text", "", 0).content = found[1]
        state.push(f"{tag}_close", tag, -1)
    state.pos = found.end()
    return True


class _Renderer(RendererHTML):
    """Tables that scroll sideways, with their numbers to the right."""

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        label = "Table; scrolls sideways if narrow"
        return f'<div class="scroll" tabindex="0" role="group" aria-label="{label}"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<th scope="col"{_alignment(tokens[idx])}>'

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<td{_alignment(tokens[idx])}>"


def _alignment(cell: Token) -> str:
    return ' class="num"' if cell.attrGet("style") == "text-align:right" else ""


MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
MARKDOWN.inline.ruler.before("emphasis", "index", _index)

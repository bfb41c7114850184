"""The page: the same results as Markdown and as HTML, with nothing in them taken for markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from fedpact.paper.page import page_html, page_markdown
from fedpact.paper.results import Judgement, PaperFinding, Result

VOID = {"meta", "img", "br", "hr"}


def made(judgement: Judgement = Judgement.CONFIRMED, name: str = "fig9", *, drawn: bool = True) -> Result:
    found = PaperFinding(
        where="section 9",
        statement="a < b & M^E pays w_0k | twice",
        judgement=judgement,
        evidence="it is <0.5>",
        expected=Judgement.CONFIRMED,
    )
    return Result(
        name=name,
        title="Fig. 9: <script>",
        columns={"x": [1.0]},
        findings=[found],
        draw=(lambda figure: None) if drawn else None,
        text="First *line*\ngoes on.\n\n- one\n- two\n  goes on\n\n### Head\n\n| a | b |\n|:--|--:|\n| x | 1.0 |",
    )


class Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Balance:
    reader = Balance()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_html_is_well_formed_and_escaped() -> None:
    text = page_html([made()])
    reader = parsed(text)
    assert "script" not in reader.seen
    assert "&lt;script&gt;" in text
    assert "it is &lt;0.5&gt;" in text
    assert "a &lt; b &amp; M<sup>E</sup> pays w<sub>0k</sub> | twice" in text
    assert '<img src="fig9.png"' in text


def test_html_asks_for_nothing_from_outside() -> None:
    text = page_html([made()])
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text


def test_markdown_has_picture_text_tables_and_findings() -> None:
    text = page_markdown([made(name="fig9"), made(name="table9", drawn=False)])
    assert "![Fig. 9: <script>](fig9.png)" in text
    assert "table9.png" not in text
    assert "[table9.csv](table9.csv)" in text
    assert "| a < b & M^E pays w_0k \\| twice *(section 9)* | ✓ confirmed | it is <0.5> |" in text


@pytest.mark.parametrize("page", [page_markdown, page_html])
def test_a_judgement_that_is_not_known_stands_out(page) -> None:
    assert "known before" not in page([made()])
    text = page([made(Judgement.NOT_CONFIRMED)])
    assert "Not as known before: 1" in text
    assert "known before: confirmed" in text

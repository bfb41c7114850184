"""Markdown of results, and its HTML."""

from __future__ import annotations

import pytest

from fedpact.paper.page import to_html
from fedpact.paper.results import pipe_table

TEXT = "First *line*\ngoes on.\n\n- one\n- two\n  goes on\n\n### Head\n\n| a | b |\n|:--|--:|\n| x | 1.0 |"


def test_blocks_become_elements() -> None:
    text = " ".join(to_html(TEXT).split()).replace("> <", "><")
    assert "<p>First <em>line</em> goes on.</p>" in text
    assert "<ul><li>one</li><li>two goes on</li></ul>" in text
    assert "<h3>Head</h3>" in text
    assert '<th scope="col" class="num">b</th>' in text
    assert '<td>x</td><td class="num">1.0</td>' in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("`a*b*c` and **M^Shap**", "<code>a*b*c</code> and <strong>M<sup>Shap</sup></strong>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("[data](fig1.csv)", '<a href="fig1.csv">data</a>'),
        ("ξ^−β", "ξ<sup>−β</sup>"),
        ("(nβ/γ)^(1/2) and snake_case", "(nβ/γ)^(1/2) and snake_case"),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_inline(given: str, shown: str) -> None:
    assert to_html(given) == f"<p>{shown}</p>\n"


def test_bars_in_cells_survive() -> None:
    text = pipe_table(["a", ""], [["x | y", ""], ["z", "−1.5"]])
    assert text.splitlines()[1] == "|:--|--:|"
    assert "<td>x | y</td>" in to_html(text)

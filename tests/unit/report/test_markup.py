"""Templates escape what is filled in, and names are set apart."""

from __future__ import annotations

import jinja2
import pytest
from markupsafe import Markup

from fedpact.report.markup import MAX_MENTION_LENGTH, mention, mention_list, name_tag, render
from fedpact.report.tables import ResultTable

ODD = "<script>alert('x')</script> & \"Sons\""


def page(**changes: object) -> str:
    claims = ResultTable(title="", names=[], columns={})
    given = {"style": "", "title": "", "lead": "", "meaning": "", "paid": None, "signed": None, "claims": claims}
    return render("ledger.html", **(given | changes))


def test_what_is_filled_in_is_escaped():
    made = page(title=ODD, lead=Markup("<i>x</i>"))
    assert "<script" not in made and "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &#34;Sons&#34;" in made
    assert "<i>x</i>" in made


def test_what_is_missing_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="'style' is undefined"):
        render("ledger.html", title="")


def test_characters_no_page_may_hold_are_replaced():
    assert "a\ufffd\ufffd\ufffdb\tc" in page(title="a\x00\x1f\ud800b\tc")


def test_names_are_escaped_in_text_and_in_attributes():
    assert name_tag('"<b>') == '<bdi class="name" title="&#34;&lt;b&gt;">&#34;&lt;b&gt;</bdi>'


def test_long_names_are_cut_in_sentences():
    assert mention("A" * MAX_MENTION_LENGTH) == f"<bdi>{'A' * MAX_MENTION_LENGTH}</bdi>"
    made = mention("<" * (MAX_MENTION_LENGTH + 1))
    assert made.striptags() == "<" * (MAX_MENTION_LENGTH - 1) + "…"
    assert made.count("&lt;") == 2 * MAX_MENTION_LENGTH


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["A"], "<bdi>A</bdi>"),
        (["A", "B"], "<bdi>A</bdi> and <bdi>B</bdi>"),
        (["A", "B", "C"], "<bdi>A</bdi>, <bdi>B</bdi> and <bdi>C</bdi>"),
        (["A", "B", "C", "D"], "<bdi>A</bdi>, <bdi>B</bdi> and 2 more"),
    ],
)
def test_names_in_a_sentence(names, text):
    assert mention_list(names, most=2 if len(names) > 3 else 3) == text

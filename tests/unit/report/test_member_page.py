"""The page of one member: its own numbers, what is certified, one sheet that loads nothing."""

from __future__ import annotations

import re

import pytest

import fedpact as fp
from fedpact.report import render_member_page
from fedpact.utils.errors import InvalidInput
from old_hospitals import hospitals


@pytest.fixture(scope="module")
def compared():
    return fp.compare(hospitals().federation, ["externality", "fair", "shapley"])


def plain(source: str) -> str:
    text = re.sub(r"<[^>]*>", " ", source[source.index("<body") :])
    return " ".join(text.replace("&#39;", "'").replace("\N{NO-BREAK SPACE}", " ").split())


@pytest.mark.parametrize(
    ("member", "mechanism", "said"),
    [
        ("City", None, "City contributes 25.85 thousand records and receives EUR 22,345. It is EUR 115,025 better off"),
        (
            "Clinic",
            "shapley",
            "Clinic contributes 28.73 thousand records and pays EUR 339,488. It is EUR 248,181 worse off",
        ),
        ("Clinic", "fair", "and pays EUR 59,964. It is EUR 72,871 better off than alone."),
    ],
)
def test_the_deal_in_two_sentences(compared, member, mechanism, said):
    text = plain(render_member_page(compared, member, hospitals(), mechanism=mechanism))
    assert said in text


def test_its_own_numbers_and_nobody_elses(compared, read):
    source = render_member_page(compared, "County", hospitals())
    page, text = read(source), plain(source)
    for number in ("11.36 thousand records", "of at most 60", "−EUR 45,872", "+EUR 96,391"):
        assert number in text, text
    assert " per thousand records, as delivered" in text and "EUR per thousand records, as delivered" not in text
    assert "To settle it, County pays University EUR 23,526.78 , pays City EUR 22,344.76" in text
    before, prices = text.split("Prices it pays for others' data")
    after = prices.partition("as delivered")[2]
    assert "Children's" not in before + after, "of the others only what it pays for their data"
    arrays = compared["externality"].arrays
    own = arrays.prices(compared["externality"].contributions)[2, 0] * hospitals().money.per_payoff
    assert f"EUR {own:,.2f} for University" in prices.replace("\N{NO-BREAK SPACE}", " ")
    assert "Everybody does at least as well as alone" in text and "Not certified" in text
    assert "smallest gain" not in text and "margin" not in text[text.index("Verdicts") :], "they are others' numbers"
    assert not page.tags & {"script", "img", "link"} and "http" not in source


def test_shapley_shares_are_said_where_they_are_promised(compared):
    for mechanism, is_said in (("externality", False), ("shapley", True)):
        text = plain(render_member_page(compared, "County", hospitals(), mechanism=mechanism))
        for words in ("Of its Shapley share it gets back", "Everybody gets back its Shapley share"):
            assert (words in text) == is_said


def test_fixed_sums_are_named(compared):
    assert "of it fixed" in plain(render_member_page(compared, 0, mechanism="fair"))
    assert "of it fixed" not in plain(render_member_page(compared, 0, mechanism="externality"))


def test_how_sure_it_is_where_the_scenario_says():
    given = hospitals()
    spread = fp.Uncertainty(weights=0.05 * given.federation.weights)
    found = fp.compare(given.federation, ["externality"], uncertainty=spread, draws=20)
    text = plain(render_member_page(found, "City", given))
    assert "How sure the gain is" in text and "It would do better alone" in text


def test_names_are_no_markup_and_have_to_exist(compared):
    odd = fp.Federation([[1.0, 0.5], [0.5, 1.0]], costs=0.01, payoff=fp.PowerLaw(0.2), names=["<i>A", "B"])
    assert "<i>" not in render_member_page(fp.compare(odd, ["externality"]), 0)
    with pytest.raises(InvalidInput, match="must be a name"):
        render_member_page(compared, "Nobody")

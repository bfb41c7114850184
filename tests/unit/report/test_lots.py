"""The report and a member's page of members with several lots: what is brought, what stays at home."""

from __future__ import annotations

import pytest

import fedpact as fp
from fedpact.comparison import Comparison
from fedpact.report.member_page import render_member_page
from fedpact.scenario import example
from unit.report.reports import report_of

TITLE = "Five hospitals"


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return fp.compare(example("hospitals-lots").federation, ["externality", "standalone"])


def test_the_report_says_which_lots_stay_at_home(compared: Comparison) -> None:
    page = report_of(compared, title=TITLE)
    given = compared["externality"]
    home = [name for name, amount in zip(given.federation.lot_labels, given.contributions, strict=True) if amount == 0]
    assert home == ["City: old device"]
    assert page.index("City: old device") > 0 and ">at home<" in page
    for name in given.federation.lot_labels:
        assert name.replace("'", "&#39;") in page
    assert "10 lots of data and 7 tasks" in page and "Lots of data" in page
    assert "weights between members" in page


def test_a_page_of_a_member_lists_its_lots(compared: Comparison) -> None:
    page = render_member_page(compared, "City")
    assert "Contribution, labelled" in page and "it stays at home" in page
    assert "of &#34;labelled&#34; and pays" in page and "of &#34;old device" not in page

"""What reports say of caps that lots share."""

import pytest

import fedpact as fp
from fedpact.report.member_page import render_member_page
from fedpact.report.numbers import Unit
from fedpact.report.page import shared_cap_sentences
from fedpact.scenario import example
from unit.report.reports import report_of

SCENARIO = example("hospitals-privacy")


def test_sentences_say_how_the_cap_is_used() -> None:
    outcome = fp.ExternalityMechanism().solve(SCENARIO.federation)
    unit = Unit.of(SCENARIO.money, outcome.payoffs)
    first, *_ = told = shared_cap_sentences(outcome, unit)
    assert len(told) == 3 and shared_cap_sentences(outcome, unit, agent=0) == [first]
    assert (
        first.startswith("University brings ") and "all of the 40 that these lots share. A cap of 41 would add" in first
    )
    less = fp.ExternalityMechanism().outcome_at(SCENARIO.federation, 0.5 * outcome.contributions)
    room = shared_cap_sentences(less, unit)[0]
    assert room.endswith("20 of the 40 that these lots share.")


@pytest.mark.slow
def test_the_report_says_it() -> None:
    comparison = fp.compare(SCENARIO.federation, ["externality", "standalone"])
    page = report_of(comparison, title=SCENARIO.title)
    assert "that these lots share" in page
    assert "with the lots it shares a cap with" in render_member_page(comparison, "City")

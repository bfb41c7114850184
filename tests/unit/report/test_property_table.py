"""The table of mechanisms against properties, the same on the terminal, in the report and in the explorer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedpact as fp
from fedpact.certificates import Claim
from fedpact.report.numbers import Unit
from fedpact.report.tables import properties_table
from fedpact.scenario import example
from unit.report.reports import report_of

SIX = ["externality", "shapley", "voluntary", "standalone", "vcg", "equal-split"]


@pytest.fixture(scope="module")
def six() -> fp.Comparison:
    return fp.compare(example("hospitals").federation, SIX)


@pytest.mark.slow
def test_cells_are_the_verdicts_and_what_lies_gain(six: fp.Comparison) -> None:
    unit = Unit.of(None, [outcome.payoffs for outcome in six])
    table = properties_table(six, unit)
    rows = {
        name: {head: texts[row] for head, texts in table.columns.items()} for row, name in enumerate(six.mechanisms)
    }
    assert list(rows) == SIX and list(table.names) == [six.title(name) for name in SIX]
    assert rows["externality"]["stable"] == rows["externality"]["all gain"] == "yes"
    assert rows["shapley"]["all gain"] == "no" and rows["standalone"]["lies gain"] == "nobody"
    gain = six.largest_misreporting_gain("externality")
    assert gain is not None and rows["externality"]["lies gain"] == unit.column([gain[1]], signed=True)[0]
    assert rows["vcg"]["balanced"] == unit.column([six["vcg"].budget], signed=True)[0]
    assert not six["vcg"].certificates[Claim.BUDGET_BALANCE].holds


@pytest.mark.slow
def test_the_report_has_it_where_more_is_compared_than_by_default(six: fp.Comparison) -> None:
    page = report_of(six)
    section = page[page.index('<section id="properties"') : page.index('<section id="deals"')]
    assert section.count("<tr>") == 1 + len(SIX) and 'href="#properties"' in page
    assert "lies gain" in section
    few = replace(six, outcomes=six.outcomes[:4])
    assert 'id="properties"' not in report_of(few)


@pytest.mark.slow
def test_mechanisms_without_an_outcome_are_named_below(six: fp.Comparison) -> None:
    short = replace(six, mechanisms={**six.mechanisms, "vcg": six.mechanisms["vcg"]}, unsolved={"vcg": "<none> found"})
    page = report_of(short)
    assert "VCG has no outcome here: &lt;none&gt; found." in page

"""Everything the report names has words."""

from __future__ import annotations

from pathlib import Path

import fedpact as fp
from fedpact.certificates.claims import TITLES
from fedpact.certificates.deviations import free_riding
from fedpact.report.words import CLAIMS, NOT_CERTIFIED, SHAPLEY_METHODS
from fedpact.scenario import example
from fedpact.shapley.values import METHODS
from unit.report.reports import report_of

DOCS = Path(__file__).parents[3] / "docs"


def test_claims_have_words(case, comparison_of):
    for outcome in comparison_of(case):
        assert set(outcome.certificates) <= set(CLAIMS)
        assert outcome.shapley.method in {*SHAPLEY_METHODS, "undefined"}


def test_the_page_of_certificates_says_the_same_words():
    page = (DOCS / "certificates.md").read_text(encoding="utf-8")
    for claim, title in TITLES.items():
        assert f"| `{claim}` | {title} |" in page


def test_every_way_to_shapley_values_has_words():
    assert set(SHAPLEY_METHODS) == set(METHODS) - {"auto"}


def test_paid_a_lump_sum_the_university_delivers_less():
    """What the certificates' page says of the hospitals: the Nash certificate is one of prices per sample delivered."""
    scenario = example("hospitals")
    outcome = fp.ExternalityMechanism().solve(scenario.federation)
    assert outcome.certificates["nash"].holds and outcome.agents[0] == "University"
    safe = free_riding(scenario.federation, outcome.contributions)  # its payment does not depend on what it delivers
    assert safe.actions[0] == 0.0
    more = float((safe.utilities + outcome.payments - outcome.joining_costs - outcome.utilities)[0])
    said = " ".join((DOCS / "certificates.md").read_text(encoding="utf-8").split())
    assert (
        f"the University agrees to share {outcome.contributions[0]:.0f} thousand records; were it paid a lump sum, it "
        f"would do best to deliver none, and keep EUR {more:,.0f} more"
    ) in said


def test_the_page_says_what_is_not_certified(comparison_of, read):
    text = read(report_of(comparison_of("hospitals"))).text
    assert NOT_CERTIFIED in " ".join(text.split())
    assert "acting differently" not in text

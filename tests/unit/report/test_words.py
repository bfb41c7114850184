"""Everything the report names has words."""

from __future__ import annotations

from fedpact.report.words import ASSUMPTIONS, CLAIMS, EVIDENCE, SHAPLEY_METHODS
from fedpact.shapley.routes import METHODS


def test_claims_evidence_and_assumptions_have_words(case, comparison_of):
    for outcome in comparison_of(case):
        assert set(outcome.certificates) <= set(CLAIMS)
        assert {key for found in outcome.certificates.values() for key in found.witness} <= set(EVIDENCE)
        assert {assumption.name for assumption in outcome.assumptions} == set(ASSUMPTIONS)
        assert outcome.shapley.method in {*SHAPLEY_METHODS, "undefined"}


def test_every_way_to_shapley_values_has_words():
    assert set(SHAPLEY_METHODS) == set(METHODS) - {"auto"}

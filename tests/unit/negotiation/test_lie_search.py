"""The search for the best lie: what it reports is what lies come to, and refusal keeps the honest from falling."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation.lie_search import TRUTH, best_lies, report_with
from fedpact.scenario.examples import hospitals
from fedpact.solvers.standalone import standalone_optimum

HOSPITALS = hospitals().federation
CLINIC = HOSPITALS.names.index("Clinic")


def test_a_report_changes_what_is_lied_about_and_nothing_else() -> None:
    said = report_with(HOSPITALS, {CLINIC: (2.0, 3.0, -0.5)})
    weights, true = said.weights, HOSPITALS.weights
    others = np.arange(HOSPITALS.n_agents) != CLINIC
    np.testing.assert_array_equal(weights[others], true[others])
    np.testing.assert_array_equal(weights[CLINIC, others], -0.5 * true[CLINIC, others])
    assert weights[CLINIC, CLINIC] == true[CLINIC, CLINIC]
    assert said.values[CLINIC] == 3.0 * HOSPITALS.values[CLINIC]
    assert report_with(HOSPITALS, {CLINIC: TRUTH}).fingerprint == HOSPITALS.fingerprint


@pytest.mark.slow
def test_claiming_harm_pays_and_takes_others_below_standing_alone() -> None:
    found = best_lies(HOSPITALS, "externality", liars=[[CLINIC]])
    assert found.factors[0][2] < 0.0 < found.lowest
    # The gain by hand: solved on the report, judged by the truth.
    lie = fp.ExternalityMechanism().solve(report_with(HOSPITALS, {CLINIC: found.factors[0]}))
    true = HOSPITALS.payoffs(lie.contributions) - HOSPITALS.costs.value(lie.contributions) + lie.payments
    honest = fp.ExternalityMechanism().solve(HOSPITALS).utilities
    np.testing.assert_allclose(found.gain, (true - honest)[CLINIC], rtol=1e-9)
    alone = standalone_optimum(HOSPITALS)[1]
    np.testing.assert_allclose(found.lowest, np.delete(alone - true, CLINIC).max(), rtol=1e-9)


@pytest.mark.slow
def test_refusal_keeps_everybody_honest_at_standing_alone() -> None:
    found = best_lies(HOSPITALS, "externality", liars=[[CLINIC]], refusal=True)
    assert found.lowest == 0.0 < found.gain
    assert found.gain < best_lies(HOSPITALS, "externality", liars=[[CLINIC]]).gain


@pytest.mark.slow
def test_nobody_alone_gains_by_lying_under_vcg() -> None:
    assert best_lies(HOSPITALS, "vcg", liars=[[CLINIC]]).gain == 0.0


@pytest.mark.slow
def test_two_gain_together_under_vcg() -> None:
    pair = [HOSPITALS.names.index("University"), HOSPITALS.names.index("City")]
    assert best_lies(HOSPITALS, "vcg", together=2, liars=[pair]).gain > 0.1

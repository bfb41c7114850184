"""How a margin becomes a verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest

from certificates.hand import INSTANCES, MECHANISMS
from fedpact.certificates import Certificate, Claim, Verdict


@pytest.mark.parametrize(
    ("margin", "proven", "verdict"),
    [
        (0.5, True, Verdict.HOLDS),
        (0.0, True, Verdict.HOLDS),
        (-1e-9, True, Verdict.HOLDS),  # on the tolerance
        (-1.0001e-9, True, Verdict.VIOLATED),
        (-1.0, True, Verdict.VIOLATED),
        (0.0, False, Verdict.NOT_REFUTED),
        (-1.0, False, Verdict.VIOLATED),  # a search can refute
        (math.nan, True, Verdict.NOT_REFUTED),
        (-math.inf, True, Verdict.VIOLATED),
        (math.nan, False, Verdict.NOT_REFUTED),
    ],
)
def test_verdict_follows_from_the_margin(margin: float, proven: bool, verdict: Verdict) -> None:
    certificate = Certificate.judge(Claim.NASH, margin, 1e-9, "everything", {"gain": -margin}, proven=proven)
    assert certificate.verdict is verdict
    assert certificate.holds == (verdict is Verdict.HOLDS)
    assert (certificate.claim, certificate.tol, certificate.scope) == (Claim.NASH, 1e-9, "everything")


def test_names_are_those_of_the_files_and_the_command_line() -> None:
    assert [str(claim) for claim in Claim] == [
        "nash",
        "budget-balance",
        "social-optimality",
        "individual-rationality",
        "reciprocity",
        "core",
        "split-proof",
        "fair-gains",
    ]
    assert [str(verdict) for verdict in Verdict] == ["holds", "not refuted", "undefined", "violated"]


def test_an_undefined_claim_does_not_hold() -> None:
    certificate = Certificate.undefined(Claim.RECIPROCITY, 1e-9, "no Shapley values")
    assert certificate.verdict is Verdict.UNDEFINED and not certificate.holds and math.isnan(certificate.margin)


@pytest.mark.parametrize("name", MECHANISMS)
def test_tolerances_are_a_share_of_what_is_at_stake_for_each(name: str) -> None:
    outcome = MECHANISMS[name].solve(INSTANCES["paper-w2"])
    at_stake = np.abs(outcome.payoffs) + outcome.costs + np.abs(outcome.payments)
    np.testing.assert_allclose(outcome.tolerances, 1e-8 * at_stake, rtol=1e-4)


def test_nothing_at_stake_leaves_a_floor() -> None:
    outcome = MECHANISMS["externality"].solve(INSTANCES["useless"])
    assert 0.0 < outcome.tolerances.sum() < 1e-12

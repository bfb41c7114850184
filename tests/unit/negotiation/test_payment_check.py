"""Money in the wrong pocket: compared with a second solve, and found from a cent up."""

from __future__ import annotations

import numpy as np
import pytest

import fedpact as fp
from fedpact.federation.arrays import FederationArrays
from fedpact.negotiation import check
from fedpact.negotiation.check import check_payments
from fedpact.utils.arrays import FloatArray
from old_hospitals import example

SCENARIO = example("hospitals")
FEDERATION, EUR = SCENARIO.federation, SCENARIO.money.per_payoff
EQUAL = fp.Federation([[1.0] * 3] * 3, costs=0.001, caps=400.0, payoff=fp.PowerLaw(beta=0.02))
WITH_PAYMENTS = (fp.ExternalityMechanism(), fp.ShapleyMechanism())
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])


def by_name(mechanism: fp.Mechanism) -> str:
    return mechanism.name


@pytest.mark.parametrize("mechanism", [*WITH_PAYMENTS, fp.Voluntary(), fp.Standalone()], ids=by_name)
def test_a_solved_deal_is_right_to_a_cent(mechanism: fp.Mechanism) -> None:
    found = check_payments(mechanism, mechanism.solve(FEDERATION), money=SCENARIO.money)
    assert found.error * EUR < 1e-5 and not found.exceeds


@pytest.mark.parametrize("mechanism", WITH_PAYMENTS, ids=by_name)
@pytest.mark.parametrize("moved", [1e-6, 1e-4])
def test_contributions_a_little_off_put_money_in_the_wrong_pocket(mechanism: fp.Mechanism, moved: float) -> None:
    solved = mechanism.solve(FEDERATION)
    forged = mechanism.outcome_at(FEDERATION, solved.contributions * (1.0 + moved * SIGNS))
    assert all(forged.certificates[claim].holds for claim in mechanism.claims)  # second order: nobody loses by it
    found = check_payments(mechanism, forged, money=SCENARIO.money)
    assert found.exceeds and found.method == check.COMPARED
    np.testing.assert_allclose(found.errors * EUR, np.abs(forged.payments - solved.payments) * EUR, atol=1e-4)


@pytest.mark.parametrize("mechanism", WITH_PAYMENTS, ids=by_name)
def test_two_cents_moved_from_one_to_another_are_found(mechanism: fp.Mechanism) -> None:
    solved = mechanism.solve(FEDERATION)
    payments = solved.payments + np.array([0.02, -0.02, 0.0, 0.0, 0.0]) / EUR
    forged = mechanism.outcome_at(FEDERATION, solved.contributions, payments)
    assert forged.certificates["budget-balance"].holds
    found = check_payments(mechanism, forged, money=SCENARIO.money)
    assert found.exceeds and found.error * EUR == pytest.approx(0.02, abs=1e-4)
    assert any(f'member "{name}" is paid' in found.paid for name in FEDERATION.names[:2])


def test_half_a_cent_is_rounding() -> None:
    mechanism = fp.ExternalityMechanism()
    solved = mechanism.solve(FEDERATION)
    payments = solved.payments + np.array([0.005, -0.005, 0.0, 0.0, 0.0]) / EUR
    forged = mechanism.outcome_at(FEDERATION, solved.contributions, payments)
    assert not check_payments(mechanism, forged, money=SCENARIO.money).exceeds


def test_money_where_the_rules_have_none() -> None:
    mechanism = fp.Voluntary()
    payments = np.array([0.02, -0.02, 0.0, 0.0, 0.0]) / EUR
    forged = mechanism.outcome_at(FEDERATION, mechanism.solve(FEDERATION).contributions, payments)
    found = check_payments(mechanism, forged, money=SCENARIO.money)
    assert found.exceeds and found.method == check.NO_PAYMENTS


def test_without_money_it_is_judged_by_the_turnover() -> None:
    mechanism = fp.ExternalityMechanism()
    solved = mechanism.solve(FEDERATION)
    for share, exceeds in ((2e-8, True), (5e-9, False)):
        payments = solved.payments + share * solved.deal.turnover * np.array([1.0, -1.0, 0.0, 0.0, 0.0])
        forged = mechanism.outcome_at(FEDERATION, solved.contributions, payments)
        assert check_payments(mechanism, forged).exceeds is exceeds


def test_any_of_many_optima_is_as_good() -> None:
    mechanism = fp.ExternalityMechanism()
    other = mechanism.solve(EQUAL).contributions + np.array([1.0, -1.0, 0.0])
    found = check_payments(mechanism, mechanism.outcome_at(EQUAL, other), money=SCENARIO.money)
    assert not found.exceeds and found.method == check.COMPARED
    wrong = check_payments(mechanism, mechanism.outcome_at(EQUAL, other * (1.0 + 1e-4)), money=SCENARIO.money)
    assert wrong.exceeds


@pytest.mark.parametrize("mechanism", WITH_PAYMENTS, ids=by_name)
def test_among_equals_all_payments_are_rounding(mechanism: fp.Mechanism) -> None:
    solved = mechanism.solve(EQUAL)
    noise = solved.payments + np.array([1e-16, -1e-16, 0.0])
    assert not check_payments(mechanism, mechanism.outcome_at(EQUAL, solved.contributions, noise)).exceeds


def test_other_rules_are_checked_by_their_own_payments() -> None:
    class Taxed(fp.ExternalityMechanism):
        name = "taxed"

        def payments(self, arrays: FederationArrays, contributions: FloatArray) -> FloatArray:
            return 0.9 * super().payments(arrays, contributions)

    mechanism = Taxed()
    solved = mechanism.solve(FEDERATION)
    assert check_payments(mechanism, solved, money=SCENARIO.money).method == check.COMPARED
    forged = mechanism.outcome_at(FEDERATION, solved.contributions, solved.payments / 0.9)
    assert check_payments(mechanism, forged, money=SCENARIO.money).exceeds
